"""Fields of settings: which values are allowed, and the messages for others."""

import dataclasses
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.problems import DETERMINISTIC
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.models.fields import describe, kind
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.models.table import MODELS
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.untrusted_text import excerpt

BY_NAME = {spec.name: spec for spec in fields(MLGPFSettings)}


@pytest.mark.parametrize("of", [model.settings for model in MODELS.values()], ids=MODELS)
def test_defaults_are_allowed_and_explained(of):
    of()
    for spec in fields(of):
        assert spec.metadata["help"].endswith(".")
        assert describe(spec)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("kernel", "rbf", "one of linear, se, se+linear"),
        ("kernel", None, "one of linear, se, se+linear"),
        ("kernel", ["se"], "one of linear, se, se+linear"),
        ("factors", 0, "an integer from 1 to 1000000000"),
        ("factors", 10**30, "an integer from 1 to 1000000000"),
        ("factors", 3.0, "an integer from 1 to 1000000000"),
        ("factors", "3", "an integer from 1 to 1000000000"),
        ("factors", True, "an integer from 1 to 1000000000"),
        ("nodes", 101, "an integer from 1 to 100"),
        ("seed", -1, "an integer from 0 to 4294967295"),
        ("seed", 2**32, "an integer from 0 to 4294967295"),
        ("ard", 1, "true or false"),
        ("ard", None, "true or false"),
        ("learning_rate", 0, "a finite number above 0"),
        ("learning_rate", float("nan"), "a finite number above 0"),
        ("learning_rate", float("inf"), "a finite number above 0"),
        ("learning_rate", 10**400, "a finite number above 0"),
        ("learning_rate", True, "a finite number above 0"),
        ("learning_rate", "0.1", "a finite number above 0"),
        ("epochs", 10**6 + 1, "an integer from 1 to 1000000"),
        ("inducing_count", None, "an integer from 1 to 1000000000"),
    ],
)
def test_a_value_outside_its_limits_is_refused_with_what_is_allowed(name, value, allowed):
    with pytest.raises(SettingsError) as caught:
        MLGPFSettings(**{name: value})
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
        ("epochs", None),
    ],
)
def test_the_limits_themselves_are_allowed(name, value):
    assert getattr(MLGPFSettings(**{name: value}), name) == value


@DETERMINISTIC
@given(st.sampled_from([spec.name for spec in fields(MLGPFSettings) if kind(spec) is int]), st.integers())
def test_integers_are_allowed_exactly_within_the_limits_described(name, value):
    low, high = (int(word) for word in describe(BY_NAME[name]).split()[3::2])
    try:
        MLGPFSettings(**{name: value})
    except SettingsError:
        assert not low <= value <= high
    else:
        assert low <= value <= high


def test_settings_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        MLGPFSettings().factors = 3


def test_mappings():
    settings = BMLPLSettings(topics=3)
    assert settings.mapping() == dataclasses.asdict(settings)
    assert list(settings.with_model().items()) == [("model", "bmlpl"), *settings.mapping().items()]


def test_preprocess_part_is_what_preprocessing_depends_on():
    part = MLGPFSettings(seed=4, factors=3).preprocess_part()
    assert part.keys() == {"weighting", "inducing", "basis_size", "inducing_count", "inducing_start", "kernel", "seed"}
    assert part["seed"] == 4
    assert MLGPFSettings(factors=9).preprocess_part() == MLGPFSettings(factors=3).preprocess_part()
    assert BMLPLSettings(topics=9, weighting="unit", seed=2).preprocess_part() == {"weighting": "unit", "seed": 2}


def test_preprocess_part_of_the_kernel_is_its_se_term():
    parts = [MLGPFSettings(kernel=kernel).preprocess_part() for kernel in ("linear", "se", "se+linear")]
    assert parts[0] != parts[1] == parts[2]


@pytest.mark.parametrize("value", ["x" * 10**6, [["x"] * 1000] * 1000, -(16**5000), {"a": {"b": {"c": "d"}}}], ids=type)
def test_messages_show_the_start_of_a_wrong_value(value):
    with pytest.raises(SettingsError, match="^factors is .*, but must be an integer from 1") as caught:
        MLGPFSettings(factors=value)
    assert len(str(caught.value)) < 200
