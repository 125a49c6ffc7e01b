"""Checkpoints of trainings: refused in one sentence, or gone on from to a model of finite numbers."""

import io
import json
import os
import shutil
import zipfile
from unittest import mock

import numpy as np
from hypothesis import strategies as st

from tests.cli.command import run
from tests.fuzzing.hunt import Sample
from tests.fuzzing.mangling import mangled
from tests.fuzzing.model_folders import TOKENS, rewritten
from tests.fuzzing.npy_files import altered, damaged_npy, packed, unpacked
from tests.fuzzing.sentences import attempted, ends_well
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.interrupted import CHECKPOINT, InterruptedRun
from xmlgp.runtime.interrupts import Interrupted
from xmlgp.training import checkpoints

__all__ = ["CheckpointFiles"]

FACTS = "checkpoint.json"

#: What takes time and memory is not the checkpoint's to say.
SIZES = ["-P", "3", "-M", "6", "-R", "9", "--epochs", "3", "--batch-size", "16"]

TOPICS = ["--model", "bmlpl", "--topics", "3", "--iterations", "3", "--batch-size", "16"]

CLASSES = ["--model", "gpc", "-M", "6", "--iterations", "4", "--batch-size", "32"]

#: Options, and the step after which training is interrupted; of the first ones some epochs are behind.
KINDS = {
    "held out": (([*SIZES, "--label-weights"], "the points not held out"), 4),
    "on all points": (([*SIZES, "--label-weights", "--negatives", "2"], "all points"), 4),
    "without held-out points": (
        ([*SIZES, "--validation", "0", "--optimiser", "adadelta", "--inducing", "subspace"], "all points"),
        3,
    ),
    "the best is kept": (
        ([*SIZES, "--no-refit", "--posterior", "cholesky", "--kernel", "se+linear"], "the points not held out"),
        5,
    ),
    "not begun": ((SIZES, None), 0),
    "topics": (([*TOPICS, "--inference", "em-cg"], " steps"), 2),
    "topics, exactly": (([*TOPICS, "--inference", "em", "--learn-precision", "--iterations", "4"], " steps"), 3),
    "topics, in minibatches": (([*TOPICS, "--inference", "online-em"], " steps"), 12),
    "topics, sampled": (([*TOPICS, "--inference", "gibbs", "--burn-in", "1", "--thinning", "1"], " steps"), 2),
    "classes": ((CLASSES, " steps"), 2),
    "classes, in minibatches": (([*CLASSES, "--inference", "svi-adadelta"], " steps"), 6),
}


def members(content):
    """Return the members of an archive by their names."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive(contents):
    """Return an archive of members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return stream.getvalue()


class CheckpointFiles:
    """Checkpoints in model folders.

    Parameters
    ----------
    folder : Path
        To work in; trainings are interrupted there.
    """

    name = "checkpoint"

    def __init__(self, folder):
        self.folder = folder
        write_dataset(folder / "train.txt", small_dataset(N=120))
        write_dataset(folder / "one-label.txt", small_dataset(N=120, K=1))
        (folder / "catalogue.yaml").write_text("datasets: {}\n")
        self._contents, self._models = {}, {}
        for name, ((options, where), step) in KINDS.items():
            self._interrupt(folder / name, options, where, step)
            self._contents[name] = self._settle(folder / name)
            self._copy_anew(name)
            assert ends_well(*self._train(name)) is not None
            self._models[name] = self._parameters(name)
            self._copy_anew(name)
        self.samples = st.one_of(*[self._samples(name) for name in self._contents])

    def _interrupt(self, model, options, where, step):
        def offer(self, state, epoch_ended=False):
            self.write(state())
            found = InterruptedRun.read(model)
            if found.step >= step and found.where.endswith(where or ""):
                raise Interrupted(15)

        def fit(*arguments):
            raise Interrupted(15)

        stopped = (checkpoints.Checkpoints, "offer", offer) if where else ("xmlgp.runs.train._Run._train", fit)
        with mock.patch.object(*stopped) if where else mock.patch(*stopped), self._catalogue():
            result = run("train", "-q", "--no-cache", self._data(options), model, *options)
        assert result.exit_code == 128 + 15, result.stderr

    def _data(self, options):
        return self.folder / ("one-label.txt" if "gpc" in options else "train.txt")

    def _settle(self, model):
        """Take out of a checkpoint what differs from run to run; return the contents of all files."""
        found = members((model / CHECKPOINT).read_bytes())
        content = json.loads(found[FACTS])
        for name, entry in content["about"]["preprocess"].items():
            settled = f"arrays/{name}.00000000.npy"
            os.rename(model / entry["file"], model / settled)
            entry["file"] = settled
        content["about"]["cores"] = 1
        state = content["state"] or {}
        for part in (state, *state.get("history", []), *((state.get("plan") or {}).get("validation") or [])):
            part |= {"seconds": 0.25} if part else {}
        found[FACTS] = json.dumps(content).encode()
        (model / CHECKPOINT).write_bytes(archive(found))
        files = [CHECKPOINT, *sorted(f"arrays/{file.name}" for file in (model / "arrays").iterdir())]
        return {file: (model / file).read_bytes() for file in files}

    def _catalogue(self):
        return mock.patch.dict(os.environ, {"XMLGP_CATALOGUE": str(self.folder / "catalogue.yaml")})

    def _copy(self, name):
        return self.folder / f"{name}-damaged"

    def _copy_anew(self, name):
        shutil.rmtree(self._copy(name), ignore_errors=True)
        shutil.copytree(self.folder / name, self._copy(name))

    def _samples(self, name):
        contents = self._contents[name]
        inside = members(contents[CHECKPOINT])
        facts = inside[FACTS]
        state = json.loads(facts)["state"]
        stored = [member for member in inside if member != FACTS]
        files = st.sampled_from([file for file in contents if file != CHECKPOINT])

        def with_member(member):
            return lambda content: {CHECKPOINT: archive(inside | {member: content})}

        def with_state(content):
            return {CHECKPOINT: archive(inside | {FACTS: json.dumps(json.loads(facts) | {"state": content})})}

        changes = [
            rewritten(facts).map(with_member(FACTS)),
            mangled([facts], TOKENS).map(with_member(FACTS)),
            mangled([contents[CHECKPOINT]], [b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"]).map(
                lambda c: {CHECKPOINT: c}
            ),
            files.flatmap(lambda file: damaged_npy(contents[file]).map(lambda content: {file: content})),
            # Arrays of preprocessing that are as the checkpoint says.
            files.flatmap(
                lambda file: altered(unpacked(contents[file])).map(
                    lambda array: {
                        file: packed(array),
                        CHECKPOINT: archive(inside | {FACTS: described(facts, file, array)}),
                    }
                )
            ),
            files.map(lambda file: {file: None}),
        ]
        if state:
            member = st.sampled_from(stored)
            changes += [
                # Only what is gone on from: the rest is looked at before.
                rewritten(json.dumps(state).encode()).filter(is_json).map(lambda c: with_state(json.loads(c))),
                member.flatmap(lambda m: altered(unpacked(inside[m])).map(packed).map(with_member(m))),
                member.flatmap(lambda m: damaged_npy(inside[m]).map(with_member(m))),
                member.map(lambda m: {CHECKPOINT: archive({n: c for n, c in inside.items() if n != m})}),
            ] * 2
        return st.one_of(*changes).map(lambda files: Sample(name, files))

    def _train(self, name):
        options = KINDS[name][0][0]
        return ["train", "-q", "--no-cache", self._data(options), self._copy(name), "--resume", *options]

    def _parameters(self, name):
        """Return the content of the parameters of the model, which are finite."""
        found = ModelFolder(self._copy(name)).arrays("parameters.")
        assert all(np.isfinite(array).all() for array in found.values()), "parameters are not finite"
        return {name: array.tobytes() for name, array in found.items()}

    def check(self, sample):
        """Go on with the training; return whether it came to a model."""
        copy = self._copy(sample.original)
        for name, content in sample.files.items():
            (copy / name).unlink()
            if content is not None:
                (copy / name).write_bytes(content)
        before = (copy / CHECKPOINT).read_bytes()
        try:
            _, error = attempted(lambda: InterruptedRun.read(copy))
            with self._catalogue():
                trained = ends_well(*self._train(sample.original)) is not None
            assert not (trained and error), "gone on from what cannot be read"
            if trained:
                assert not (copy / CHECKPOINT).exists()
                parameters = self._parameters(sample.original)
                if members_of(before) == members_of(self._contents[sample.original][CHECKPOINT]) and not (
                    sample.files.keys() - {CHECKPOINT}
                ):
                    assert parameters == self._models[sample.original], "another model from the same checkpoint"
                assert ends_well("predict", "-q", copy, self.folder / "train.txt", "-o", os.devnull) is not None
            else:
                # Where numbers were lost only later, it may be another one by now.
                assert (copy / CHECKPOINT).read_bytes() == before or InterruptedRun.read(copy)
                assert not (copy / "model.json").exists()
            return trained
        finally:
            self._copy_anew(sample.original)


def is_json(content):
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def members_of(content):
    try:
        return members(content)
    except Exception:
        return None


def described(facts, file, array):
    """Return what a checkpoint says, with the shape and type of one array."""
    tree = json.loads(facts)
    (entry,) = [entry for entry in tree["about"]["preprocess"].values() if entry["file"] == file]
    entry |= {"dtype": array.dtype.str, "shape": list(array.shape)}
    return json.dumps(tree).encode()
