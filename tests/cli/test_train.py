"""`xmlgp train`: where its settings come from, what it reports, and how it fails."""

import os
import re
import warnings
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import SMALL, run, said
from tests.problems import small_dataset
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.data.repository_format import write_dataset
from xmlgp.gpc.settings import GPCSettings
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS
from xmlgp.runs import train as train_module
from xmlgp.runs.plan import plan_run
from xmlgp.runs.train import train_model
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.settings.fields import kind

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
    result = run("train", "data", "model", "--recipe", "s-SMALL", "--factors", "4", "--ard")
    assert result.stderr.splitlines()[0] == "model: recipe s-SMALL of the model mlgpf with its settings for known"
    assert ModelFolder("model").settings == changed(RECIPE, factors=4, ard=True)


def other_value(spec):
    """Return an allowed value that is not the default."""
    if kind(spec) is bool:
        return not spec.default
    if spec.metadata["choices"]:
        return next(choice for choice in spec.metadata["choices"] if choice != spec.default)
    return {int: 3, float: 0.375}[kind(spec)]


class Stop(Exception):
    """Raised instead of training, with the settings."""


@pytest.fixture
def stopped(monkeypatch):
    """Return a function that returns the settings of `xmlgp train data model` with some options."""

    def stop(dataset, path, request, progress, **options):
        raise Stop(plan_run(Path(path), dataset, request).settings)

    monkeypatch.setattr("xmlgp.cli.train.train_model", stop)

    def call(*options):
        with pytest.raises(Stop) as caught:
            run("train", "data", "model", *options)
        return caught.value.args[0]

    return call


def flags(spec, value):
    """Return the arguments that set a setting."""
    flag = "--" + spec.name.replace("_", "-")
    return [flag if value else f"--no-{flag[2:]}"] if kind(spec) is bool else [flag, str(value)]


@pytest.mark.parametrize("spec", fields(MLGPFSettings), ids=lambda spec: spec.name)
def test_every_option_reaches_its_setting(stopped, spec):
    value = other_value(spec)
    changes = {spec.name: value}
    if spec.name == "kernel":
        # The default inducing inputs are for a linear kernel only.
        changes["inducing"] = "free"
    assert stopped(*flags(spec, value)) == changed(DEFAULT, **changes)


@pytest.mark.parametrize(
    ("of", "spec"),
    [(of, spec) for of in (BMLPLSettings, GPCSettings) for spec in fields(of)],
    ids=lambda value: getattr(value, "name", None) or value.model,
)
def test_every_option_of_another_model_reaches_its_setting(stopped, of, spec):
    value = other_value(spec)
    assert stopped("--model", of.model, *flags(spec, value)) == of(**{spec.name: value})


ALL = {spec.name: spec for model in reversed(MODELS.values()) for spec in fields(model.settings)}


@pytest.mark.parametrize(("name", "model"), [("topics", "mlgpf"), ("inducing_count", "bmlpl"), ("factors", "gpc")])
def test_an_option_of_another_model_is_wrong_usage(stopped, name, model):
    spec, others = ALL[name], [other for other in MODELS if name in other_names(other)]
    flag = "--" + spec.name.replace("_", "-")
    message = f"{flag} is a setting of {' and '.join(others)}, not of {model}"
    words = flags(spec, other_value(spec))
    # Before the data are read.
    assert said(run("train", "nowhere", "model", "--model", model, *words), status=2) == message
    if model == "mlgpf":
        message += f"; use --model {others[0]}"
        assert said(run("train", "data", "model", *words), status=2) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--inducing", "free"], "--label-weights needs --inducing features and kernel linear"),
        (["--kernel", "se"], "--label-weights needs inducing features and --kernel linear"),
        (["--recipe", "s-SMALL"], "--label-weights needs inducing features and kernel linear"),
    ],
)
def test_label_weights_beside_inducing_inputs_are_wrong_usage(options, message):
    assert said(run("train", "data", "model", "--label-weights", *options), status=2) == message
    assert not os.path.exists("model")


def test_label_weights_beside_the_inducing_inputs_of_preprocessing_are_wrong_usage():
    run("preprocess", "data", "model", "--recipe", "s-SMALL")
    message = "--label-weights needs inducing features and kernel linear"
    assert said(run("train", "data", "model", "--label-weights"), status=2) == message


def test_the_advice_names_a_model_that_allows_the_value():
    message = "--inference is a setting of bmlpl and gpc, not of mlgpf; use --model {}"
    for value, model in (("gibbs", "bmlpl"), ("vi-jj", "gpc")):
        assert said(run("train", "data", "model", "--inference", value), status=2) == message.format(model)


def test_a_value_that_only_another_model_allows_is_wrong_usage(workdir):
    message = "--inference is 'vi-jj', but must be one of em-cg, em, online-em, gibbs with the model bmlpl"
    # Before the data are read.
    assert said(run("train", "nowhere", "model", "--model", "bmlpl", "--inference", "vi-jj"), status=2) == message
    with open("catalogue.yaml", "a") as catalogue:
        catalogue.write("  topics: {settings: {model: bmlpl}}\n")
        catalogue.write("  wrong: {settings: {model: gpc, inference: em}}\n")
    assert said(run("train", "data", "model", "--recipe", "topics", "--inference", "vi-jj"), status=2) == message
    run("preprocess", "data", "model", "--model", "bmlpl")
    assert said(run("train", "data", "model", "--inference", "vi-jj"), status=2) == message
    message = "--inference is 'em', but must be one of svi-adadelta, vi-jj, vi-jj-full, vi-jj-hybrid, vi-taylor"
    line = said(run("train", "nowhere", "model", "--model", "gpc", "--inference", "em"), status=2)
    assert line == f"{message} with the model gpc"
    # The error is not in the user's options.
    line = said(run("train", "data", "model", "--recipe", "wrong", "--seed", "3"))
    assert line == f"recipe wrong: {message.removeprefix('--')}"
    message = (
        "Invalid value for '--inference': 'vi' is not one of 'em-cg', 'em', 'online-em', 'gibbs', 'svi-adadelta', "
    )
    assert said(run("train", "data", "model", "--inference", "vi"), status=2).startswith(message)


def other_names(model):
    return {spec.name for spec in fields(MODELS[model].settings)}


def test_help_has_a_section_for_the_settings_of_each_model():
    text = run("train", "--help").stdout
    titles = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    several = [["mlgpf", "bmlpl"], ["mlgpf", "gpc"], ["bmlpl", "gpc"], *([model] for model in MODELS)]
    assert titles == ["Options", "Settings of all models", *(f"Settings of {' and '.join(of)}" for of in several)]
    sections = dict(zip(titles, re.split(r"^\S.*:$", text, flags=re.MULTILINE)[1:], strict=True))
    assert text.count("--seed ") == 1
    assert "--model [mlgpf|bmlpl|gpc]" in sections["Options"]
    for spec in ALL.values():
        others = [model for model in MODELS if spec.name in other_names(model)]
        title = "Settings of all models" if len(others) == len(MODELS) else f"Settings of {' and '.join(others)}"
        assert re.search(rf"^  (-\w, )?--{spec.name.replace('_', '-')} ", sections[title], re.MULTILINE), spec.name
    assert "Settings of bmlpl" not in run("preprocess", "--help").stdout


def test_the_help_of_an_option_has_the_text_of_each_model():
    # Lines may break at any hyphen.
    text = "".join(run("train", "--help").stdout.split())
    assert text.count("--inference[") == 1
    bmlpl, gpc = re.search(r"--inference\[em-cg\|.*?\]bmlpl:(.*?)gpc:(.*?)--", text).groups()
    assert bmlpl.startswith("Inferencemethod:em-cg(")
    assert bmlpl.endswith("[default:em-cg]")
    assert gpc.startswith("Inferencemethod:svi-adadelta(")
    assert gpc.endswith("[default:vi-taylor]")
    bmlpl, gpc = re.search(r"--iterationsINTEGERRANGEbmlpl:(.*?)gpc:(.*?)--", text).groups()
    assert "200withgibbs]" in bmlpl
    assert "withvi-jj-full]" in gpc
    # Equal texts are printed once.
    assert "--seedINTEGERRANGESeedofallrandomnumbers.[default:0]" in text


def test_a_recipe_decides_the_model(workdir, stopped):
    with open("catalogue.yaml", "a") as catalogue:
        catalogue.write("  some-topics:\n    settings: {model: bmlpl, topics: 5}\n")
    assert stopped("--recipe", "some-topics", "--seed", "3") == BMLPLSettings(topics=5, seed=3)
    assert stopped("--recipe", "some-topics", "--model", "bmlpl") == BMLPLSettings(topics=5)
    message = said(run("train", "data", "model", "--recipe", "some-topics", "--model", "mlgpf"))
    assert message == "recipe some-topics is of the model bmlpl, not of mlgpf"
    message = said(run("train", "data", "model", "--recipe", "some-topics", "-P", "3"), status=2)
    assert message == "--factors is a setting of mlgpf, not of bmlpl"
    message = said(run("train", "data", "model", "--recipe", "s-SMALL", "--model", "bmlpl"))
    assert message == "recipe s-SMALL is of the model mlgpf, not of bmlpl"


def test_options_without_effect_are_reported(workdir):
    options = ["--model", "bmlpl", "--iterations", "1", "--topics", "1000", "--burn-in", "0", "--batch-size", "9"]
    message = run("train", "data", "model", *options).stderr.splitlines()
    K = ModelFolder("model").description["data"]["K"]
    assert message[:-1] == [
        "model: --batch-size has no effect with --inference em-cg",
        "model: --burn-in has no effect with --inference em-cg",
        f"model: there are only {K} labels, so {K} topics are used",
    ]
    assert message[-1].startswith("model: trained, 1 iteration, ")
    assert run("train", "data", "model", "-q", *options).stderr == ""


def test_options_of_gpc_without_effect_are_reported(workdir):
    write_dataset("one.txt", small_dataset(K=1))
    options = ["--model", "gpc", "-M", "5", "--iterations", "1", "--batch-size", "9", "--learning-rate", "0.1"]
    message = run("train", "one.txt", "model", *options, "--inference", "vi-jj").stderr.splitlines()
    assert message[:-1] == [
        "model: --batch-size has no effect with --inference vi-jj",
        "model: --learning-rate has no effect with --inference vi-jj",
    ]
    assert message[-1].startswith("model: trained, 1 iteration, ")
    message, advice = run("train", "one.txt", "other", *options, "--inference", "svi-adadelta").stderr.splitlines()
    assert message.startswith("other: trained, 1 iteration, ")
    assert advice == (
        "other: the bound is lower than that of a constant prediction; try another --inference, or another "
        "--learning-rate"
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
    message = said(run("train", "data", "model", "--factors", "3"), status=2)
    assert message == "--factors is a setting of mlgpf, not of bmlpl; use --model mlgpf"


def test_resume_refuses_another_model(monkeypatch):
    run("train", "data", "model", *SMALL)
    message = said(run("train", "data", "model", "--resume", "--model", "bmlpl", "--topics", "3"))
    assert (
        message
        == "model: the model is of mlgpf, not bmlpl; leave the option out, or use --no-resume to start a new run"
    )
    message = said(run("train", "data", "model", "--resume", "--topics", "3"), status=2)
    assert message == "--topics is a setting of bmlpl, not of mlgpf; use --model bmlpl"
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
    said(run("train", "data", "model", "--lengthscale", "1e30", "--kernel", "se"))
    assert not os.path.exists("model")
    # A run of less than a minute is discarded.
    result = run("train", "data", "model", *DIVERGENT)
    note, line = result.stderr.splitlines()
    assert (result.exit_code, note) == (
        1,
        "model: the checkpoint after 1 of 5 steps is kept; resume with --resume",
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
        r"after \d steps?\); try a lower --learning-rate or another --weighting",
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
        (["--kernel", "rbf"], "Invalid value for '--kernel': 'rbf' is not one of 'linear', 'se', 'se+linear'."),
        (["--learning-rate", "0"], "Invalid value for '--learning-rate': 0.0 is not in the range x>0."),
        (["--nodes", "101"], "Invalid value for '--nodes': 101 is not in the range 1<=x<=100."),
        (["--epochs", "1.5"], "Invalid value for '--epochs': '1.5' is not a valid integer range."),
        (["--no-kernel"], "No such option"),
        (["--model", "svm"], "Invalid value for '--model': 'svm' is not one of 'mlgpf', 'bmlpl', 'gpc'."),
        (["--ard", "yes"], "Got unexpected extra argument (yes)"),
    ],
)
def test_invalid_options_are_wrong_usage(options, reason):
    assert said(run("train", "data", "model", *options), status=2).startswith(reason)


CLASHES = [
    (
        ["--inference", "gibbs", "--burn-in", "9", "--iterations", "9"],
        "--burn-in is 9, but must be less than --iterations, 9",
    ),
    (
        ["--inference", "gibbs", "--burn-in", "200"],
        "--burn-in is 200, but must be less than iterations, 200 by default",
    ),
    (
        ["--inference", "online-em", "--learn-precision"],
        "--inference online-em does not support --learn-precision",
    ),
]


@pytest.mark.parametrize(("options", "reason"), CLASHES)
def test_options_that_contradict_each_other_are_wrong_usage(options, reason):
    assert said(run("train", "data", "model", "--model", "bmlpl", *options), status=2) == reason
    assert not os.path.exists("model")


def test_an_option_that_contradicts_a_recipe_is_wrong_usage(workdir):
    with open("catalogue.yaml", "a") as catalogue:
        catalogue.write("  sampled:\n    settings: {model: bmlpl, inference: gibbs, iterations: 9, burn_in: 5}\n")
        catalogue.write("  wrong:\n    settings: {model: bmlpl, inference: gibbs, iterations: 9, burn_in: 9}\n")
    message = said(run("train", "data", "model", "--recipe", "sampled", "--iterations", "4"), status=2)
    assert message == "burn_in is 5, but must be less than --iterations, 4"
    # The error is not in the user's options.
    message = said(run("train", "data", "model", "--recipe", "wrong", "--seed", "4"))
    assert message == "recipe wrong: burn_in is 9, but must be less than iterations, 9"


def test_numbers_that_click_accepts_are_checked():
    allowed = "must be a finite number above 0"
    assert said(run("train", "data", "model", "--learning-rate", "nan")).endswith(allowed)
    assert said(run("train", "data", "model", "--diagonal", "inf")).endswith(allowed)
    assert "factors is 10000000000" in said(run("train", "data", "model", "-P", "1" + "0" * 30))


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
