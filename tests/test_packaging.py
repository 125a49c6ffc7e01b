"""What is published agrees with itself: the version, the extras, what the wheel has, and the notes of a release."""

import importlib.util
import re
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from xmlgp import __version__

ROOT = Path(__file__).parents[1]

#: Extras for those who work on xmlgp; all others are for users.
DEVELOPMENT = {"audit", "browser", "docs", "lint", "package", "peers", "test"}

#: What `all` leaves out, because it takes gigabytes.
TOO_LARGE = {"encode-transformers"}

#: Bokeh only draws the dashboard, and tests do not look at it.
NOT_TESTED = {"bokeh", "sentence-transformers"}

CHANGELOG = """# Changelog

## [Unreleased]

## [0.2.0] - 2026-12-01

### Added

- A second thing.

## [0.1.0] - 2026-11-01

- A first thing, see [the docs](https://example.org).

[0.2.0]: https://example.org/0.2.0
"""


def script(name):
    """Import a script of .ci, which is no package."""
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def settings():
    parser = ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


@pytest.fixture(scope="module")
def extras(settings):
    """Return the requirements of each extra."""
    return {
        name: [Requirement(line) for line in text.splitlines() if line]
        for name, text in settings["options.extras_require"].items()
    }


@pytest.fixture(scope="module")
def release():
    return script("release")


def test_all_has_every_extra_for_users_but_those_of_gigabytes(extras):
    assert {requirement.name for requirement in extras["all"]} == {"xmlgp"}
    named = {extra for requirement in extras["all"] for extra in requirement.extras}
    assert named == extras.keys() - DEVELOPMENT - TOO_LARGE - {"all"}


def test_a_package_has_the_same_bounds_wherever_it_is_required(settings, extras):
    required = [Requirement(line) for line in settings["options"]["install_requires"].splitlines() if line]
    bounds = {}
    for requirement in [*required, *(one for requirements in extras.values() for one in requirements)]:
        bounds.setdefault(canonicalize_name(requirement.name), set()).add(str(requirement.specifier))
    assert {name: sorted(found) for name, found in bounds.items() if len(found) > 1} == {}


def test_tests_have_the_packages_of_every_extra_for_users(extras):
    for_users = {one.name for name in extras.keys() - DEVELOPMENT - {"all"} for one in extras[name]}
    assert for_users - {one.name for one in extras["test"]} == NOT_TESTED


def test_each_python_of_the_classifiers_is_one_that_the_install_test_looks_for(settings):
    classified = re.findall(r"^Programming Language :: Python :: 3\.(\d+)$", settings["metadata"]["classifiers"], re.M)
    tried = re.search(r"^for minor in ([\d ]+); do$", (ROOT / ".ci" / "pythons").read_text(), re.MULTILINE)[1].split()
    assert classified == tried
    assert settings["options"]["python_requires"] == f">=3.{classified[0]}"


def test_everything_that_names_the_version_names_that_of_the_package(release):
    assert release.current_version() == __version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == __version__
    assert re.search(r"^version = release = xmlgp.__version__$", (ROOT / "docs" / "conf.py").read_text(), re.MULTILINE)
    # tests/serving/test_reference.py has the document of the server.


def test_the_changelog_has_no_version_after_that_of_the_package(release):
    """The newest section is of this version, or of an earlier one while this is in the making."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    names = [match["name"] for match in release.SECTION.finditer(text)]
    versions = [Version(name) for name in names if name != "Unreleased"]
    assert names[0] in ("Unreleased", __version__)
    assert versions == sorted(versions, reverse=True)
    assert all(version <= Version(__version__) for version in versions)


def test_notes_are_the_section_of_the_version_alone(release):
    assert release.notes_of(CHANGELOG, "0.2.0") == "### Added\n\n- A second thing.\n"
    assert release.notes_of(CHANGELOG, "0.1.0") == "- A first thing, see [the docs](https://example.org).\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CHANGELOG.replace("[0.2.0] -", "[0.2] -"), r"no section of 0\.2\.0: rename \[Unreleased\] to \[0\.2\.0\] - "),
        (CHANGELOG.replace(" - 2026-12-01", ""), r"the section of 0\.2\.0 in CHANGELOG\.md has no date"),
        (
            CHANGELOG.replace("### Added\n\n- A second thing.\n", ""),
            r"the section of 0\.2\.0 in CHANGELOG\.md is empty",
        ),
        (CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n- A third.\n"), r"entries under \[Unreleased\]: move"),
    ],
)
def test_a_changelog_that_is_not_ready_is_refused_in_one_sentence(release, text, message):
    with pytest.raises(release.ReleaseError, match=message) as error:
        release.notes_of(text, "0.2.0")
    assert "\n" not in str(error.value)


def test_a_checkout_with_changes_or_with_the_tag_is_refused(release, tmp_path):
    def git(*arguments):
        options = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *options, *arguments], check=True, capture_output=True)

    git("init")
    (tmp_path / "file").write_text("text\n")
    with pytest.raises(release.ReleaseError, match=r"^not committed: file; commit or remove"):
        release.check_checkout(tmp_path, "0.2.0")
    git("add", "file")
    git("commit", "--message", "Add a file")
    release.check_checkout(tmp_path, "0.2.0")
    git("tag", "v0.2.0")
    with pytest.raises(release.ReleaseError, match=r"the tag v0\.2\.0 exists: raise the version in xmlgp/version\.py"):
        release.check_checkout(tmp_path, "0.2.0")


def test_what_is_uploaded_is_printed_with_its_size_and_digest(release, tmp_path, monkeypatch):
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "NOTES", tmp_path / "NOTES.md")
    wheel = tmp_path / "xmlgp-0.2.0-py3-none-any.whl"
    wheel.write_bytes(b"1234")
    lines = release.upload_lines([wheel], "0.2.0")
    digest = "03ac674216f3e15c761ee1a5e255f067953623c8b388b4459e13f978d7c846f4"
    assert f"{wheel.name}  4 bytes  SHA-256 {digest}" in lines
    assert lines[-3:] == [
        "  git tag --annotate v0.2.0 --message 'xmlgp 0.2.0'",
        "  git push origin v0.2.0",
        f"  twine upload {wheel.name}",
    ]


def test_a_wheel_with_other_files_than_the_checkout_is_refused():
    check = script("check_package")
    wheel = {"xmlgp/a.py": b"a", "xmlgp/b.py": b"other", "tests/c.py": b"c"}
    checkout = {"xmlgp/a.py": b"a", "xmlgp/b.py": b"b", "xmlgp/py.typed": b""}
    assert check.differences(wheel, checkout) == [
        "the wheel lacks xmlgp/py.typed",
        "the wheel has tests/c.py, which the checkout lacks",
        "xmlgp/b.py is another one in the wheel",
    ]


def test_a_lower_bound_that_is_not_what_was_installed_is_named(settings):
    bounds = script("bounds")
    pinned = bounds.read_pinned('# made\nclick==8.2.0\n    # via xmlgp\nPyYAML==6.0.1 ; python_version < "3.11"\n')
    assert pinned == {"click": Version("8.2.0"), "pyyaml": Version("6.0.1")}
    claimed = {"click": Version("8.2"), "pyyaml": Version("6")}
    assert bounds.false_bounds(claimed, pinned) == [
        "setup.cfg claims pyyaml>=6, but the lowest version that can be installed is 6.0.1"
    ]
    assert {"numpy", "bokeh", "polyagamma"} <= bounds.claimed_bounds(settings, ["all"]).keys()


def test_the_scripts_of_the_gates_are_written_without_mistakes():
    for name in ("install-test", "programs", "pythons", "run", "scheduled", "test-lowest"):
        done = subprocess.run(["bash", "-n", str(ROOT / ".ci" / name)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), name


def test_each_interpreter_that_is_found_starts_and_has_another_version():
    paths = subprocess.run([str(ROOT / ".ci" / "pythons")], check=True, capture_output=True, text=True).stdout.split()
    versions = []
    for path in paths:
        code = "import sys; print(*sys.version_info[:2])"
        versions.append(subprocess.run([path, "-c", code], check=True, capture_output=True, text=True).stdout.split())
    assert len({tuple(version) for version in versions}) == len(paths)
    assert all(major == "3" and int(minor) >= 10 for major, minor in versions)
