"""What a file claims to hold takes no memory: every command reads the worst ones within 300 megabytes more than it has.

The bound is set on a process of its own, after all that it needs was imported: beyond it, memory is refused.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.fuzzing.model_originals import DESCRIPTION, make_originals
from tests.fuzzing.npy_files import packed, unpacked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory in use is looked up as Linux tells it")

MEGABYTES = 300

#: Runs one command to have all that is needed at hand, then another one within the bound.
BOUNDED = f"""if True:
    import contextlib, importlib, io, resource, sys
    from xmlgp.cli import COMMANDS, main

    ready, arguments = sys.argv[1].split("|"), sys.argv[2:]
    for name in COMMANDS:
        importlib.import_module(f"xmlgp.cli.{{name}}")
    with contextlib.redirect_stdout(io.StringIO()):
        main(ready, standalone_mode=False)
    pages = int(open("/proc/self/statm").read().split()[0])
    bound = pages * resource.getpagesize() + ({MEGABYTES} << 20)
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    main(arguments)
"""

HUGE = b"1000000000 1000000000 1000000000\n0 1:1\n5 7:1\n"
HUGE_SCORES = b"1000000000 1000000000\n0:1\n7:1\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with models, data, scores of them, and the catalogue."""
    folder = tmp_path_factory.mktemp("place")
    make_originals(folder)
    (folder / "no.scores").write_bytes(b"0 7\n")
    return folder


def bounded(place, *arguments, ready=("fetch", "--list"), stdin=b""):
    """Run a command in bounded memory."""
    command = [sys.executable, "-c", BOUNDED, "|".join(map(str, ready)), *map(str, arguments)]
    own = {"XMLGP_CACHE_DIR": str(place / "cache"), "XMLGP_CATALOGUE": str(place / "catalogue.yaml")}
    return subprocess.run(command, input=stdin, capture_output=True, check=False, cwd=place, env=os.environ | own)


def complaint(result):
    """The one line that a command says which refuses its input, but not for want of memory."""
    line, *more = result.stderr.decode().splitlines()
    assert (result.returncode, result.stdout, more) == (1, b"", []), line
    assert "memory" not in line
    return line


def test_the_bound_is_one(place):
    lines = b"2000000 7\n" + b" ".join(b"%d:0.5" % label for label in range(7)) + b"\n"
    many = lines + lines[10:] * 1_999_999
    assert len(many) < 100e6
    result = bounded(place, "evaluate", "-q", "-", "test.txt", stdin=many)
    assert result.returncode == 1
    assert b"not enough memory" in result.stderr


@pytest.mark.parametrize("cache", [["--cache"], ["--no-cache"]], ids=str)
def test_a_data_file_that_announces_a_billion_of_everything(place, cache):
    (place / "huge.txt").write_bytes(HUGE)
    reason = "huge.txt:4: the file ends after 2 points, but its first line declares 1000000000"
    for command in (["evaluate", "-q", "no.scores", "huge.txt"], ["preprocess", "-q", "huge.txt", "model"]):
        assert complaint(bounded(place, *command, *cache)) == reason
    assert complaint(bounded(place, "evaluate", "-q", "no.scores", "-", stdin=HUGE)) == reason.replace("huge.txt", "-")
    assert not (place / "model").exists()


def test_a_scores_file_that_announces_a_billion_of_everything(place):
    (place / "huge.scores").write_bytes(HUGE_SCORES)
    reason = "huge.scores:4: the file ends after 2 points, its first line announces 1000000000"
    assert complaint(bounded(place, "evaluate", "-q", "huge.scores", "test.txt")) == reason
    assert complaint(bounded(place, "evaluate", "-q", "-", "test.txt", stdin=HUGE_SCORES)).startswith("-:4: ")


@pytest.mark.parametrize("index", [10_000_001, 2_147_483_647, 9_000_000_000])
def test_a_libsvm_file_with_an_index_beyond_all_data(place, index):
    (place / "one.svm").write_bytes(b"+1 1:1\n-1 2:1\n")
    (place / "one.scores").write_bytes(b"2 1\n0:0.75\n0:0.25\n")
    ready = ["evaluate", "-q", "one.scores", "one.svm"]
    content = b"+1 1:1\n-1 2:1 %d:1\n" % index
    (place / "huge.svm").write_bytes(content)
    reason = f"huge.svm:2: feature '{index}' is above 10000000, the highest index supported"
    for command in (["evaluate", "-q", "one.scores", "huge.svm"], ["preprocess", "-q", "huge.svm", "model"]):
        assert complaint(bounded(place, *command, ready=ready)) == reason
    (place / "huge.svm").write_bytes(content.replace(b"%d" % index, b"10000000"))
    result = bounded(place, "evaluate", "-q", "one.scores", "huge.svm", "--json", ready=ready)
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(result.stdout)["accuracy"] == 100
    result = bounded(place, *ready[:3], "-", stdin=content, ready=ready)
    assert complaint(result) == reason.replace("huge.svm", "-")


def test_scores_of_two_billion_labels_of_which_few_are_listed(place):
    content = b"9 2147483647\n" + b"2147483646:1 0:0.5\n" * 9
    line = complaint(bounded(place, "evaluate", "-q", "-", "test.txt", stdin=content))
    assert "9×2147483647" in line or "2147483647" in line


@pytest.fixture
def damaged(place, request):
    """Return a function that makes a copy of a model with another description."""

    def make(name, change):
        path = place / "damaged"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(place / name, path)
        description = json.loads((path / DESCRIPTION).read_text())
        change(description, path)
        (path / DESCRIPTION).write_text(json.dumps(description))
        return "damaged"

    return make


def claim(*names, data=True):
    """Return a change that claims that the arrays of some names, and the data, are as large as possible."""

    def change(description, path):
        if data:
            description["data"] |= dict.fromkeys("NDK", 10**9)
        for name, entry in description["arrays"].items():
            if name in names:
                entry["shape"] = [10**9 for _ in entry["shape"]]
                file = path / entry["file"]
                content = file.read_bytes()
                array = unpacked(content)
                header = repr({"descr": array.dtype.str, "fortran_order": False, "shape": tuple(entry["shape"])})
                encoded = header.encode() + b"\n"
                file.write_bytes(content[:8] + len(encoded).to_bytes(2, "little") + encoded + array.tobytes())

    return change


@pytest.mark.parametrize(
    ("name", "arrays"),
    [("default", []), ("default", ["*"]), ("subspace", ["preprocess.idf"]), ("diagonal", ["parameters.bias"])],
    ids=str,
)
def test_a_model_that_claims_to_be_huge(place, damaged, name, arrays):
    ready = ["predict", "-q", name, "test.txt", "-o", "ready.scores"]
    names = json.loads((place / name / DESCRIPTION).read_text())["arrays"] if arrays == ["*"] else arrays
    model = damaged(name, claim(*names))
    assert complaint(bounded(place, "predict", "-q", model, "test.txt", ready=ready)).startswith("Error: damaged")
    shown = bounded(place, "show", model)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert re.search(rb"N 1000000000, D 1000000000, K 1000000000", shown.stdout)


def test_arrays_of_no_numbers_whose_products_are_huge(place, damaged):
    M = 30_000
    shapes = {
        "preprocess.basis": (0, 25),
        "preprocess.inducing": (M, 0),
        "parameters.inducing": (M, 0),
        "parameters.kernel.se.log_relevance": (0,),
        "parameters.kernel.linear.log_relevance": (0,),
        "parameters.posterior.mean": (M, 0),
        "parameters.posterior.factor": (0, M, M),
        "parameters.loadings": (7, 0),
    }

    def empty(description, path):
        for name, shape in shapes.items():
            entry = description["arrays"][name]
            entry["shape"] = shape
            (path / entry["file"]).write_bytes(packed(np.empty(shape, entry["dtype"])))

    model = damaged("subspace", empty)
    ready = ["predict", "-q", "subspace", "test.txt", "-o", "ready.scores"]
    line = complaint(bounded(place, "predict", "-q", model, "test.txt", ready=ready))
    assert line == "Error: damaged: the model is damaged, its arrays do not fit its settings"


def test_a_preprocessed_model_that_claims_to_be_huge_is_not_trained(place, damaged):
    ready = ["train", "-q", "train.txt", str(place / "other"), "-P", "3", "--epochs", "1"]
    model = damaged("preprocessed", claim("preprocess.basis", "preprocess.inducing", data=False))
    line = complaint(bounded(place, "train", "-q", "train.txt", model, "-P", "3", "--epochs", "1", ready=ready))
    assert line.startswith("Error: damaged/arrays/preprocess.")


def test_aliases_that_stand_for_more_than_memory_holds(place):
    lines = ["datasets: {}", "recipes:", "  a0: &a0 {x: 1}"]
    lines += [f"  a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 10)]
    (place / "bomb.yaml").write_text("\n".join(lines))
    line = complaint(bounded(place, "fetch", "--list", "--catalogue", "bomb.yaml"))
    assert re.match(r"Error: bomb.yaml:\d+: invalid YAML: more than 1000000 values", line)
