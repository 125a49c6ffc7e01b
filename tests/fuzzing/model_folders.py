"""Model folders: refused in one sentence, or shown and used with scores that only changed numbers change."""

import json
import os
import re
import shutil
from unittest import mock

from hypothesis import strategies as st

from tests.fuzzing.mangling import Sample, mangled
from tests.fuzzing.model_originals import DESCRIPTION, NAMED, make_originals
from tests.fuzzing.npy_files import altered, damaged_npy, packed, unpacked
from tests.fuzzing.strict_readers import read_scores_text
from tests.fuzzing.text_files import attempted, ends_well
from xmlgp.model_folder.folder import ModelFolder

__all__ = ["ModelFolders"]

#: Characters that can start a command to a terminal.
CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")

#: Settings that determine how arrays are used.
MEANINGFUL = ["weighting", "inducing", "posterior", "nodes", "dtype"]

TOKENS = [
    b"null", b"true", b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"1e-999", b"0.5", b'""', b"[]", b"{}",
    b'"\\ud800"', b'"\\u0000"', b'"\\n"', b'"\\u2028"', b'"\\u001b[2J"', b"{" * 3, b"]", b'"K": 7, ',
    b'"D": 1000000000, ', b'"arrays": {}, ', b'"settings": {}, ', b'"format_version": 1, ', b'"format_version": 2, ',
    b'"model": "bmlpl", ', b'"shape": [1000000000], ', b"//", b"'",
]  # fmt: skip

#: JSON that Python's writer would not write.
RAW = [
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 400, "9" * 5000, "[" * 400 + "]" * 400,
    '{"a":' * 400 + "1" + "}" * 400, "[" * 900 + "]" * 900, "[" * 20_000, '"\\ud800"', '"' + "x" * 5000 + '"',
    "1.0", "-0",
]  # fmt: skip
VALUES = st.sampled_from([
    None, True, False, 0, 1, 2, 3, 4, -1, 7, 25, 2**31, 10**9, 2**63, 0.5, 1e-300, 1e300, "", "x", "se", "a\nb",
    "\x1b[2J", "bmlpl", "gibbs", [], {}, [1], [10**9], [10**9, 10**9], [-1], [True], {"a": 1}, "cholesky", "subspace",
    "float64", "none", "<f8", "arrays/../model.json", "arrays/a\0b", "arrays/" + "a" * 300, "\u2028", "trained",
    "preprocessed",
])  # fmt: skip
PLACEHOLDER = "raw value"


def paths(node, path=()):
    """Return the path of every value within a tree of mappings and lists."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path] * bool(path) + [place for key, child in children for place in paths(child, (*path, key))]


@st.composite
def rewritten(draw, content):
    """Draw a description with values changed, removed, added or duplicated."""
    tree = json.loads(content)
    text = None
    for _ in range(draw(st.integers(1, 2))):
        # Half of the changes at the top level, half among the arrays.
        depth = draw(st.integers(1, 4))
        path = draw(st.sampled_from([path for path in paths(tree) if len(path) <= depth]))
        node = tree
        for step in path[:-1]:
            node = node[step]
        match draw(st.sampled_from(["replace", "raw", "delete", "add", "rename"])):
            case "replace":
                node[path[-1]] = draw(VALUES)
            case "raw":
                node[path[-1]], text = PLACEHOLDER, draw(st.sampled_from(RAW))
            case "delete":
                del node[path[-1]]
            case "add" if isinstance(node, dict):
                node[draw(st.sampled_from(["x", "a\nb", "factors", "topics", "history", "parameters.new"]))] = draw(
                    VALUES
                )
            case "rename" if isinstance(node, dict):
                node[draw(st.sampled_from(["x", *node]))] = node.pop(path[-1])
    text = json.dumps(tree).replace(json.dumps(PLACEHOLDER), text or "null")
    return text.encode()


class ModelFolders:
    """Model folders, made in a folder to work in."""

    def __init__(self, folder):
        self.folder = folder
        self._contents, self._scores = {}, {}
        for name in make_originals(folder):
            model = folder / name
            files = [DESCRIPTION, *sorted(f"arrays/{file.name}" for file in (model / "arrays").iterdir())]
            self._contents[name] = {file: (model / file).read_bytes() for file in files}
            self._copy_anew(name)
            self._scores[name] = self._use(name)
            assert self._scores[name] is not None
            self._copy_anew(name)
        self.samples = st.one_of(*[self._samples(name) for name in self._contents])

    def _copy(self, name):
        return self.folder / f"{name}-damaged"

    def _copy_anew(self, name):
        shutil.rmtree(self._copy(name), ignore_errors=True)
        shutil.copytree(self.folder / name, self._copy(name), copy_function=os.link)

    def _samples(self, name):
        contents = self._contents[name]
        description = contents[DESCRIPTION]
        arrays = st.sampled_from([file for file in contents if file != DESCRIPTION])

        def another_array(file):
            return altered(unpacked(contents[file])).map(
                lambda array: {file: packed(array), DESCRIPTION: described(description, file, array)}
            )

        changes = st.one_of(
            rewritten(description).map(lambda content: {DESCRIPTION: content}),
            mangled([description], TOKENS).map(lambda content: {DESCRIPTION: content}),
            arrays.flatmap(lambda file: damaged_npy(contents[file]).map(lambda content: {file: content})),
            # The description of an array changes with the array.
            *[arrays.flatmap(another_array)] * 2,
            arrays.map(lambda file: {file: None}),
            st.tuples(arrays, arrays).map(
                lambda files: {
                    files[0]: contents[files[1]],
                    DESCRIPTION: described(description, files[0], unpacked(contents[files[1]])),
                }
            ),
        )
        return changes.map(lambda files: Sample(name, files))

    def check(self, sample):
        """Show the model and use it; return whether it was read."""
        copy = self._copy(sample.original)
        for name, content in sample.files.items():
            # Written to a new file: mapped arrays must not change.
            (copy / name).unlink()
            if content is not None:
                (copy / name).write_bytes(content)
        try:
            _, error = attempted(lambda: ModelFolder(copy))
            shown = ends_well("show", copy)
            as_json = ends_well("show", "--json", copy)
            assert (shown is None) == (as_json is None) == (error is not None)
            if as_json is not None:
                json.loads(as_json, parse_constant=refuse_constant)
            scores = self._use(sample.original)
            assert scores is None or error is None or sample.original == "preprocessed"
            if scores is not None and error is None and self._same_numbers(sample):
                assert scores == self._scores[sample.original], "other scores of the same numbers"
            return scores is not None
        finally:
            self._copy_anew(sample.original)

    def _use(self, name):
        """Return the content of the scores files of a model, after training if it is only preprocessed, or None."""
        model, test, out = self._copy(name), self.folder / "test.txt", self.folder / "out.scores"
        if name == "preprocessed":
            train = ["train", "-q", "--no-cache", self.folder / "train.txt", model, "-P", "3", "--epochs", "1"]
            with mock.patch.dict(os.environ, {"XMLGP_CATALOGUE": str(self.folder / "catalogue.yaml")}):
                if ends_well(*train, "--no-label-weights") is None:
                    return None
        found = []
        for options in ["-k", "2"], ["-k", "all", "--output", "probability", "--with-std"]:
            if ends_well("predict", "-q", model, test, "-o", out, *options) is None:
                return None
            found.append(out.read_bytes())
            N, K, points = read_scores_text(found[-1])
            assert N == 9
            assert [len(point) for point in points] == [min(2, K) if options[1] == "2" else K] * N
        if name == NAMED:
            self._use_names(model)
        return found

    def _use_names(self, model):
        """Ask for the labels of texts; what reaches a terminal must be harmless."""
        text = "wörd00 wörd07 wörd07\n\nsomething wörd24\n"
        for options in ["-k", "3"], ["--format", "tsv", "--with-std"]:
            answers = ends_well("predict", "-q", model, "-", *options, stdin=text)
            if answers is not None:
                assert not CONTROL.search(answers.replace("\n", "").replace("\t", ""))
                assert len(answers.split("\n")) == (4 if "-k" in options else 17)

    def _same_numbers(self, sample):
        """Return whether the values that scores depend on are unchanged."""
        contents = self._contents[sample.original]
        before, after = (json.loads(files[DESCRIPTION]) for files in (contents, contents | sample.files))
        if any(before["settings"].get(name) != after["settings"].get(name) for name in MEANINGFUL):
            return False
        for file, content in sample.files.items():
            if file != DESCRIPTION and not same_array(contents[file], content):
                return False
        return sample.original != "preprocessed" or before == after


def refuse_constant(name):
    raise AssertionError(f"{name} is no JSON")


def same_array(before, after):
    """Return whether two `.npy` files hold the same numbers."""
    first = unpacked(before)
    try:
        second = unpacked(after)
    except Exception:
        return False
    return first.shape == second.shape and first.dtype == second.dtype and first.tobytes() == second.tobytes()


def described(description, file, array):
    """Return the description with the shape and type of one array."""
    tree = json.loads(description)
    (entry,) = [entry for entry in tree["arrays"].values() if entry["file"] == file]
    entry |= {"dtype": array.dtype.str, "shape": list(array.shape)}
    return json.dumps(tree).encode()
