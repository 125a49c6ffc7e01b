"""Look the installed packages up in a database of known vulnerabilities, where one can be reached.

pip-audit ends with status 1 whether it found something or could not ask, and with 0 where whoever answers knows
nothing, such as a mirror of a package index. So it is asked first about a package that is known to be vulnerable: only
who tells that is believed about the others. Usage: audit.py [SECONDS TO WAIT FOR THAT ANSWER]
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

#: Its vulnerabilities stay in every database.
KNOWN_VULNERABLE = "pip==19.0"

#: What makes environments is not what runs in them.
INSTALLERS = ("pip", "setuptools", "wheel")

#: Seconds for all packages, of a database that has answered.
PATIENCE = 120


def ask(requirements, seconds):
    """Return how pip-audit ended and what it found of each package; nothing if it did not tell in time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "requirements.txt"
        path.write_text(requirements)
        command = [sys.executable, "-m", "pip_audit", "--format=json", "--progress-spinner=off", "--timeout=10"]
        command += ["--no-deps", "--disable-pip", "--requirement", path]
        try:
            result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
        except subprocess.TimeoutExpired:
            return f"no answer in {seconds:g} seconds", []
    try:
        return result.stderr, json.loads(result.stdout)["dependencies"]
    except (ValueError, LookupError, TypeError):
        return result.stderr, []


def main(seconds=20.0):
    """Return the exit status: 1 if a package is vulnerable; a database that stops answering is no fault of a change."""
    _, known = ask(KNOWN_VULNERABLE, seconds)
    if not any(package.get("vulns") for package in known):
        print("audit: no database of vulnerabilities can be reached, so packages were not looked up", file=sys.stderr)
        return 0
    options = ["--format=freeze", "--exclude-editable", *(f"--exclude={name}" for name in INSTALLERS)]
    listing = [sys.executable, "-m", "pip", "--disable-pip-version-check", "list", *options]
    installed = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    said, packages = ask(installed, PATIENCE)
    if not packages:
        print(f"{said}\naudit: the packages could not be looked up", file=sys.stderr)
        return 0
    for package in packages:
        if "skip_reason" in package:
            print(f"audit: {package['name']} is not in the database", file=sys.stderr)
    found = [(package, flaw) for package in packages for flaw in package.get("vulns", [])]
    for package, flaw in found:
        mended = ", ".join(flaw["fix_versions"]) or "no version"
        print(f"audit: {package['name']} {package['version']} has {flaw['id']}, mended in {mended}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
