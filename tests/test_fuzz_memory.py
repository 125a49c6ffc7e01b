"""No command allocates what a file claims: each reads the worst files within 300 megabytes more than it has.

A process of its own imports all that commands need and forks for each command. The child refuses more memory than that.
"""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tests.fuzzing.model_originals import DESCRIPTION, make_originals
from tests.fuzzing.npy_files import packed, unpacked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads memory in use from /proc")

MEGABYTES = 300

#: Reads commands from standard input. Each prepares this process, or runs within the bound in a child of it.
RUNNER = """if True:
    import contextlib, importlib, io, json, os, resource, sys
    from xmlgp.cli import COMMANDS, main

    def run_bounded(arguments, megabytes):
        for number, (file, flags) in enumerate([("in", os.O_RDONLY), ("out", os.O_RDWR), ("err", os.O_RDWR)]):
            os.dup2(os.open(file, flags | os.O_CREAT | os.O_TRUNC * (number > 0)), number)
        sys.stdin = io.TextIOWrapper(open(0, "rb"))
        pages = int(open("/proc/self/statm").read().split()[0])
        bound = pages * resource.getpagesize() + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
        main(arguments)

    for name in COMMANDS:
        importlib.import_module(f"xmlgp.cli.{name}")
    for line in sys.stdin:
        prepare, arguments, megabytes = json.loads(line)
        status = 0
        if prepare:
            with contextlib.redirect_stdout(io.StringIO()):
                main(arguments, standalone_mode=False)
        elif child := os.fork():
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        else:
            try:
                run_bounded(arguments, megabytes)
            except SystemExit as error:
                status = error.code
            except BaseException as error:
                print(repr(error), file=sys.stderr)
                status = 99
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status or 0)
        print(status, flush=True)
"""

#: Data and scores that claim too much, the commands that read them, and the reason of each refusal.
HUGE_INDEX = b"+1 1:1\n-1 2:1 2147483647:1\n"
CLAIMS = {
    "huge.txt": (
        b"1000000000 1000000000 1000000000\n0 1:1\n5 7:1\n",
        ["evaluate -q no.scores FILE", "evaluate -q no.scores -", "preprocess -q FILE model"],
        "FILE:4: the file ends after 2 of 1000000000 points declared in its first line",
    ),
    "huge.scores": (
        b"1000000000 1000000000\n0:1\n7:1\n",
        ["evaluate -q FILE test.txt", "evaluate -q - test.txt"],
        "FILE:4: the file ends after 2 points, but its first line declares 1000000000",
    ),
    "few.scores": (b"9 2147483647\n" + b"2147483646:1 0:0.5\n" * 9, ["evaluate -q FILE test.txt"], ""),
    "huge.svm": (
        HUGE_INDEX,
        ["evaluate -q one.scores FILE", "evaluate -q one.scores -", "preprocess -q FILE model"],
        "FILE:2: feature '2147483647' is above 10000000, the highest index supported",
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with models, data, scores of them, and the catalogue."""
    folder = tmp_path_factory.mktemp("place")
    make_originals(folder, ["default", "subspace", "preprocessed"])
    (folder / "no.scores").write_bytes(b"0 7\n")
    (folder / "one.svm").write_bytes(b"+1 1:1\n-1 2:1\n")
    (folder / "one.scores").write_bytes(b"2 1\n0:0.75\n0:0.25\n")
    return folder


@pytest.fixture(scope="module")
def bounded(place):
    """Return a function that runs a command in bounded memory, once commands like it have run without a bound."""
    own = {"XMLGP_CACHE_DIR": str(place / "cache"), "XMLGP_CATALOGUE": str(place / "catalogue.yaml")}
    prepared = set()
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", RUNNER],
        cwd=place,
        env=os.environ | own,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def request(prepare, arguments, megabytes=None):
            print(json.dumps([prepare, list(map(str, arguments)), megabytes]), file=process.stdin, flush=True)
            return int(process.stdout.readline())

        def run_bounded(*arguments, ready=("fetch", "--list"), stdin=b"", megabytes=MEGABYTES):
            if tuple(ready) not in prepared:
                request(True, ready)
                prepared.add(tuple(ready))
            (place / "in").write_bytes(stdin)
            status = request(False, arguments, megabytes)
            return SimpleNamespace(
                returncode=status, stdout=(place / "out").read_bytes(), stderr=(place / "err").read_bytes()
            )

        yield run_bounded
        process.stdin.close()


def complaint(result):
    """Return the one line of a command that refuses its input for another reason than memory."""
    line, *more = result.stderr.decode().splitlines()
    assert (result.returncode, result.stdout, more) == (1, b"", []), line
    assert "memory" not in line
    return line


def test_memory_is_bounded(place, bounded):
    # The bound is what the process has and a little more.
    lines = b"1000000 7\n" + b" ".join(b"%d:0.5" % label for label in range(7)) + b"\n"
    result = bounded("evaluate", "-q", "-", "test.txt", stdin=lines + lines[10:] * 999_999, megabytes=8)
    assert result.returncode == 1
    assert b"not enough memory" in result.stderr


@pytest.mark.parametrize("name", CLAIMS)
def test_the_claims_of_a_file_allocate_nothing(place, bounded, name):
    content, commands, reason = CLAIMS[name]
    (place / name).write_bytes(content)
    for command in commands:
        file = name if "FILE" in command else "-"
        ready = ("evaluate", "-q", "one.scores", "one.svm") if name.endswith(".svm") else ("fetch", "--list")
        line = complaint(bounded(*command.replace("FILE", name).split(), ready=ready, stdin=content))
        assert line.startswith(reason.replace("FILE", file))
    assert not (place / "model").exists()


def test_the_highest_feature_of_a_libsvm_file_takes_no_memory(place, bounded):
    (place / "highest.svm").write_bytes(HUGE_INDEX.replace(b"2147483647", b"10000000"))
    ready = ("evaluate", "-q", "one.scores", "one.svm")
    result = bounded("evaluate", "-q", "one.scores", "highest.svm", "--json", ready=ready)
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(result.stdout)["accuracy"] == 100


@pytest.fixture
def damaged(place):
    """Return a function that copies a model and changes its description."""

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


@pytest.mark.parametrize("also_arrays", [False, True])
def test_the_sizes_of_a_model_allocate_nothing(place, bounded, damaged, also_arrays):
    ready = ["predict", "-q", "default", "test.txt", "-o", "ready.scores"]
    names = json.loads((place / "default" / DESCRIPTION).read_text())["arrays"] if also_arrays else []
    model = damaged("default", claim(*names))
    assert complaint(bounded("predict", "-q", model, "test.txt", ready=ready)).startswith("Error: damaged")
    shown = bounded("show", model)
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert b"N 1000000000, D 1000000000, K 1000000000" in shown.stdout


def test_empty_arrays_with_huge_products_allocate_nothing(place, bounded, damaged):
    M = 30_000
    shapes = {
        "preprocess.basis": (0, 25),
        "preprocess.inducing": (M, 0),
        "parameters.inducing": (M, 0),
        "parameters.kernel.se.log_relevance": (0,),
        "parameters.kernel.linear.log_relevance": (0,),
        "parameters.posterior.whitened_mean": (M, 0),
        "parameters.posterior.whitened_factor": (0, M, M),
        "parameters.loadings": (7, 0),
    }

    def empty(description, path):
        for name, shape in shapes.items():
            entry = description["arrays"][name]
            entry["shape"] = shape
            (path / entry["file"]).write_bytes(packed(np.empty(shape, entry["dtype"])))

    model = damaged("subspace", empty)
    ready = ["predict", "-q", "subspace", "test.txt", "-o", "ready.scores"]
    line = complaint(bounded("predict", "-q", model, "test.txt", ready=ready))
    assert line == "Error: damaged: the model is damaged, its arrays do not fit its settings"


def test_the_sizes_of_a_preprocessed_model_allocate_nothing_in_training(place, bounded, damaged):
    ready = ["train", "-q", "train.txt", str(place / "other"), "-P", "3", "--epochs", "1"]
    model = damaged("preprocessed", claim("preprocess.basis", "preprocess.inducing", data=False))
    line = complaint(bounded("train", "-q", "train.txt", model, "-P", "3", "--epochs", "1", ready=ready))
    assert line.startswith("Error: damaged/arrays/preprocess.")
