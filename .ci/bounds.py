"""Check that the lower bounds in setup.cfg are the versions that were resolved: python .ci/bounds.py REQUIREMENTS."""

import sys
from configparser import ConfigParser
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]


def claimed_bounds(settings: ConfigParser, extras: list[str]) -> dict[str, Version]:
    """Return the lower bound of each package that xmlgp needs, or one of some extras.

    Parameters
    ----------
    settings : ConfigParser
        The content of setup.cfg.
    extras : list of str
        Names of extras; the extras that these name count as well.

    Returns
    -------
    dict
        From normalised names to versions.
    """
    lists = [settings["options"]["install_requires"]]
    lists += [settings["options.extras_require"][extra] for extra in extras]
    bounds: dict[str, Version] = {}
    for line in "\n".join(lists).splitlines():
        if not line:
            continue
        requirement = Requirement(line)
        if requirement.name == settings["metadata"]["name"]:
            bounds |= claimed_bounds(settings, sorted(requirement.extras))
        for specifier in requirement.specifier:
            if specifier.operator == ">=":
                bounds[canonicalize_name(requirement.name)] = Version(specifier.version)
    return bounds


def false_bounds(bounds: dict[str, Version], resolved: dict[str, Version]) -> list[str]:
    """Return a sentence for each package whose lower bound is not the version that was resolved."""
    return [
        f"setup.cfg claims {name}>={bound}, but the lowest version that can be installed is {resolved[name]}"
        for name, bound in sorted(bounds.items())
        if resolved[name] != bound
    ]


def read_pinned(text: str) -> dict[str, Version]:
    """Return the version of each package in the text of a file of pinned requirements."""
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    pinned = [line.split(";")[0].strip().split("==") for line in lines if "==" in line]
    return {canonicalize_name(name.split("[")[0]): Version(version) for name, version in pinned}


if __name__ == "__main__":
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    wrong = false_bounds(claimed_bounds(setup, ["all", "test"]), read_pinned(Path(sys.argv[1]).read_text()))
    if wrong:
        sys.exit("\n".join(wrong))
