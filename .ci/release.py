"""The steps of `make release` that are its own: python .ci/release.py begin|end.

`begin` refuses what cannot be released. `end` writes the notes, and prints what would be uploaded, and how. Neither
uploads anything or sets a tag.
"""

import datetime
import hashlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

BUILT = ROOT / "build" / "dist"

NOTES = BUILT / "NOTES.md"

SECTION = re.compile(
    r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\S+))?[ \t]*\n(?P<text>.*?)(?=^## |^\[[^\]]+\]: |\Z)",
    re.MULTILINE | re.DOTALL,
)


class ReleaseError(Exception):
    """What is in the way of a release, in one sentence."""


def notes_of(changelog: str, version: str) -> str:
    """Return what the changelog says of a version.

    Parameters
    ----------
    changelog : str
        The text of CHANGELOG.md.
    version : str
        Such as "0.1.0".

    Returns
    -------
    str

    Raises
    ------
    ReleaseError
        If there is no section of the version with a date, or if something is still unreleased.
    """
    sections = {match["name"]: match for match in SECTION.finditer(changelog)}
    section = sections.get(version)
    today = datetime.date.today().isoformat()
    if section is None:
        raise ReleaseError(f"CHANGELOG.md has no section of {version}: rename [Unreleased] to [{version}] - {today}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", section["date"] or ""):
        raise ReleaseError(f"the section of {version} in CHANGELOG.md has no date: write ## [{version}] - {today}")
    text = section["text"].strip()
    if not text:
        raise ReleaseError(f"the section of {version} in CHANGELOG.md is empty")
    if "Unreleased" in sections and sections["Unreleased"]["text"].strip():
        raise ReleaseError(f"CHANGELOG.md has entries under [Unreleased]: move them to [{version}], or to a branch")
    return text + "\n"


def check_checkout(folder: Path, version: str) -> None:
    """Refuse a checkout with changes, and a version whose tag exists.

    Parameters
    ----------
    folder : Path
        The checkout.
    version : str
        Such as "0.1.0".

    Raises
    ------
    ReleaseError
        If it cannot be released.
    """
    changes = git(folder, "status", "--porcelain").splitlines()
    if changes:
        more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
        raise ReleaseError(f"not committed: {changes[0][3:]}{more}; commit or remove what is not to be released")
    if git(folder, "tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} exists: raise the version in xmlgp/version.py")


def git(folder: Path, *arguments: str) -> str:
    """Return what git prints in a folder."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip("\n")


def current_version() -> str:
    """Return the version of the checkout, whatever is installed."""
    names: dict[str, str] = {}
    exec((ROOT / "xmlgp" / "version.py").read_text(encoding="utf-8"), names)
    return names["__version__"]


def upload_lines(files: list[Path], version: str) -> list[str]:
    """Return what would be uploaded and how.

    Parameters
    ----------
    files : list of Path
        The sdist and the wheel.
    version : str
        Such as "0.1.0".

    Returns
    -------
    list of str
        Lines to print.
    """
    lines = [f"xmlgp {version} is ready. Nothing was uploaded and no tag was set.", ""]
    for file in files:
        content = file.read_bytes()
        lines.append(f"{file.name}  {len(content):,} bytes  SHA-256 {hashlib.sha256(content).hexdigest()}")
    names = shlex.join(str(file.relative_to(ROOT)) for file in files)
    return [
        *lines,
        "",
        f"The notes are in {NOTES.relative_to(ROOT)}. The next commands publish:",
        "",
        f"  git tag --annotate v{version} --message 'xmlgp {version}'",
        f"  git push origin v{version}",
        f"  twine upload {names}",
    ]


def main(step: str) -> None:
    """Run a step."""
    version = current_version()
    if step == "begin":
        check_checkout(ROOT, version)
        # Written by `end`, because building empties the folder.
        notes_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version)
        return
    NOTES.write_text(notes_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version), encoding="utf-8")
    print("\n".join(upload_lines(sorted(BUILT.glob("xmlgp-*")), version)))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ReleaseError as error:
        sys.exit(str(error))
