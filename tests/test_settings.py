"""Settings: what is allowed, what is refused, and how it is said."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.problems import STEADY
from xmlgp.errors import SettingsError
from xmlgp.excerpt import excerpt
from xmlgp.settings import PREPROCESS_FIELDS, Settings, describe, fields, kind

BY_NAME = {spec.name: spec for spec in fields()}


def test_defaults_are_allowed_and_explained():
    Settings()
    for spec in fields():
        assert spec.metadata["help"].endswith(".")
        assert describe(spec)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("kernel", "rbf", "one of linear, se, se+linear"),
        ("kernel", "", "one of linear, se, se+linear"),
        ("kernel", None, "one of linear, se, se+linear"),
        ("kernel", ["se"], "one of linear, se, se+linear"),
        ("posterior", "Cholesky", "one of shared-diagonal, diagonal, cholesky"),
        ("factors", 0, "an integer from 1 to 1000000000"),
        ("factors", -3, "an integer from 1 to 1000000000"),
        ("factors", 10**30, "an integer from 1 to 1000000000"),
        ("factors", 3.0, "an integer from 1 to 1000000000"),
        ("factors", "3", "an integer from 1 to 1000000000"),
        ("factors", True, "an integer from 1 to 1000000000"),
        ("factors", None, "an integer from 1 to 1000000000"),
        ("negatives", 0, "an integer from 1 to 1000000000"),
        ("nodes", 101, "an integer from 1 to 100"),
        ("seed", -1, "an integer from 0 to 4294967295"),
        ("seed", 2**32, "an integer from 0 to 4294967295"),
        ("ard", 1, "true or false"),
        ("ard", "yes", "true or false"),
        ("ard", None, "true or false"),
        ("learning_rate", 0, "a finite number above 0"),
        ("learning_rate", -0.1, "a finite number above 0"),
        ("learning_rate", float("nan"), "a finite number above 0"),
        ("learning_rate", float("inf"), "a finite number above 0"),
        ("learning_rate", 10**400, "a finite number above 0"),
        ("learning_rate", True, "a finite number above 0"),
        ("learning_rate", "0.1", "a finite number above 0"),
        ("validation", -5e-324, "a number from 0 to 0.5"),
        ("validation", 0.500001, "a number from 0 to 0.5"),
        ("validation", 1, "a number from 0 to 0.5"),
        ("validation", float("nan"), "a number from 0 to 0.5"),
        ("validation", float("inf"), "a number from 0 to 0.5"),
        ("validation", True, "a number from 0 to 0.5"),
        ("validation", "0.1", "a number from 0 to 0.5"),
        ("validation", None, "a number from 0 to 0.5"),
        ("epochs", 0, "an integer from 1 to 1000000"),
        ("epochs", 10**6 + 1, "an integer from 1 to 1000000"),
        ("patience", None, "an integer from 1 to 1000000000"),
        ("regression_points", -1, "an integer from 0 to 1000000000"),
    ],
)
def test_a_value_outside_its_limits_is_refused_with_what_is_allowed(name, value, allowed):
    with pytest.raises(SettingsError) as caught:
        Settings(**{name: value})
    assert str(caught.value) == f"{name} is {excerpt(value)}, but must be {allowed}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", 0),
        ("seed", 2**32 - 1),
        ("nodes", 100),
        ("factors", 10**9),
        ("learning_rate", 1),  # JSON writes 1.0 as 1
        ("learning_rate", 5e-324),
        ("negatives", None),
        ("negatives", 1),
        ("batch_size_first", None),
        ("validation", 0),
        ("validation", 0.0),
        ("validation", 0.5),
        ("epochs", None),
        ("regression_points", 0),
    ],
)
def test_the_limits_themselves_are_allowed(name, value):
    assert getattr(Settings(**{name: value}), name) == value


@STEADY
@given(st.sampled_from([spec.name for spec in fields() if kind(spec) is int]), st.integers())
def test_integers_are_allowed_exactly_within_the_limits_described(name, value):
    low, high = (int(word) for word in describe(BY_NAME[name]).split()[3::2])
    try:
        Settings(**{name: value})
    except SettingsError:
        assert not low <= value <= high
    else:
        assert low <= value <= high


def test_from_mapping_fills_in_defaults():
    settings = Settings.from_mapping({"factors": 7, "ard": False}, "here")
    assert settings == Settings(factors=7, ard=False)
    assert Settings.from_mapping({}, "here") == Settings()


def test_from_mapping_says_where():
    with pytest.raises(SettingsError, match=r"^recipe x: factors is 0, but must be an integer"):
        Settings.from_mapping({"factors": 0}, "recipe x")


@pytest.mark.parametrize("mapping", [{"latents": 3}, {"Factors": 3}, {3: 4}, {None: 1, "factors": 3, (1, 2): 0}])
def test_from_mapping_refuses_unknown_names_and_lists_the_known_ones(mapping):
    unknown = min(str(name) for name in mapping if name not in BY_NAME)
    with pytest.raises(SettingsError) as caught:
        Settings.from_mapping(mapping, "recipe x")
    assert str(caught.value).startswith(f"recipe x: {unknown} is not a setting; there are ")
    assert str(caught.value).endswith(", ".join(sorted(BY_NAME)))


def test_settings_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().factors = 3


def test_preprocess_part_is_what_preprocessing_depends_on():
    assert set(PREPROCESS_FIELDS) == {
        "weighting", "inducing", "basis_size", "inducing_count", "inducing_start", "seed",
    }  # fmt: skip
    part = Settings(seed=4, factors=3).preprocess_part()
    assert part.keys() == set(PREPROCESS_FIELDS)
    assert part["seed"] == 4
    assert Settings(factors=9).preprocess_part() == Settings(factors=3).preprocess_part()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("heads", "heads"),
        ("two\nlines", r"'two\nlines'"),
        (3, "3"),
        (None, "None"),
        (16**5000, "a number of 20001 bits"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_is_no_setting_is_named_in_one_line(name, shown):
    with pytest.raises(SettingsError) as caught:
        Settings.from_mapping({name: 1}, "my.yaml")
    assert str(caught.value).startswith(f"my.yaml: {shown} is not a setting; there are ard, ")


@pytest.mark.parametrize("value", ["x" * 10**6, [["x"] * 1000] * 1000, -(16**5000), {"a": {"b": {"c": "d"}}}], ids=type)
def test_of_a_wrong_value_the_start_is_shown(value):
    with pytest.raises(SettingsError, match="^factors is .*, but must be an integer from 1") as caught:
        Settings(factors=value)
    assert len(str(caught.value)) < 200
