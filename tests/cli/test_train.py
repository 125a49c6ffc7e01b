"""`xmlgp train`: where its settings come from, what it reports, and how it fails."""

import re
import warnings
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.datasets import dump_svmlight_file

import xmlgp
from tests.cli.command import SMALL, run, said
from tests.problems import small_dataset
from xmlgp.api.train import Run
from xmlgp.cli import main
from xmlgp.cli.settings_options import SETTINGS, settings_options
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.models.fields import kind
from xmlgp.models.mlgpf.settings import MLGPFSettings

pytestmark = pytest.mark.usefixtures("workdir")

DEFAULT = MLGPFSettings(inducing="features", inducing_start="rows", factors=2, inducing_count=5, epochs=1)
RECIPE = MLGPFSettings(
    inducing_start="kmeans", inducing="subspace", basis_size=9, inducing_count=6, factors=3, epochs=2, ard=False, seed=5
)


def changed(settings, **changes):
    return MLGPFSettings(**vars(settings) | changes)


def test_the_command_gives_the_model_of_the_library():
    result = run("train", "-", "models/a", *SMALL, stdin=Path("data/train.txt").read_bytes())
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("Note: models/a: trained in ")
    folder = ModelFolder("models/a")
    assert folder.settings == changed(DEFAULT, factors=3, epochs=2, batch_size=16)
    expected = xmlgp.train(small_dataset(), "b", settings=folder.settings).folder
    assert folder.description["data"] == expected.description["data"] | {"first_feature": 0}
    for name, array in expected.arrays("").items():
        np.testing.assert_array_equal(folder.array(name), array)


class Stop(Exception):
    """Raised instead of training, with the settings."""


@pytest.fixture
def stopped(monkeypatch):
    """Return a function that returns the settings of `xmlgp train data model` with some options."""

    def stop(run):
        raise Stop(run.settings)

    monkeypatch.setattr(Run, "preprocess", stop)

    def call(*options):
        with pytest.raises(Stop) as caught:
            run("train", "data", "model", *options)
        return caught.value.args[0]

    return call


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_has_an_option(name):
    field = next(iter(SETTINGS[name].values()))
    option = name.replace("_", "-")
    texts = [(f"--no-{option}", False), (f"--{option}", True)]
    if kind(field) is not bool:
        values = field.metadata["choices"] or [kind(field)(1)]
        texts = [(f"--{option}={value}", value) for value in values]
    for text, value in texts:
        found = click.command(settings_options(lambda settings: settings)).main([text], standalone_mode=False)
        assert found == {name: value}


def test_the_options_of_train_fit_one_screen():
    # Of 80 columns.
    assert len(CliRunner().invoke(main, ["train", "--help"], terminal_width=80).stdout.splitlines()) <= 30
    everything = run("train", "--help-all").stdout
    assert all(f"--{name.replace('_', '-')}" in everything for name in SETTINGS)


def test_settings_come_from_defaults_recipes_and_options(workdir, stopped):
    assert stopped() == stopped("--model", "mlgpf") == DEFAULT
    assert stopped("--nodes", "7", "--no-ard", "-P", "4") == changed(DEFAULT, nodes=7, ard=False, factors=4)
    assert stopped("--recipe", "s-SMALL", "--factors", "4", "--ard") == changed(RECIPE, factors=4, ard=True)
    assert stopped("--model", "bmlpl") == BMLPLSettings()
    with open("catalogue.yaml", "a") as catalogue:
        catalogue.write("  some-topics:\n    settings: {model: bmlpl, topics: 5}\n")
    assert stopped("--recipe", "some-topics", "--seed", "3") == BMLPLSettings(topics=5, seed=3)


def test_options_without_effect_are_reported(workdir):
    options = ["--model", "bmlpl", "--iterations", "1", "--topics", "1000", "--burn-in", "0", "--batch-size", "9"]
    message = run("train", "data", "model", *options).stderr.splitlines()
    assert message[:-2] == [
        "Note: model: batch_size has no effect with inference=em-cg",
        "Note: model: burn_in has no effect with inference=em-cg",
        "Note: model: there are only 7 labels, so 7 topics are used",
    ]
    assert message[-2].startswith("Note: model: trained in ")
    assert run("train", "data", "model", "-q", *options).stderr == ""


def test_a_bound_below_that_of_a_constant_prediction_is_reported():
    write_dataset("one.txt", small_dataset(K=1))
    options = ["-M", "5", "--iterations", "1", "--batch-size", "9", "--learning-rate", "0.1"]
    result = run("train", "one.txt", "model", "--model", "gpc", *options, "--inference", "svi-adadelta")
    message, advice, _ = result.stderr.splitlines()
    assert message.startswith("Note: model: trained in ")
    assert advice == (
        "Note: model: the bound is lower than that of a constant prediction; try another inference, or another "
        "learning_rate"
    )


def test_preprocessing_with_other_settings_is_repeated():
    note = "preprocessing is repeated, because its settings are different"
    for options, is_repeated in ([], True), (["--recipe", "s-SMALL"], False):
        run("preprocess", "data", "model", "--recipe", "s-SMALL", "-q")
        assert (note in run("train", "data", "model", *options).stderr) == is_repeated


def test_a_damaged_model_is_replaced_only_when_asked(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text("{")
    reason = "model/model.json: this is not the description of an xmlgp model"
    assert said(run("train", "data", "model")) == f"{reason}; choose another folder, or replace it with --overwrite"
    assert run("train", "data", "model", "--overwrite", "-q").exit_code == 0
    assert ModelFolder("model").settings == DEFAULT


def test_divergence_is_one_line_without_warnings():
    options = ["--kernel", "se", "--learning-rate", "1e30", "--epochs", "5"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        line = said(run("train", "data", "model", *options, "--quiet"))
    assert re.fullmatch(
        r"training diverged after \d steps?: .* is not finite \(a first attempt with learning rate 1e\+30 diverged "
        r"after \d steps?\); try a lower learning_rate or another weighting",
        line,
    )
    note, _ = run("train", "data", "other", *options).stderr.splitlines()
    assert note == "Note: other: stopped after 1 of 5 steps of training; run the same command again to resume"


@pytest.fixture
def one_label(workdir):
    """Write twenty points with one label in each format, and in a folder."""
    dataset = small_dataset(40, 4, 1).rows(slice(0, 20))
    write_dataset("one.txt", dataset)
    (workdir / "binary").mkdir()
    for name in "one.svm", "binary/some.svm":
        dump_svmlight_file(dataset.features.sparse, 2 * dataset.labels.toarray()[:, 0] - 1, name, zero_based=False)


OF_FORMAT = "Note: model: the model is gpc, the default for data of this format"


@pytest.mark.usefixtures("one_label")
@pytest.mark.parametrize("data", ["one.svm", "binary", "-"])
def test_gpc_is_the_default_for_libsvm_format(data):
    stdin = Path("one.svm").read_bytes() if data == "-" else None
    for command in ["train", "--iterations", "2"], ["preprocess", "--overwrite"]:
        result = run(command[0], data, "model", "-M", "5", *command[1:], stdin=stdin)
        assert (result.exit_code, result.stderr.splitlines()[0]) == (0, OF_FORMAT)
        assert ModelFolder("model").settings.model == "gpc"


@pytest.mark.usefixtures("one_label")
@pytest.mark.parametrize(("data", "options"), [("one.svm", ["--recipe", "default"]), ("one.txt", [])])
def test_recipes_and_other_formats_have_another_default_model(data, options):
    result = run("train", data, "model", *options)
    assert OF_FORMAT not in result.stderr
    assert ModelFolder("model").settings.model == "mlgpf"


def test_data_of_one_class_are_reported():
    for label, words in (("1", "second"), ("-1", "first")):
        Path("one.svm").write_text(f"{label} 1:1\n{label} 1:2\n")
        assert f"{words}: all training points belong to the {words} class" in run("train", "one.svm", words).stderr
