"""The look-up of known vulnerabilities, with a pip-audit of our own in place of the real one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

AUDIT = Path(__file__).parents[1] / ".ci/audit.py"

#: Answers as pip-audit does, by what is in requirements: `first` of the package known to be vulnerable, else `rest`.
PIP_AUDIT = """
import json, os, sys, time
lines = open(sys.argv[-1]).read().split()
answer = json.loads(os.environ["ANSWERS"])["first" if lines == ["pip==19.0"] else "rest"]
time.sleep(answer.get("seconds", 0))
flaw = {"id": "FLAW-1", "fix_versions": ["9.1"], "aliases": [], "description": "..."}
kinds = {
    "clean": {"version": "1", "vulns": []},
    "vulnerable": {"version": "1", "vulns": [flaw]},
    "unknown": {"skip_reason": "Dependency not found"},
}
if "is" in answer:
    packages = [{"name": line.split("==")[0], **kinds[answer["is"]]} for line in lines]
    print(json.dumps({"dependencies": packages, "fixes": []}))
sys.stderr.write(answer.get("says", ""))
sys.exit(answer.get("status", 0))
"""

VULNERABLE = {"is": "vulnerable", "status": 1}
UNREACHABLE = "audit: no database of vulnerabilities can be reached, so packages were not looked up\n"


@pytest.fixture
def audit(tmp_path):
    (tmp_path / "pip_audit.py").write_text(PIP_AUDIT)

    def run(first, rest=None, seconds="20"):
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "ANSWERS": json.dumps({"first": first, "rest": rest})}
        command = [sys.executable, AUDIT, seconds]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert result.stdout == ""
        return result.returncode, result.stderr

    return run


@pytest.mark.parametrize(
    "answer",
    [
        {"says": "Traceback ...\nConnectionError: Failed to resolve", "status": 1},
        {"is": "unknown"},
        {"is": "clean"},
        {"is": "vulnerable", "seconds": 10},
    ],
    ids=["no network", "a mirror of an index", "a mirror that tells of no vulnerabilities", "no answer"],
)
def test_where_no_database_can_be_reached_it_says_so_and_passes(audit, answer):
    assert audit(answer, seconds="1" if "seconds" in answer else "20") == (0, UNREACHABLE)


def test_what_is_found_fails(audit):
    status, said = audit(VULNERABLE, VULNERABLE)
    assert status == 1
    assert "audit: numpy 1 has FLAW-1, mended in 9.1\n" in said
    assert "audit: pip " not in said  # it came with the environment


def test_nothing_found_passes(audit):
    assert audit(VULNERABLE, {"is": "clean"}) == (0, "")


def test_what_the_database_does_not_know_is_told(audit):
    status, said = audit(VULNERABLE, {"is": "unknown"})
    assert status == 0
    assert "audit: numpy is not in the database\n" in said


def test_a_database_that_fails_later_is_told_and_passes(audit):
    status, said = audit(VULNERABLE, {"says": "503 Service Unavailable", "status": 1})
    assert status == 0
    assert said == "503 Service Unavailable\naudit: the packages could not be looked up\n"
