"""Settings of models: which there are, what they share, and how they are read from mappings."""

from dataclasses import fields

import pytest

from xmlgp.errors import ClashError, OtherModelError, SettingsError
from xmlgp.settings import MODELS, BMLPLSettings, MLGPFSettings, check_names, models_with, settings_from

MLGPF, BMLPL = ({spec.name for spec in fields(of)} for of in (MLGPFSettings, BMLPLSettings))


def test_models_are_known_by_the_names_of_their_settings():
    assert {name: of.model for name, of in MODELS.items()} == {name: name for name in MODELS}
    # The name of a model stands beside settings, in recipes.
    assert all("model" not in (spec.name for spec in fields(of)) for of in MODELS.values())


def test_a_setting_is_the_same_in_all_models_that_have_it():
    # The command line has one option for all of them.
    first = {}
    for of in MODELS.values():
        for spec in fields(of):
            other = first.setdefault(spec.name, spec)
            assert (spec.type, spec.default, dict(spec.metadata)) == (other.type, other.default, dict(other.metadata))
    symbols = [spec.metadata["symbol"] for spec in first.values() if spec.metadata["symbol"]]
    assert len(set(symbols)) == len(symbols)


def test_models_with():
    assert models_with("seed") == ["mlgpf", "bmlpl"]
    assert models_with("topics") == ["bmlpl"]
    assert models_with("factors") == ["mlgpf"]
    assert models_with("model") == models_with(("a", "tuple")) == []


def test_settings_from_fills_in_defaults():
    settings = settings_from({"factors": 7, "ard": False}, "here")
    assert settings == MLGPFSettings(factors=7, ard=False)
    assert settings_from({}, "here") == MLGPFSettings()
    assert settings_from({"topics": 7}, "here", "bmlpl") == BMLPLSettings(topics=7)


def test_a_mapping_may_name_its_model():
    mapping = {"model": "bmlpl", "topics": 7}
    assert settings_from(mapping, "here") == BMLPLSettings(topics=7)
    assert mapping == {"model": "bmlpl", "topics": 7}
    for model in MODELS:
        settings = MODELS[model](seed=5)
        assert settings_from(settings.with_model(), "here") == settings_from(settings.mapping(), "here", model)
    # Where the model is known, it is no setting.
    with pytest.raises(SettingsError, match="^here: model is not a setting; there are "):
        settings_from(mapping, "here", "bmlpl")


@pytest.mark.parametrize(
    ("model", "shown"),
    [("MLGPF", "'MLGPF'"), ("", "''"), (None, "None"), (["mlgpf"], "['mlgpf']"), ({}, "{}"), (3, "3")],
)
def test_an_unknown_model_is_refused_with_those_there_are(model, shown):
    with pytest.raises(SettingsError) as caught:
        settings_from({"model": model, "factors": 3}, "recipe x")
    assert str(caught.value) == f"recipe x: model is {shown}, but must be one of mlgpf, bmlpl"


@pytest.mark.parametrize(
    ("name", "model", "told"),
    [
        ("topics", "mlgpf", "topics is a setting of bmlpl, not of mlgpf"),
        ("kernel", "bmlpl", "kernel is a setting of mlgpf, not of bmlpl"),
    ],
)
def test_a_setting_of_another_model_is_refused_with_its_models(name, model, told):
    for refuse in (settings_from, check_names):
        with pytest.raises(OtherModelError) as caught:
            refuse({name: 1, "seed": 3}, "recipe x", model)
        assert str(caught.value) == f"recipe x: {told}"
        assert (caught.value.name, caught.value.model) == (name, model)
    check_names(["seed", "weighting"], "recipe x", model)


def test_a_wrong_value_says_where():
    with pytest.raises(SettingsError, match=r"^recipe x: factors is 0, but must be an integer"):
        settings_from({"factors": 0}, "recipe x")
    with pytest.raises(SettingsError, match=r"^recipe x: topics is 0, but must be an integer"):
        settings_from({"model": "bmlpl", "topics": 0}, "recipe x")


CLASHES = [
    ({"inference": "gibbs", "iterations": 5, "burn_in": 5}, "burn_in is 5, but must be less than iterations, 5"),
    ({"inference": "gibbs", "burn_in": 200}, "burn_in is 200, but must be less than iterations, 200 when not given"),
    (
        {"inference": "online-em", "learn_precision": True},
        "inference online-em learns no precisions, which learn_precision asks for",
    ),
]


@pytest.mark.parametrize(("mapping", "told"), CLASHES)
def test_settings_that_do_not_fit_each_other(mapping, told):
    with pytest.raises(ClashError) as caught:
        BMLPLSettings(**mapping)
    assert str(caught.value) == told
    with pytest.raises(ClashError) as caught:
        settings_from(mapping, "recipe x", "bmlpl")
    assert str(caught.value) == f"recipe x: {told}"
    for name in mapping:
        BMLPLSettings(**{key: value for key, value in mapping.items() if key != name})


def test_what_only_one_inference_looks_at_is_no_clash():
    assert BMLPLSettings(iterations=5, burn_in=5).passes == 5
    assert BMLPLSettings(inference="gibbs", iterations=5, burn_in=4).burned == 4
    assert BMLPLSettings(inference="gibbs", iterations=1).burned == 0


@pytest.mark.parametrize(("model", "known"), [("mlgpf", MLGPF), ("bmlpl", BMLPL)])
@pytest.mark.parametrize("mapping", [{"latents": 3}, {"Factors": 3}, {3: 4}, {None: 1, "seed": 3, (1, 2): 0}])
def test_unknown_names_are_refused_and_the_known_ones_listed(mapping, model, known):
    unknown = min(str(name) for name in mapping if name not in known)
    with pytest.raises(SettingsError) as caught:
        settings_from(mapping, "recipe x", model)
    assert str(caught.value).startswith(f"recipe x: {unknown} is not a setting; there are ")
    assert str(caught.value).endswith(", ".join(sorted(known)))


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
        settings_from({name: 1}, "my.yaml")
    assert str(caught.value).startswith(f"my.yaml: {shown} is not a setting; there are ard, ")
