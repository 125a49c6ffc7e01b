"""The README is true: every command is in it, and its session runs as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

from xmlgp.cli import COMMANDS

ROOT = Path(__file__).parent.parent

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_command_is_described():
    for name in COMMANDS:
        assert f"`xmlgp {name} " in README, name


def test_what_is_promised_is_shown_by_tests_that_are_there():
    table = README.partition("## What is promised")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "promise |" not in line]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests/[a-z_/]+\.py)`", row)
        assert named, row
        for name in named:
            assert re.search(r"^def test_", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE), name


def test_its_sessions_run_as_printed(tmp_path):
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    sessions = [block for block in blocks if "xmlgp " in block]
    assert len(sessions) == 4
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "XMLGP_CACHE_DIR": str(tmp_path / "cache")}
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "".join(sessions)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr
    assert "P " in run.stdout
    assert '"P@1"' in run.stdout
    assert "accuracy " in run.stdout
