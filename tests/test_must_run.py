"""With `--must-run`, a run fails if it skips what could have run, wherever and in whichever process that is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PASSES = "def test_passes(): pass\n"

#: Modules that are skipped, each at another place, for the reason in place of REASON.
SKIPPED = [
    'import pytest\npytest.importorskip("no_such_package", reason="REASON")\n' + PASSES,
    'import pytest\npytestmark = pytest.mark.skipif(True, reason="REASON")\n' + PASSES,
    'import pytest\n@pytest.fixture\ndef a(): pytest.skip("REASON")\ndef test_it(a): pass\n',
]

EXCUSED, NOT_EXCUSED = "this system has no fork", "Annif is not installed"


def run(folder, modules, *options):
    """Run pytest on some modules; return its exit status and the lines that it prints."""
    for number, text in enumerate([PASSES, *modules]):
        (folder / f"test_{number}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.must_run", *options]
    # pytest reads PYTEST_ADDOPTS, too.
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_what_could_have_run_must_run(tmp_path):
    modules = [text.replace("REASON", reason) for text in SKIPPED for reason in (EXCUSED, NOT_EXCUSED)]
    status, lines = run(tmp_path, modules, "--must-run=here", "--numprocesses=2", "--dist=worksteal")
    assert status == 1
    assert f"skipped 6: {NOT_EXCUSED} (3); {EXCUSED} (3)" in lines
    assert f"FAILED, because these must run: 3: {NOT_EXCUSED} (3)" in lines
    assert lines[-1].startswith("1 passed, 6 skipped in ")


@pytest.mark.parametrize(
    ("reasons", "option", "status", "counted"),
    [
        ([EXCUSED, EXCUSED], "--must-run=here", 0, [f"skipped 2: {EXCUSED} (2)"]),
        ([EXCUSED], "--must-run=all", 1, [f"skipped 1: {EXCUSED} (1)"]),
    ],
)
def test_only_what_the_option_says_must_run(tmp_path, reasons, option, status, counted):
    modules = [SKIPPED[1].replace("REASON", reason) for reason in reasons]
    found, lines = run(tmp_path, modules, option)
    assert found == status
    assert [line for line in lines if line.startswith("skipped ")] == counted
