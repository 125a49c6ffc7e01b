"""Check what was built: python .ci/check_package.py FOLDER.

The wheel is compared with the files of the checkout, because a file that `package_data` forgets is missing only where
xmlgp was installed. That it was built from the sdist shows that the sdist is whole.
"""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: What the sdist has beside the package: what tests and the documentation need.
TOP_LEVEL = ("CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "Makefile", "README.md", "setup.cfg", "setup.py")

FOLDERS = (".ci", ".github", "benchmarks", "docs", "results", "tests", "xmlgp")

#: The figures of the papers exist as PNG, too.
LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|[^/]*\.egg-info)/|\.(py[cod]|nb[ci])$|^results/(again|partial)/|^results/.*\.pdf$"
)


def differences(wheel: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """Return a sentence for each file that a wheel lacks, has too much, or has with another content.

    Parameters
    ----------
    wheel, wanted : dict
        The content of each file by its name.

    Returns
    -------
    list of str
    """
    sentences = [f"the wheel lacks {name}" for name in sorted(wanted.keys() - wheel.keys())]
    sentences += [f"the wheel has {name}, which the checkout lacks" for name in sorted(wheel.keys() - wanted.keys())]
    common = sorted(wheel.keys() & wanted.keys())
    return sentences + [f"{name} is another one in the wheel" for name in common if wheel[name] != wanted[name]]


def files_of(folder: Path) -> list[str]:
    """Return the names of the files in a folder of the checkout, relative to the checkout."""
    names = [path.relative_to(ROOT).as_posix() for path in folder.rglob("*") if path.is_file()]
    return [name for name in names if not LEFT_OUT.search(name)]


def check_wheel(path: Path) -> list[str]:
    """Return what is wrong with a wheel."""
    wanted = {name: (ROOT / name).read_bytes() for name in files_of(ROOT / "xmlgp")}
    wanted["xmlgp/data/datasets.yaml"] = (ROOT / "datasets.yaml").read_bytes()
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    description = {name: content for name, content in contents.items() if ".dist-info/" in name}
    sentences = differences({name: contents[name] for name in contents.keys() - description.keys()}, wanted)
    if not any(name.endswith("/licenses/LICENSE") for name in description):
        sentences.append("the wheel lacks the license")
    return sentences


def check_sdist(path: Path) -> list[str]:
    """Return what is wrong with an sdist."""
    wanted = {name for folder in FOLDERS for name in files_of(ROOT / folder)} | {*TOP_LEVEL}
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    return [f"the sdist lacks {name}" for name in sorted(wanted - names)]


if __name__ == "__main__":
    built = Path(sys.argv[1])
    wrong = [sentence for wheel in built.glob("*.whl") for sentence in check_wheel(wheel)]
    wrong += [sentence for sdist in built.glob("*.tar.gz") for sentence in check_sdist(sdist)]
    if wrong:
        sys.exit("\n".join(wrong))
