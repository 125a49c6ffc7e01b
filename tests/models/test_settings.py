"""Settings of the models: what they share, and how they are read from mappings and from text."""

import dataclasses
from dataclasses import fields

import pytest

from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.models.fields import in_words, kind
from xmlgp.models.gpc.settings import GPCSettings
from xmlgp.models.mlgpf.settings import INDUCING, MLGPFSettings
from xmlgp.models.mlgpf.train import training_rate
from xmlgp.models.table import MODELS, check_names, fields_of, read_settings, settings_from
from xmlgp.runtime.errors import SettingsError


def test_models_are_known_by_the_names_of_their_settings():
    assert {name: model.settings.model for name, model in MODELS.items()} == {name: name for name in MODELS}
    # Recipes have the name of a model beside its settings.
    assert all("model" not in (spec.name for spec in fields(model.settings)) for model in MODELS.values())


def test_a_setting_has_the_same_type_in_all_models_that_have_it():
    kinds = {}
    for model in MODELS:
        for name, spec in fields_of(model).items():
            assert kinds.setdefault(name, kind(spec)) is kind(spec)


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
        settings = MODELS[model].settings(seed=5)
        assert settings_from(settings.with_model(), "here") == settings_from(settings.mapping(), "here", model)
    # With an explicit model, `model` is an unknown setting.
    with pytest.raises(SettingsError, match="^here: model is not a setting; "):
        settings_from(mapping, "here", "bmlpl")


@pytest.mark.parametrize(
    ("model", "shown"),
    [("MLGPF", "'MLGPF'"), ("", "''"), (None, "None"), (["mlgpf"], "['mlgpf']"), ({}, "{}"), (3, "3")],
)
def test_an_unknown_model_is_refused_with_a_list_of_models(model, shown):
    with pytest.raises(SettingsError) as caught:
        settings_from({"model": model, "factors": 3}, "recipe x")
    assert str(caught.value) == f"recipe x: model is {shown}, but must be one of mlgpf, bmlpl, gpc"


@pytest.mark.parametrize(
    ("name", "model", "message"),
    [
        ("topics", "mlgpf", "topics is a setting of bmlpl, not of mlgpf"),
        ("kernel", "bmlpl", "kernel is a setting of mlgpf, not of bmlpl"),
        ("nodes", "bmlpl", "nodes is a setting of mlgpf and gpc, not of bmlpl"),
        ("dtype", "gpc", "dtype is a setting of mlgpf and bmlpl, not of gpc"),
        ("inducing_start", "gpc", "inducing_start is a setting of mlgpf, not of gpc"),
    ],
)
def test_a_setting_of_another_model_is_refused_with_its_models(name, model, message):
    for refuse in (settings_from, check_names):
        with pytest.raises(SettingsError, match=f"^recipe x: {message}$"):
            refuse({name: 1, "seed": 3}, "recipe x", model)
    with pytest.raises(SettingsError, match=f"^{message}$"):
        read_settings({name: "1"}, model)
    check_names(["seed", "batch_size"], "recipe x", model)


def test_a_wrong_value_says_where():
    with pytest.raises(SettingsError, match=r"^recipe x: topics is 0, but must be an integer"):
        settings_from({"model": "bmlpl", "topics": 0}, "recipe x")


@pytest.mark.parametrize("model", MODELS)
def test_all_values_can_be_written_as_text(model):
    for name, spec in fields_of(model).items():
        other = {bool: not spec.default, int: 7, float: 0.375}
        value = spec.metadata["choices"] and list(spec.metadata["choices"])[-1] or other[kind(spec)]
        assert read_settings({name: in_words(value)}, model) == {name: value}
        assert read_settings({name: in_words(value)}) == {name: value}


@pytest.mark.parametrize(
    ("texts", "model", "message"),
    [
        ({"lable_sample": "9"}, None, "lable_sample is not a setting; did you mean label_sample?"),
        ({"batch-size": "5"}, "gpc", "batch-size is not a setting; did you mean batch_size?"),
        ({"epochs": "1.5"}, None, "epochs is '1.5', but must be an integer from 1 to 1000000"),
        ({"epochs": ""}, None, "epochs is '', but must be an integer from 1 to 1000000"),
        ({"learning_rate": "nan"}, None, "learning_rate is nan, but must be a finite number above 0"),
        ({"ard": "yes"}, "mlgpf", "ard is 'yes', but must be true or false"),
        # Without a model, a value of any model is allowed.
        ({"inference": "em", "kernel": "rbf"}, None, "kernel is 'rbf', but must be one of linear, se, se+linear"),
        ({"inference": "vi-jj"}, "bmlpl", "inference is 'vi-jj', but must be one of em-cg, em, online-em, gibbs"),
    ],
)
def test_text_that_is_no_setting_is_refused(texts, model, message):
    with pytest.raises(SettingsError) as caught:
        read_settings(texts, model)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "model", [model for model, record in MODELS.items() if "iterations" in vars(record.settings())]
)
def test_the_default_number_of_iterations_is_the_documented_one(model):
    (spec,) = (spec for spec in fields(MODELS[model].settings) if spec.name == "inference")
    (text,) = (spec.metadata["if_unset"] for spec in fields(MODELS[model].settings) if spec.name == "iterations")
    for inference in spec.metadata["choices"]:
        settings = MODELS[model].settings(inference=inference)
        # The number stands before the name of the method.
        message = text.split(inference)[0]
        assert str(settings.passes) == [word for word in message.split() if word.isdigit()][-1]
        assert MODELS[model].settings(inference=inference, iterations=7).passes == 7


@pytest.mark.parametrize(
    ("settings", "unused"),
    [
        (MLGPFSettings(), ["label_sample", "neighbours"]),
        (MLGPFSettings(inducing="subspace"), ["label_sample", "neighbours"]),
        (MLGPFSettings(inducing="features"), sorted(INDUCING.settings)),
        (MLGPFSettings(calibration=False), ["label_sample", "neighbours"]),
        (BMLPLSettings(), ["batch_size", "burn_in", "thinning"]),
        (BMLPLSettings(inference="gibbs"), ["batch_size", "cg_steps"]),
        (GPCSettings(), ["batch_size", "learning_rate"]),
        (GPCSettings(inference="vi-taylor"), ["batch_size", "learning_rate"]),
        (GPCSettings(inference="svi-adadelta"), []),
    ],
    ids=repr,
)
def test_unused_settings(settings, unused):
    assert sorted(settings.unused()) == unused
    assert settings.unused().keys() <= set(settings.mapping())


CLASHES = [
    ({"inference": "gibbs", "iterations": 5, "burn_in": 5}, "burn_in is 5, but must be less than iterations, 5"),
    ({"inference": "gibbs", "burn_in": 200}, "burn_in is 200, but must be less than iterations, 200 by default"),
    ({"inference": "online-em", "learn_precision": True}, "inference=online-em does not support learn_precision=true"),
]


@pytest.mark.parametrize(("mapping", "message"), CLASHES)
def test_settings_that_contradict_each_other_are_refused(mapping, message):
    with pytest.raises(SettingsError) as caught:
        BMLPLSettings(**mapping)
    assert str(caught.value) == message
    with pytest.raises(SettingsError) as caught:
        settings_from(mapping, "recipe x", "bmlpl")
    assert str(caught.value) == f"recipe x: {message}"
    for name in mapping:
        BMLPLSettings(**{key: value for key, value in mapping.items() if key != name})
    # Those of other inference methods do not.
    assert BMLPLSettings(iterations=5, burn_in=5).passes == 5


NEEDS = "label_weights=true needs inducing=features and kernel=linear"


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"inducing": "features", "kernel": "se"}, "inducing=features needs kernel=linear"),
        ({"inducing": "free", "label_weights": True}, NEEDS),
        ({"inducing": "subspace", "label_weights": True}, NEEDS),
        ({"kernel": "se", "label_weights": True}, NEEDS),
        ({"kernel": "se+linear", "inducing": "free", "label_weights": True}, NEEDS),
    ],
)
def test_settings_that_only_weight_space_or_inducing_inputs_have_are_refused(mapping, message):
    with pytest.raises(SettingsError) as caught:
        settings_from(mapping, "recipe x", "mlgpf")
    assert str(caught.value) == f"recipe x: {message}"
    if message == NEEDS:
        for value in (False, None):
            assert MLGPFSettings(**mapping | {"label_weights": value}).for_shape(9, 9, 9).label_weights is value
    assert MLGPFSettings(label_weights=True).for_shape(9, 9, 9).inducing == "features"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("heads", "heads"),
        ("two\nlines", r"'two\nlines'"),
        (3, "3"),
        (None, "None"),
        (16**5000, "a number of thousands of digits"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unknown_name_of_any_type_is_shown_in_one_line_with_the_known_ones(name, shown):
    with pytest.raises(SettingsError) as caught:
        settings_from({name: 1, "seed": 3}, "my.yaml")
    assert str(caught.value) == f"my.yaml: {shown} is not a setting; there are {', '.join(sorted(fields_of('mlgpf')))}"


@pytest.mark.parametrize(
    ("chosen", "inducing", "start"),
    [
        ({}, "features", "rows"),
        ({"kernel": "se"}, "free", "kmeans"),
        ({"kernel": "se+linear"}, "free", "kmeans"),
        ({"inducing": "free"}, "free", "rows"),
        ({"inducing": "free", "inducing_start": "kmeans"}, "free", "kmeans"),
        ({"kernel": "se", "inducing_start": "rows"}, "free", "rows"),
        ({"inducing": "subspace"}, "subspace", "kmeans"),
        ({"inducing": "subspace", "kernel": "se"}, "subspace", "kmeans"),
        ({"inducing": "features"}, "features", "rows"),
    ],
)
def test_inducing_inputs_and_their_start_depend_on_the_kernel(chosen, inducing, start):
    settings = MLGPFSettings(**chosen).for_shape(10_001, 3, 1999)
    assert settings == MLGPFSettings(**chosen | {"inducing": inducing, "inducing_start": start, "factors": 100})


@pytest.mark.parametrize("inducing", ["free", "features"])
@pytest.mark.parametrize(
    ("K", "factors"), [(1, 100), (50_499, 100), (50_500, 101), (75_000, 150), (100_000, 200), (10**6, 200)]
)
def test_the_number_of_latent_functions_depends_on_the_number_of_labels(inducing, K, factors):
    settings = MLGPFSettings(inducing=inducing)
    assert settings.for_shape(10, 3, K).factors == factors
    chosen = MLGPFSettings(inducing=inducing, inducing_start="rows", factors=7)
    assert chosen.for_shape(10, 3, K) == chosen


def test_defaults_that_depend_on_the_inducing_inputs():
    free, features = MLGPFSettings(inducing="free"), MLGPFSettings(inducing="features")
    assert (free.factor_count, features.factor_count) == (100, 100)
    assert (free.epoch_count(10**6), features.epoch_count(10**6)) == (5, 2)
    # 80 minibatches of 500 points: 800 and 600 steps.
    assert (free.epoch_count(40_000), features.epoch_count(40_000)) == (10, 8)
    assert (free.epoch_count(20_000), features.epoch_count(20_000)) == (20, 12)
    assert (free.epoch_count(12_000), features.epoch_count(12_000)) == (33, 12)
    assert (free.epoch_count(100), features.epoch_count(100)) == (60, 60)
    chosen = MLGPFSettings(inducing="features", factors=3, epochs=2)
    assert (chosen.factor_count, chosen.epoch_count(10**6)) == (3, 2)


@pytest.mark.parametrize(
    ("K", "expected"), [(0, 1), (1, 1), (1000, 1000), (1001, 300), (6000, 400), (15_000, 1000), (10**6, 1000)]
)
def test_labels_of_a_minibatch_follow_from_the_number_of_labels(K, expected):
    assert MLGPFSettings().sampled_labels(K) == expected
    assert MLGPFSettings(label_sample=7).sampled_labels(K) == 7


def test_the_rate_is_higher_where_points_and_points_per_label_are_many():
    settings = MLGPFSettings(inducing="features")
    assert training_rate(settings, 100_000, 25_000) == 0.15
    assert training_rate(settings, 100_000, 25_001) == training_rate(settings, 99_999, 10) == 0.1
    for chosen, rate in ({"learning_rate": 0.3}, 0.3), ({"optimiser": "adam"}, 0.02), ({"inducing": "free"}, 0.02):
        assert training_rate(dataclasses.replace(settings, **chosen), 100_000, 25_000) == rate
