"""A fourth model needs one package and one line in the table, and no other file changes."""

import ast
import importlib
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import xmlgp
import xmlgp.cli
from tests.cli.command import run, said
from tests.fourth_model import LOGISTIC, GradientAscent, LogisticClassifier, LogisticSettings
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.estimators import load_estimator
from xmlgp.estimators.estimator import parameters_of
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models import MODELS

TRAIN, TEST = (small_dataset(N=150).rows(rows) for rows in (slice(0, 120), slice(120, None)))


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """A folder with data, and the commands with the fourth model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    write_dataset("train.txt", TRAIN)
    write_dataset("test.txt", TEST)
    # The options of these commands are made when their modules are imported. Both places that hold a module get back
    # the one without the fourth model: other tests patch the module that one of them has and run that of the other.
    for name in ("train", "preprocess"):
        importlib.import_module(f"xmlgp.cli.{name}")
    monkeypatch.setitem(MODELS, LOGISTIC.name, LOGISTIC)
    for name in ("train", "preprocess"):
        monkeypatch.delitem(sys.modules, f"xmlgp.cli.{name}")
        monkeypatch.delattr(xmlgp.cli, name)


@pytest.mark.usefixtures("registered")
def test_the_model_and_its_settings_are_listed():
    assert "logistic (logistic regression for each label)" in " ".join(run("train", "--help").stdout.split())
    assert "step_size" in run("train", "--help").stdout
    line = said(run("train", "train.txt", "model", "--model", "bmlpl", "--set", "step_size=1"), status=2)
    assert line == "step_size is a setting of logistic, not of bmlpl"


@pytest.mark.usefixtures("registered")
def test_the_model_is_trained_interrupted_resumed_and_used(monkeypatch):
    command = ["--model", "logistic", "--iterations", "9"]
    assert run("train", "train.txt", "whole", *command).exit_code == 0

    step = GradientAscent.step

    def interrupted(self, epoch, done):
        if epoch == 4:
            signal.raise_signal(signal.SIGINT)
        return step(self, epoch, done)

    with monkeypatch.context() as patch:
        patch.setattr(GradientAscent, "step", interrupted)
        result = run("train", "train.txt", "model", *command)
    assert result.exit_code == 128 + signal.SIGINT
    assert result.stderr.splitlines()[-1].startswith(
        "interrupted; stopped after 5 of 9 steps of training; resume with `"
    )
    lines = run("train", "train.txt", "model", "--resume").stderr.splitlines()
    assert lines[:2] == ["model: resuming after 5 of 9 steps of training", "model: learns 7 regressions"]
    assert lines[2].startswith("model: trained in ")
    uninterrupted, resumed = ModelFolder("whole").arrays(""), ModelFolder("model").arrays("")
    assert uninterrupted.keys() == resumed.keys()
    for name, array in uninterrupted.items():
        np.testing.assert_array_equal(resumed[name], array)

    shown = run("show", "model").stdout
    assert "model: logistic, trained, " in shown
    assert "9 iterations, " in shown
    assert said(run("show", "model", "--topics")) == "model: logistic has no topics; train with --model bmlpl"
    scores = ["test.scores", "test.txt", "--train", "train.txt", "-q"]
    assert run("predict", "model", "test.txt", "-k", "all", "--output", "probability", "-o", scores[0]).exit_code == 0
    measures = dict(line.split(maxsplit=1) for line in run("evaluate", *scores).stdout.splitlines()[1:])
    frequency = 100 * TRAIN.labels.sum(axis=0).max() / TRAIN.N
    assert float(measures["P"].split()[0]) > frequency + 5


@pytest.mark.usefixtures("registered")
def test_the_estimator_gives_the_model_of_the_command():
    classifier = clone(LogisticClassifier(iterations=9)).fit(TRAIN.features.sparse, TRAIN.labels)
    assert classifier.get_params() == parameters_of(LogisticSettings(iterations=9)) | {"n_jobs": None}
    folder = xmlgp.train(TRAIN, "model", settings=LogisticSettings(iterations=9)).folder
    for name, array in folder.arrays("parameters.").items():
        np.testing.assert_array_equal(classifier.parameters_[name], array)
    assert len(classifier.history_) == 9
    loaded = load_estimator("model")
    assert isinstance(loaded, LogisticClassifier)
    np.testing.assert_array_equal(
        loaded.predict_proba(TEST.features.sparse), classifier.predict_proba(TEST.features.sparse)
    )
    assert classifier.predict_proba(TEST.features.sparse).shape == TEST.labels.shape


def test_only_the_table_and_the_estimators_import_models():
    package = Path(xmlgp.__file__).parent
    importing = []
    for file in package.rglob("*.py"):
        room = file.relative_to(package).parts[0]
        imports = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom))
        modules = {node.module.split(".")[1] for node in imports if node.module.startswith("xmlgp.")}
        if room not in MODELS and modules & set(MODELS):
            importing.append(str(file.relative_to(package)))
    assert sorted(importing) == [*(f"estimators/{name}.py" for name in sorted(MODELS)), "models.py"]


def test_only_the_models_themselves_and_their_table_name_a_model():
    package, models = Path(xmlgp.__file__).parent, set(MODELS)
    naming = set()
    for file in package.rglob("*.py"):
        package_name = file.relative_to(package).parts[0].removesuffix(".py")
        if package_name in {*models, "models"}:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            parts += node.keys if isinstance(node, ast.Dict) else []
            if models & {key.value for key in parts if isinstance(key, ast.Constant) and isinstance(key.value, str)}:
                naming.add(f"{file.relative_to(package)}:{node.lineno}")
    assert naming == set()
