"""Bash, zsh and fish complete commands, options and names when a person presses Tab."""

import re
import shutil
import subprocess

import pytest

from tests.cli.command import run
from tests.terminal.shells import SHELLS, Shell


def documented_line(shell):
    """Return the line that the help says to put into the file of a shell."""
    return re.search(rf"^ +{shell} +~/\S+ +(.+)$", run("completion", "--help").stdout, re.MULTILINE)[1]


def has_new_bash():
    """Return whether bash can complete as the script asks it to; that of macOS is too old."""
    test = "((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404))"
    return subprocess.run(["bash", "--norc", "-c", test], check=False, timeout=60).returncode == 0


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path):
    """Return a shell that has run the line of the documentation, in a folder with data and a model."""
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    if request.param == "bash" and not has_new_bash():
        pytest.skip("this system has no bash 4.4 or later")
    (tmp_path / "work items.csv").touch()
    (tmp_path / "models" / "tickets").mkdir(parents=True)
    shell = Shell(request.param, tmp_path)
    shell.type(documented_line(request.param) + "; echo rea''dy\r")
    shell.wait_for(lambda lines: "ready" in lines and lines[-1] == "next>")
    yield shell
    shell.close()


@pytest.mark.timeout(600)
def test_shells_complete_commands_options_names_and_files(shell):
    for text, whole in {
        "xmlgp tra": "xmlgp train",
        "xmlgp plot rel": "xmlgp plot reliability",
        "xmlgp train data m --rec": "xmlgp train data m --recipe",
        "xmlgp train data m --recipe sf-L": "xmlgp train data m --recipe sf-LINEAR",
        "xmlgp train data m --model=b": "xmlgp train data m --model=bmlpl",
        "xmlgp fetch tick": "xmlgp fetch tickets",
        "xmlgp settings ml": "xmlgp settings mlgpf",
        "xmlgp train wor": r"xmlgp train work\ items.csv",
        "xmlgp predict mod": "xmlgp predict models/",
        "xmlgp predict m d --format js": "xmlgp predict m d --format jsonl",
        # At once what follows =.
        "xmlgp train data m --set calib": "xmlgp train data m --set calibration=",
    }.items():
        shell.complete(text, whole)
        if not whole.endswith("calibration="):
            shell.clear()
    shell.complete("t", "xmlgp train data m --set calibration=true")
