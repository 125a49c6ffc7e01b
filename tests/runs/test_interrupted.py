"""What a checkpoint in a model folder says of the training that was interrupted: told, or refused in one sentence."""

import contextlib
import dataclasses
import json
import math
import re
import zipfile
from dataclasses import fields

import numpy as np
import pytest

from tests.fuzzing.sentences import assert_sentence
from tests.problems import small_dataset
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.errors import ModelFolderError
from xmlgp.gpc.settings import GPCSettings
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.model_folder.folder import ModelFolder, fingerprint
from xmlgp.models import MODELS
from xmlgp.runs.build import train_model
from xmlgp.runs.interrupted import CHECKPOINT, LATER, Unfinished, describe_run
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.runtime.progress import silent
from xmlgp.runtime.threads import core_count
from xmlgp.training import checkpoints
from xmlgp.training.checkpoints import Checkpoints

SETTINGS = MLGPFSettings(
    inducing="subspace", inducing_count=6, basis_size=9, factors=3, epochs=3, batch_size=20, regression_points=0
)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """The contents of two model folders: interrupted before the first step, and after the second."""
    made = {}
    for steps in (0, 2):
        path = tmp_path_factory.mktemp("model")
        with pytest.MonkeyPatch.context() as patch:
            interrupt_after(steps, patch)
            with pytest.raises(Interrupted):
                train_model(small_dataset(), path, SETTINGS)
        made[steps] = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return made


def interrupt_after(steps, patch):
    def fit(*arguments):
        raise Interrupted(15)

    def offer(self, state, epoch_ended=False):
        if state().facts["step"] == steps:
            self.write(state())
            raise Interrupted(15)

    if steps:
        patch.setattr(checkpoints.Checkpoints, "offer", offer)
    else:
        patch.setattr("xmlgp.runs.build.fit", fit)


@pytest.fixture
def interrupted(tmp_path, originals):
    """Return a function that makes the model folder, with its checkpoint changed by another one."""

    def make(change=lambda content: None, steps=2):
        for name, content in originals[steps].items():
            file = tmp_path / "model" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        rewrite(tmp_path / "model" / CHECKPOINT, change)
        return tmp_path / "model"

    return make


def rewrite(file, change):
    """Change what a checkpoint says; its arrays stay."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(members["checkpoint.json"])
    change(content)
    members["checkpoint.json"] = json.dumps(content)
    with zipfile.ZipFile(file, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)


def setting(*path, value):
    """Return what sets a value that a path of keys leads to; ... takes it out."""

    def change(content):
        *before, last = path
        for key in before:
            content = content[key]
        if value is ...:
            content.pop(last, None)
        else:
            content[last] = value

    return change


def refused(path):
    with pytest.raises(ModelFolderError) as caught:
        Unfinished.read(path)
    told = str(caught.value)
    assert_sentence(told.replace(str(path), ""))
    # The sentence is the user's, too, and nothing is lost by it.
    before = (path / CHECKPOINT).read_bytes()
    with pytest.raises(ModelFolderError, match=r"--no-resume begins anew"):
        train_model(small_dataset(), path, SETTINGS)
    assert (path / CHECKPOINT).read_bytes() == before
    return told


def damaged(path):
    return refused(path) == f"{path / CHECKPOINT}: the checkpoint is damaged; --no-resume begins anew without it"


def test_nothing_is_unfinished_where_there_is_no_checkpoint(tmp_path):
    assert Unfinished.read(tmp_path) is Unfinished.read(tmp_path / "missing") is None
    train_model(small_dataset(), tmp_path, SETTINGS)
    assert Unfinished.read(tmp_path) is None


def test_what_was_interrupted_while_it_trained(interrupted):
    found = Unfinished.read(interrupted())
    assert found.settings == SETTINGS
    assert found.data == {"N": 40, "D": 25, "K": 7, "fingerprint": fingerprint(small_dataset())}
    assert set(found.preprocess) == {"preprocess.idf", "preprocess.basis", "preprocess.inducing"}
    assert (found.step, found.steps) == (2, 6)
    assert found.where == "after 2 of 6 steps on all points"
    assert 0 < found.seconds < math.inf
    assert found.cores == core_count()
    assert found.other(found.data, SETTINGS) is None


def test_what_was_interrupted_before_it_trained(interrupted):
    found = Unfinished.read(interrupted(steps=0))
    assert found.settings == SETTINGS
    assert (found.step, found.steps, found.seconds, found.where) == (0, 0, 0, "after preprocessing")
    assert len(found.preprocess) == 3
    assert not found.worth_keeping


def test_what_was_interrupted_before_it_was_preprocessed(tmp_path):
    data = {"N": 40, "D": 25, "K": 7, "fingerprint": fingerprint(small_dataset())}
    Checkpoints(tmp_path / CHECKPOINT, describe_run(data, SETTINGS, {}), 1).write()
    found = Unfinished.read(tmp_path)
    assert (found.preprocess, found.where) == ({}, "in preprocessing")
    train_model(small_dataset(), tmp_path, SETTINGS)
    assert ModelFolder(tmp_path).stage == "trained"
    assert not (tmp_path / CHECKPOINT).exists()


def test_how_another_training_differs(interrupted):
    found = Unfinished.read(interrupted())
    assert found.other(found.data | {"fingerprint": "f" * 64}, SETTINGS) == "of other data"
    for changes, told in [
        ({"epochs": 4}, "with epochs 3, now 4,"),
        ({"learning_rate": 0.5}, "with learning_rate left open, now 0.5,"),
        ({"epochs": None}, "with epochs 3, now left open,"),
    ]:
        assert found.other(found.data, MLGPFSettings(**SETTINGS.mapping() | changes)) == told


@pytest.mark.parametrize(
    ("parts", "worth"), [((59, 0), False), ((60.0, 0), True), ((30, 31), True), ((0, 1e308), True)]
)
def test_what_took_a_minute_is_worth_keeping(interrupted, parts, worth):
    def change(content):
        content["state"] |= {"seconds": parts[0], "spent": parts[1]}

    path = interrupted(change)
    found = Unfinished.read(path)
    assert (found.seconds, found.worth_keeping) == (sum(parts), worth)
    other = MLGPFSettings(**SETTINGS.mapping() | {"factors": 2})
    if worth:
        with pytest.raises(ModelFolderError, match="training with factors 3, now 2, was interrupted here after 2"):
            train_model(small_dataset(), path, other)
    else:
        assert train_model(small_dataset(), path, other).settings == other


def test_how_a_training_of_another_model_differs(interrupted):
    path = interrupted(lambda content: content["state"].update(seconds=60))
    found, other = Unfinished.read(path), BMLPLSettings(weighting="unit")
    assert found.other(found.data, other) == "with model mlgpf, now bmlpl,"
    with pytest.raises(ModelFolderError, match="training with model mlgpf, now bmlpl, was interrupted here after 2"):
        train_model(small_dataset(), path, other)


def of_another_model(settings):
    """Return what makes a checkpoint one of a model with these settings, which preprocessing left nothing of."""

    def change(content):
        content["about"] |= {"model": settings.model, "settings": settings.mapping(), "preprocess": {}}

    return change


@pytest.mark.parametrize("steps", [0, 2])
def test_a_training_of_another_model(interrupted, steps):
    settings = BMLPLSettings(weighting="unit", topics=3)
    found = Unfinished.read(interrupted(of_another_model(settings), steps))
    assert (found.settings, found.preprocess, found.preprocessed) == (settings, {}, steps > 0)
    assert found.other(found.data, settings) is None
    assert found.other(found.data, SETTINGS) == "with model bmlpl, now mlgpf,"


def test_what_is_gone_on_with_has_what_its_preprocessing_leaves(interrupted):
    settings = BMLPLSettings(weighting="idf")
    path = interrupted(of_another_model(settings))
    with pytest.raises(ModelFolderError, match="do not fit its settings; --no-resume begins anew without the checkp"):
        train_model(small_dataset(), path, settings)


@pytest.mark.parametrize("inference", ["vi-jj", "svi-adadelta"])
def test_a_training_of_two_classes_goes_on(tmp_path, inference):
    dataset, settings = small_dataset(K=1), GPCSettings(inference=inference, inducing_count=6, iterations=4)
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(2, patch)
        with pytest.raises(Interrupted):
            train_model(dataset, tmp_path / "model", settings)
    found = Unfinished.read(tmp_path / "model")
    assert found.settings == settings
    assert found.where == f"after 2 of {found.steps} steps"
    assert set(found.preprocess) == {f"preprocess.{name}" for name in ("inducing", "scale", "center")}
    folder, expected = (train_model(dataset, tmp_path / name, settings) for name in ("model", "whole"))
    for name, value in expected.arrays("").items():
        np.testing.assert_array_equal(folder.array(name), value)


def test_a_training_of_two_classes_goes_on_with_another_learning_rate(tmp_path):
    dataset = small_dataset(K=1)
    settings = GPCSettings(inference="svi-adadelta", inducing_count=6, iterations=4)
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(2, patch)
        with pytest.raises(Interrupted):
            train_model(dataset, tmp_path, settings)
    folder = train_model(dataset, tmp_path, settings, resume=True, rate=1e-12)
    assert folder.settings == dataclasses.replace(settings, learning_rate=1e-12)
    # From there on nothing changes.
    after = train_model(dataset, tmp_path / "two", dataclasses.replace(settings, iterations=2))
    for name, value in after.arrays("parameters.").items():
        np.testing.assert_allclose(folder.array(f"parameters.{name}"), value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["inducing", "scale", "center"])
def test_preprocessing_of_two_classes_leaves_all_of_its_arrays(tmp_path, name):
    dataset, settings = small_dataset(K=1), GPCSettings(inducing_count=6, iterations=4)
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(2, patch)
        with pytest.raises(Interrupted):
            train_model(dataset, tmp_path, settings)
    rewrite(tmp_path / CHECKPOINT, setting("about", "preprocess", f"preprocess.{name}", value=...))
    with pytest.raises(ModelFolderError, match="do not fit its settings; --no-resume begins anew without the checkp"):
        train_model(dataset, tmp_path, settings)


def test_settings_of_another_model_are_damage(interrupted):
    for model in MODELS.keys() - {"mlgpf"}:
        assert damaged(interrupted(setting("about", "model", value=model)))
    told = refused(interrupted(setting("about", "settings", "topics", value=3)))
    assert "checkpoint.npz: topics is a setting of bmlpl, not of mlgpf; --no-resume begins anew" in told


#: Values of all types; `...` stands for none at all.
ODD = [..., None, True, -1, 0, 1, 2.5, math.nan, math.inf, 10**400, "", "x", "a\nb", "\x1b[2J", [], [[1]], {}, {"x": 1}]

#: Where they are put, and which of them may be there, for all that is known before training goes on.
PLACES = {
    "about": [],
    "about format": [],
    "about model": [],
    "about written_by": ["", "x"],
    "about cores": [1],
    "about data": [],
    "about data N": [0, 1],
    "about data fingerprint": ["", "x"],
    "about settings": [],
    "about settings factors": [1],
    "about settings learning_rate": [None, 1, 2.5],
    "about preprocess": [],
    "about preprocess preprocess.idf": [...],
    "about preprocess preprocess.idf file": [],
    "about preprocess preprocess.idf dtype": [],
    "about preprocess preprocess.idf shape": [[]],
    "about preprocess parameters.loadings": [...],
    "state": [None],
    "state step": [0, 1],
    "state steps": [],
    "state seconds": [0, 1, 2.5],
    "state spent": [0, 1, 2.5],
}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_missing_or_odd_is_damaged(interrupted, place):
    for value in ODD:
        path = interrupted(setting(*place.split(), value=value))
        if any(type(value) is type(allowed) and value == allowed for allowed in PLACES[place]):
            Unfinished.read(path)
        elif place.startswith("about settings ") and value not in (..., "a\nb", "\x1b[2J", 10**400, math.nan, math.inf):
            told = refused(path)
            assert re.search(r"checkpoint.npz: (factors|learning_rate) is .{1,60}, but must be ", told)
            assert told.endswith("; --no-resume begins anew without it")
        else:
            assert damaged(path), value


@pytest.mark.parametrize(
    "version", [0, 2, 1.0, True, None, "1", "one\ntwo", [["x"] * 99] * 99, 10**400, "\x1b[2J" * 99]
)
@pytest.mark.parametrize("writer", ["xmlgp 9.9", "\x1b[2J", 10**400, None, ["x" * 5000]], ids=type)
def test_another_version_of_the_format(interrupted, version, writer):
    def change(content):
        content["about"] |= {"format_version": version, "written_by": writer}

    told = refused(interrupted(change))
    pattern = (
        "written in format .{1,60} by .{1,60}, this is xmlgp .*, which goes on from format 1; --no-resume begins anew"
    )
    assert re.search(pattern, told)


@pytest.mark.parametrize("name", [spec.name for spec in fields(MLGPFSettings) if spec.name not in LATER["mlgpf"]])
def test_a_setting_that_is_missing_is_not_guessed(interrupted, name):
    assert damaged(interrupted(setting("about", "settings", name, value=...)))


def test_checkpoints_of_an_earlier_version_go_on(interrupted):
    path = interrupted(setting("about", "settings", "expectations", value=...))
    assert Unfinished.read(path).settings == SETTINGS
    assert SETTINGS.expectations == "quadrature"
    train_model(small_dataset(), path, SETTINGS)


def test_a_setting_that_is_none_of_ours(interrupted):
    told = refused(interrupted(setting("about", "settings", "a\nb", value=1)))
    assert told.endswith("damaged; --no-resume begins anew without it")
    assert "x is not a setting; there are " in refused(interrupted(setting("about", "settings", "x", value=1)))


@pytest.mark.parametrize("name", ["inducing_count", "seed", "learning_rate", "dtype"])
def test_settings_of_a_stranger_are_another_training(interrupted, name):
    other = {"inducing_count": 10**9, "seed": 1, "learning_rate": 1e-300, "dtype": "float64"}[name]

    def change(content):
        content["about"]["settings"][name] = other
        content["state"]["seconds"] = 60

    path = interrupted(change)
    with pytest.raises(ModelFolderError, match=f"{path}: training with {name} .* was interrupted here after 2 of 6"):
        train_model(small_dataset(), path, SETTINGS)


@pytest.mark.parametrize(
    "file", ["../secret.npy", "/etc/passwd", "arrays/../../secret.npy", "arrays/a/b.npy", "arrays"]
)
def test_entries_that_lead_out_of_the_folder(interrupted, tmp_path, file):
    np.save(tmp_path / "secret.npy", np.ones(25, np.float32))
    path = interrupted(setting("about", "preprocess", "preprocess.idf", "file", value=file))
    assert damaged(path)


def test_entries_that_are_links(interrupted, tmp_path):
    path = interrupted()
    file = path / Unfinished.read(path).preprocess["preprocess.idf"]["file"]
    file.rename(tmp_path / "secret.npy")
    file.symlink_to(tmp_path / "secret.npy")
    assert damaged(path)


def missing(file):
    file.unlink()


def of_another_type(file):
    np.save(file, np.load(file).astype(np.float64))


def cut_short(file):
    file.write_bytes(file.read_bytes()[:-1])


def not_finite(file):
    array = np.load(file)
    array.flat[-1] = np.nan
    np.save(file, array)


def with_columns_missing(file):
    np.save(file, np.load(file)[..., :-1])


@pytest.mark.parametrize("damage", [missing, of_another_type, cut_short, not_finite, with_columns_missing])
@pytest.mark.parametrize("name", ["idf", "basis", "inducing"])
@pytest.mark.parametrize("steps", [0, 2])
def test_arrays_of_its_preprocessing_that_are_not_as_they_were(interrupted, name, damage, steps):
    path = interrupted(steps=steps)
    entry = Unfinished.read(path).preprocess[f"preprocess.{name}"]
    damage(path / entry["file"])
    array = None if damage in (missing, cut_short) else np.load(path / entry["file"])
    if array is not None:
        # The checkpoint says the same.
        told = {"dtype": array.dtype.str, "shape": list(array.shape)}
        rewrite(path / CHECKPOINT, lambda content: content["about"]["preprocess"][f"preprocess.{name}"].update(told))
    if damage is of_another_type:
        # The same numbers: nothing is wrong with them.
        assert train_model(small_dataset(), path, SETTINGS).stage == "trained"
        return
    with pytest.raises(ModelFolderError) as caught:
        train_model(small_dataset(), path, SETTINGS)
    assert_sentence(str(caught.value).replace(str(path), ""))
    assert str(caught.value).endswith("; --no-resume begins anew without the checkpoint")
    assert train_model(small_dataset(), path, SETTINGS, resume=False).stage == "trained"


def test_without_checkpoints_an_earlier_one_is_gone_on_with_all_the_same(interrupted):
    path, told = interrupted(), []
    before = (path / CHECKPOINT).read_bytes()
    with pytest.raises(KeyboardInterrupt):
        train_model(small_dataset(), path, SETTINGS, every=0, tell=interrupt)
    assert (path / CHECKPOINT).read_bytes() == before
    folder = train_model(small_dataset(), path, SETTINGS, every=0, progress=steps_told(told))
    assert sum(told) == 6
    # The two that were done before are told of at once.
    assert told[0] == 2
    assert folder.stage == "trained"
    assert not (path / CHECKPOINT).exists()


def interrupt(unfinished):
    raise KeyboardInterrupt


def steps_told(told):
    """A `Progress` that takes note of the steps it is told of at a time."""

    class Bar:
        def update(self, count=1, **facts):
            told.append(count)

    @contextlib.contextmanager
    def progress(label, total=None, unit="it"):
        yield Bar() if label == "train" else silent(label)

    return progress


def test_without_checkpoints_an_interruption_leaves_nothing(tmp_path, monkeypatch):
    interrupt_after(0, monkeypatch)
    with pytest.raises(Interrupted):
        train_model(small_dataset(), tmp_path / "model", SETTINGS, every=0)
    assert not (tmp_path / "model").exists()
