"""`xmlgp train`: where its settings come from, what it reports, and how it fails."""

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import SMALL, run, said
from tests.problems import small_dataset
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.cli.settings_options import FLAGS
from xmlgp.data.repository_format import write_dataset
from xmlgp.gpc.settings import GPCSettings
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS, fields_of
from xmlgp.runs import train as train_module
from xmlgp.runs.plan import plan_run
from xmlgp.runs.train import train_model
from xmlgp.runtime.interrupts import Interrupted

pytestmark = pytest.mark.usefixtures("workdir")

DEFAULT = MLGPFSettings(inducing="features", factors=2, inducing_count=5, epochs=1)
RECIPE = MLGPFSettings(inducing="subspace", basis_size=9, inducing_count=6, factors=3, epochs=2, ard=False, seed=5)


def changed(settings, **changes):
    return MLGPFSettings(**vars(settings) | changes)


def test_the_command_gives_the_model_of_the_library():
    result = run("train", "data", "models/a", *SMALL)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("models/a: trained, 2 epochs, ")
    folder = ModelFolder("models/a")
    sizes = {"factors": 3, "epochs": 2, "batch_size": 16}
    assert folder.settings == changed(DEFAULT, **sizes)
    expected = train_model(small_dataset(), "b", folder.settings)
    assert folder.description["data"] == expected.description["data"]
    for name, array in expected.arrays("").items():
        np.testing.assert_array_equal(folder.array(name), array)


def test_quiet_prints_nothing():
    result = run("train", "data", "model", "--recipe", "s-SMALL", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_the_default_recipe_is_used_without_options():
    run("train", "data", "model")
    assert ModelFolder("model").settings == DEFAULT


def test_options_override_the_settings_of_a_recipe_for_the_data_set():
    result = run("train", "data", "model", "--recipe", "s-SMALL", "--factors", "4", "--set", "ard=true")
    assert result.stderr.splitlines()[0] == "model: recipe s-SMALL of the model mlgpf with its settings for known"
    assert ModelFolder("model").settings == changed(RECIPE, factors=4, ard=True)


class Stop(Exception):
    """Raised instead of training, with the settings."""


@pytest.fixture
def stopped(monkeypatch):
    """Return a function that returns the settings of `xmlgp train data model` with some options."""

    def stop(dataset, path, request, progress, **options):
        raise Stop(plan_run(Path(path), dataset, request, None, print).settings)

    monkeypatch.setattr("xmlgp.runs.train.train_model", stop)

    def call(*options):
        with pytest.raises(Stop) as caught:
            run("train", "data", "model", *options)
        return caught.value.args[0]

    return call


@pytest.mark.parametrize("name", FLAGS)
def test_every_option_reaches_its_setting(stopped, name):
    model = next(model for model in MODELS if name in fields_of(model))
    spec = fields_of(model)[name]
    value = next((choice for choice in spec.metadata["choices"] or () if choice != spec.default), 3)
    option = ["--" + name.replace("_", "-"), str(value)]
    if name == "label_weights":
        value, option = False, ["--no-label-weights"]
    # The default inducing inputs are for a linear kernel only.
    settings = MODELS[model].settings(**{"inducing": "free"} if name == "kernel" else {})
    changes = {name: value} | ({"epochs": 1} if model == "mlgpf" and name != "epochs" else {})
    found = stopped("--model", model, *option, *(["--inducing", "free"] if name == "kernel" else []))
    assert getattr(found, name) == value
    differing = {other for other, mine in vars(found).items() if mine != getattr(settings, other)}
    assert differing <= changes.keys() | {"factors", "inducing_count", "epochs", "inducing"}


def test_any_setting_can_be_set(stopped):
    assert stopped("--set", "nodes=7", "--set", "ard=false", "-P", "4") == changed(
        DEFAULT, nodes=7, ard=False, factors=4
    )
    assert stopped("--model", "gpc", "--set", "standardise=false") == GPCSettings(standardise=False)


def test_label_weights_beside_the_inducing_inputs_of_preprocessing_are_refused():
    run("preprocess", "data", "model", "--recipe", "s-SMALL")
    message = "model: label_weights=true needs inducing=features and kernel=linear"
    assert said(run("train", "data", "model", "--label-weights")) == message


def test_a_recipe_decides_the_model(workdir, stopped):
    with open("catalogue.yaml", "a") as catalogue:
        catalogue.write("  some-topics:\n    settings: {model: bmlpl, topics: 5}\n")
    assert stopped("--recipe", "some-topics", "--seed", "3") == BMLPLSettings(topics=5, seed=3)
    assert stopped("--recipe", "some-topics", "--model", "bmlpl") == BMLPLSettings(topics=5)
    message = said(run("train", "data", "model", "--recipe", "some-topics", "--model", "mlgpf"))
    assert message == "recipe some-topics is of the model bmlpl, not of mlgpf"
    message = said(run("train", "data", "model", "--recipe", "some-topics", "-P", "3"))
    assert message == "recipe some-topics: factors is a setting of mlgpf, not of bmlpl"
    message = said(run("train", "data", "model", "--recipe", "s-SMALL", "--model", "bmlpl"))
    assert message == "recipe s-SMALL is of the model mlgpf, not of bmlpl"


def test_options_without_effect_are_reported(workdir):
    options = ["--model", "bmlpl", "--iterations", "1", "--topics", "1000", "--set", "burn_in=0", "--batch-size", "9"]
    message = run("train", "data", "model", *options).stderr.splitlines()
    K = ModelFolder("model").description["data"]["K"]
    assert message[:-1] == [
        "model: batch_size has no effect with inference=em-cg",
        "model: burn_in has no effect with inference=em-cg",
        f"model: there are only {K} labels, so {K} topics are used",
    ]
    assert message[-1].startswith("model: trained, 1 iteration, ")
    assert run("train", "data", "model", "-q", *options).stderr == ""


def test_options_of_gpc_without_effect_are_reported(workdir):
    write_dataset("one.txt", small_dataset(K=1))
    options = ["--model", "gpc", "-M", "5", "--iterations", "1", "--batch-size", "9", "--learning-rate", "0.1"]
    message = run("train", "one.txt", "model", *options, "--inference", "vi-jj").stderr.splitlines()
    assert message[:-1] == [
        "model: batch_size has no effect with inference=vi-jj",
        "model: learning_rate has no effect with inference=vi-jj",
    ]
    assert message[-1].startswith("model: trained, 1 iteration, ")
    message, advice = run("train", "one.txt", "other", *options, "--inference", "svi-adadelta").stderr.splitlines()
    assert message.startswith("other: trained, 1 iteration, ")
    assert advice == (
        "other: the bound is lower than that of a constant prediction; try another inference, or another learning_rate"
    )


def test_models_without_a_default_recipe_have_their_own_defaults(stopped):
    assert stopped("--model", "mlgpf") == DEFAULT
    assert stopped("--model", "bmlpl") == BMLPLSettings()
    assert stopped("--model", "gpc") == GPCSettings()


def test_training_uses_the_model_of_preprocessing(stopped):
    run("preprocess", "data", "model", "--model", "bmlpl", "--seed", "6")
    assert stopped("--topics", "4") == BMLPLSettings(seed=6, topics=4)
    assert stopped("--model", "bmlpl") == BMLPLSettings(seed=6)
    # Another model is trained from the start.
    assert stopped("--model", "mlgpf") == DEFAULT
    assert stopped("--recipe", "default") == DEFAULT
    message = said(run("train", "data", "model", "--factors", "3"))
    assert message == "model: factors is a setting of mlgpf, not of bmlpl"


def test_resume_refuses_another_model(monkeypatch):
    run("train", "data", "model", *SMALL)
    message = said(run("train", "data", "model", "--resume", "--model", "bmlpl", "--topics", "3"))
    assert (
        message
        == "model: the model is of mlgpf, not bmlpl; leave the option out, or use --no-resume to start a new run"
    )
    message = said(run("train", "data", "model", "--resume", "--topics", "3"))
    assert message == "model: topics is a setting of bmlpl, not of mlgpf"
    assert run("train", "data", "model", "--resume", "--model", "mlgpf", "-P", "3").exit_code == 0


def test_training_uses_the_settings_and_arrays_of_preprocessing(monkeypatch):
    run("preprocess", "data", "model", "--recipe", "s-SMALL", "--seed", "6")
    kept = ModelFolder("model").entries("preprocess.")
    monkeypatch.setattr(train_module, "preprocess_data", None)
    assert run("train", "data/train.txt", "model", "--factors", "4").exit_code == 0
    assert ModelFolder("model").settings == changed(RECIPE, seed=6, factors=4)
    assert ModelFolder("model").entries("preprocess.") == kept


def test_a_recipe_overrides_that_of_preprocessing():
    run("preprocess", "data", "model", "--recipe", "s-SMALL")
    run("train", "data", "model", "--recipe", "default")
    assert ModelFolder("model").settings == DEFAULT


def test_preprocessing_of_other_data_is_not_used():
    run("preprocess", "data", "model", "--recipe", "s-SMALL")
    write_dataset("other.txt", small_dataset(seed=3))
    run("train", "other.txt", "model")
    assert ModelFolder("model").settings == DEFAULT


def test_a_damaged_folder_is_replaced(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text("{")
    result = run("train", "data", "model")
    assert result.exit_code == 0
    reason = "model/model.json: this is not the description of an xmlgp model"
    note = f"model: the existing model cannot be read and will be replaced ({reason})"
    assert result.stderr.splitlines()[0] == note
    assert ModelFolder("model").stage == "trained"


DIVERGENT = ["--kernel", "se", "--learning-rate", "1e30", "--epochs", "5"]


def test_a_failed_training_does_not_change_the_default_recipe():
    # It fails before the first step, so nothing is kept.
    said(run("train", "data", "model", "--set", "lengthscale=1e30", "--kernel", "se"))
    assert not os.path.exists("model")
    # A run of less than a minute is discarded.
    result = run("train", "data", "model", *DIVERGENT)
    note, line = result.stderr.splitlines()
    assert (result.exit_code, note) == (
        1,
        "model: the checkpoint after 1 of 5 steps is kept; run the command again to resume",
    )
    assert os.listdir("model/arrays")
    run("train", "data", "model")
    assert sorted(os.listdir("model")) == ["arrays", "model.json"]
    assert ModelFolder("model").settings == DEFAULT


def test_divergence_is_one_line_without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        line = said(run("train", "data", "model", *DIVERGENT, "--quiet"))
    assert re.fullmatch(
        r"training diverged after \d steps?: .* is not finite \(a first attempt with learning rate 1e\+30 diverged "
        r"after \d steps?\); try a lower learning_rate or another weighting",
        line,
    )


def test_standard_input_gives_the_same_model(tmp_path):
    run("train", "data", "model", *SMALL)
    with open("data/train.txt", "rb") as stdin:
        result = run("train", "-", "again", *SMALL, "-q", stdin=stdin.read())
    assert (result.exit_code, result.output) == (0, "")
    first, again = ModelFolder("model"), ModelFolder("again")
    for name in first.entries("parameters."):
        assert first.array(name).tobytes() == again.array(name).tobytes(), name


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--kernel", "rbf"], "kernel is 'rbf', but must be one of linear, se, se+linear"),
        (["--learning-rate", "inf"], "learning_rate is inf, but must be a finite number above 0"),
        (["--model", "svm"], "Invalid value for '--model': 'svm' is not one of 'mlgpf', 'bmlpl', 'gpc'."),
        (["--model", "bmlpl", "-P", "3"], "factors is a setting of mlgpf, not of bmlpl"),
        (["--set", "nodes"], "--set nodes is not of the form NAME=VALUE."),
        (["--set", "nods=3"], "nods is not a setting; did you mean nodes?"),
        (["--set", "epochs=3", "--epochs", "4"], "epochs is set twice."),
    ],
)
def test_invalid_options_are_wrong_usage(options, reason):
    # Before the data are read.
    assert said(run("train", "nowhere", "model", *options), status=2) == reason


def test_an_option_that_contradicts_a_recipe_is_refused(workdir):
    with open("catalogue.yaml", "a") as catalogue:
        catalogue.write("  sampled:\n    settings: {model: bmlpl, inference: gibbs, iterations: 9, burn_in: 5}\n")
    message = said(run("train", "data", "model", "--recipe", "sampled", "--iterations", "4"))
    assert message == "recipe sampled: burn_in is 5, but must be less than iterations, 4"
    assert not os.path.exists("model")


def test_malformed_data_are_refused(tmp_path):
    (tmp_path / "bad.txt").write_text("2 3 4\n1 0:1\n9 0:1\n")
    assert said(run("train", "bad.txt", "model")).startswith("bad.txt:3: label ")
    assert said(run("train", "missing", "model")) == "missing: No such file or directory"
    assert not os.path.exists("model")


@pytest.mark.parametrize(("text", "message"), [("Unable to allocate 9 TiB", ": Unable to allocate 9 TiB"), ("", "")])
def test_too_little_memory_is_a_one_line_error(monkeypatch, text, message):
    def exhausted(self, *arguments):
        raise MemoryError(text)

    monkeypatch.setattr(train_module._Run, "_train", exhausted)
    assert said(run("train", "data", "model")) == "there is not enough memory" + message
    assert not os.path.exists("model")


def test_an_interruption_leaves_the_earlier_model(monkeypatch):
    run("train", "data", "model", *SMALL)
    before = ModelFolder("model").description

    def interrupted(self, *arguments):
        raise Interrupted(2)

    monkeypatch.setattr(train_module._Run, "_train", interrupted)
    result = run("train", "data", "model")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.startswith("interrupted; stopped in preprocessing; resume with ")
    assert ModelFolder("model").description == before
