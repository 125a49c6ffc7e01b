"""No command allocates what a file claims: each reads the worst files within 300 megabytes more than it has.

A process of its own imports all that commands need and forks for each command. The child refuses more memory than that.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import xmlgp
from tests.fuzzing.model_originals import DESCRIPTION, make_originals
from tests.fuzzing.npy_files import packed, unpacked
from tests.problems import small_dataset
from xmlgp.errors import ModelFolderError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="this system has no /proc")

MEGABYTES = 300

#: Runs the commands of its argument without a bound; then each of standard input within a bound, in a child process.
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
    for command in json.loads(sys.argv[1]):
        with contextlib.redirect_stdout(io.StringIO()):
            main(command.split(), standalone_mode=False)
    for line in sys.stdin:
        status = 0
        if child := os.fork():
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        else:
            try:
                run_bounded(*json.loads(line))
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

#: Commands that import and compile what the others need.
READY = [
    "evaluate -q one.scores one.svm",
    "predict -q default test.txt -o ready.scores",
    "predict -q subspace test.txt -o ready.scores",
    "train -q train.txt other -P 3 --epochs 1",
]


def saved(save):
    """Return what a function writes to a binary stream."""
    stream = io.BytesIO()
    save(stream)
    return stream.getvalue()


def zipped(stream, array):
    """Write a compressed .npz file of one array (bytes)."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("array.npy", array)


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
    "wide.npz": (
        saved(lambda stream: sp.save_npz(stream, sp.csr_array((2, 10**9), dtype=np.float32))),
        ["train -q train.txt model --dense FILE"],
        "Error: FILE: of 2×1000000000 numbers only 0 are stored; features with so many zeros belong in the data file",
    ),
    "long.npz": (
        saved(lambda stream: zipped(stream, packed(np.ones((2, 9))).replace(b"(2, 9), }       ", b"(1000000000, 9)}"))),
        ["train -q train.txt model --dense FILE"],
        "Error: FILE: this is not a complete .npz file with one array of numbers or a CSR matrix",
    ),
    "expanding.npz": (
        saved(lambda stream: zipped(stream, packed(np.zeros((80, 1_000_000), np.float32)))),
        ["train -q train.txt model --dense FILE"],
        "Error: FILE: it expands to more than 100 times its size; save it without compression",
    ),
    "huge.npy": (
        packed(np.ones((2, 9))).replace(b"(2, 9), }       ", b"(1000000000, 9)}"),
        ["predict -q default test.txt --dense FILE", "train -q train.txt model --dense FILE"],
        "Error: FILE: this is not a complete .npy file of numbers",
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
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", RUNNER, json.dumps(READY)],
        cwd=place,
        env=os.environ | own,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def run_bounded(*arguments, stdin=b"", megabytes=MEGABYTES):
            (place / "in").write_bytes(stdin)
            print(json.dumps([arguments, megabytes]), file=process.stdin, flush=True)
            status = int(process.stdout.readline())
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
        line = complaint(bounded(*command.replace("FILE", name).split(), stdin=content))
        assert line.startswith(reason.replace("FILE", file))
    assert not (place / "model").exists()


def test_the_highest_feature_of_a_libsvm_file_takes_no_memory(place, bounded):
    (place / "highest.svm").write_bytes(HUGE_INDEX.replace(b"2147483647", b"10000000"))
    result = bounded("evaluate", "-q", "one.scores", "highest.svm", "--json")
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(result.stdout)["accuracy"] == 100


@pytest.mark.parametrize(
    ("shape", "command"),
    [
        ((10**9, 3), "train -q FILE model"),
        ((10**9, 10**9), "train -q FILE model"),
        ((10**9, 3), "train -q FILE model --set inducing=subspace"),
        ((10**9, 3), "train -q FILE model --set inducing=free"),
        ((10**9, 3), "train -q FILE model --model bmlpl"),
        ((2**31 - 1, 3), "train -q FILE model --model bmlpl"),
        ((2**31 - 1, 1), "train -q FILE model --model gpc"),
        ((10**9, 3), "preprocess -q FILE model"),
        ((3, 10**9), "preprocess -q FILE model"),
        ((3, 10**9), "evaluate -q listed.scores FILE --train FILE"),
    ],
)
def test_features_and_labels_that_do_not_fit_are_refused_before_they_take_memory(place, bounded, shape, command):
    (place / "claims.txt").write_text("3 {} {}\n".format(*shape) + "0 1:1\n" * 3)
    (place / "listed.scores").write_text(f"3 {shape[1]}\n" + "0:1\n" * 3)
    result = bounded(*command.replace("FILE", "claims.txt").split())
    assert (result.returncode, result.stdout) == (1, b"")
    pattern = (
        rb"Error: (training|preprocessing|evaluation) needs at least \d+\.\d GB of memory, but \d+\.\d GB are .*\n"
    )
    assert re.fullmatch(pattern, result.stderr), result.stderr
    assert not (place / "model").exists()


def test_labels_that_do_not_occur_take_no_memory_in_an_evaluation(place, bounded):
    (place / "claims.txt").write_text("1 3 2000000000\n1999999999 1:1\n")
    (place / "assigned.scores").write_text("1 2000000000 assigned\n1999999999:1\n")
    result = bounded("evaluate", "-q", "assigned.scores", "claims.txt", "--json")
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(result.stdout)["F1_macro"] == 1


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
    names = json.loads((place / "default" / DESCRIPTION).read_text())["arrays"] if also_arrays else []
    model = damaged("default", claim(*names))
    assert complaint(bounded("predict", "-q", model, "test.txt")).startswith("Error: damaged")
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
    line = complaint(bounded("predict", "-q", model, "test.txt"))
    assert line == "Error: damaged: the model is damaged, its arrays do not fit its settings"


def test_the_sizes_of_a_preprocessed_model_allocate_nothing_in_training(place, bounded, damaged):
    model = damaged("preprocessed", claim("preprocess.basis", "preprocess.inducing", data=False))
    line = complaint(bounded("train", "-q", "train.txt", model, "-P", "3", "--epochs", "1"))
    assert line.startswith("Error: damaged/arrays/preprocess.")


def test_parameters_that_are_a_hole_in_a_file_take_no_memory(tmp_path):
    xmlgp.train(small_dataset(), tmp_path, settings={"epochs": 1, "inducing_count": 5})
    description = json.loads((tmp_path / "model.json").read_text())
    entry = description["arrays"]["parameters.loadings"]
    array = np.lib.format.open_memmap(tmp_path / entry["file"], "w+", np.float32, (1 << 28,))
    del array
    entry |= {"dtype": "<f4", "shape": [1 << 28]}
    (tmp_path / "model.json").write_text(json.dumps(description))
    tracemalloc.start()
    try:
        with pytest.raises(ModelFolderError, match="its arrays do not fit each other"):
            xmlgp.load(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
