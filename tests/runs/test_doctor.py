"""`xmlgp doctor`: what it finds, what it says of what is wrong, and what it keeps to itself."""

import errno
import platform
import shlex
import socket
import subprocess
import sys
from collections import namedtuple
from importlib import metadata

import pytest

from tests.cli.command import run
from xmlgp.runs import doctor as module
from xmlgp.runs.doctor import examine
from xmlgp.version import __version__

REQUIREMENTS = [
    "numpy>=1.20",
    "absent-one>=1",
    'jinja2>=999.1; extra == "report"',
    'jinja2>=999.1; extra == "serve"',
    'absent-two; extra == "serve"',
    'xmlgp[report,serve]; extra == "all"',
    'absent-three>=2; extra == "lint"',
    'jinja2; extra == "docs"',
]


@pytest.fixture(autouse=True)
def _surroundings(tmp_path, monkeypatch):
    """Let the cache be empty, and the home folder a temporary one."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "home/cache"))
    (tmp_path / "home").mkdir()


def test_it_says_what_a_report_needs():
    sections, _ = examine()
    assert list(sections) == ["Versions", "Extras", "Computing", "Files", "Terminal"]
    assert sections["Versions"]["xmlgp"].startswith(f"{__version__}, ")
    assert sections["Versions"]["Python"].startswith(platform.python_version())
    assert sections["Versions"]["numpy"] == metadata.version("numpy")
    assert any(fact.startswith("openblas") or "mkl" in fact for fact in sections["Computing"].values())
    assert " usable of " in sections["Computing"]["cores"]
    assert sections["Files"]["cache"].startswith("~/cache, 0.0 MB, ")
    assert "__pycache__" in sections["Files"]["numba"] or "numba" in sections["Files"]["numba"]
    assert all(facts for facts in sections.values())


def test_nothing_private_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("API_TOKEN", "a-secret-of-the-user")
    printed = run("doctor").stdout
    assert "secret" not in printed
    assert str(tmp_path) not in printed
    name = socket.gethostname()
    # A machine may be called localhost or linux.
    assert len(name) < 8 or name not in printed


def test_extras_and_versions_are_those_of_the_metadata(monkeypatch):
    monkeypatch.setattr(metadata, "requires", lambda name: REQUIREMENTS)
    sections, problems = examine()
    version = metadata.version("jinja2")
    assert sections["Versions"]["absent-one"] == "missing"
    assert sections["Extras"] == {
        "report": f"jinja2 {version}",
        "serve": f"jinja2 {version}, absent-two missing",
        "also": "docs",
    }
    assert "absent-one is missing; run `python -m pip install absent-one`" in problems
    old = f"jinja2 {version} is too old, 999.1 is needed; run `python -m pip install --upgrade jinja2`"
    assert problems.count(old) == 1
    # An extra is a choice.
    assert not any("absent-two" in problem or "absent-three" in problem for problem in problems)


def install(folder, monkeypatch, **modules):
    """Install a distribution for each module of a text, as an optional package."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
        (folder / f"{name}-1.dist-info").mkdir()
        (folder / f"{name}-1.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (folder / f"{name}-1.dist-info/RECORD").write_text(f"{name}.py,,\n")
    monkeypatch.syspath_prepend(str(folder))
    extras = [f'{name}; extra == "some"' for name in modules]
    monkeypatch.setattr(metadata, "requires", lambda name: [*extras, 'xmlgp[some]; extra == "all"'])


def test_a_package_whose_import_fails_or_ends_the_process_is_a_problem(tmp_path, monkeypatch):
    install(
        tmp_path,
        monkeypatch,
        aa_fine="print('aa_fine OSError')",
        bb_broken="raise ImportError('libfoo.so is missing')",
        cc_exit="raise SystemExit(0)",
        dd_crash="import os; os._exit(7)",
        ee_late="raise OSError",
    )
    sections, problems = examine()
    failures = [problem.partition("; ")[0] for problem in problems if "importing it" in problem]
    assert failures == [
        "bb_broken is installed, but importing it fails with ImportError",
        "cc_exit is installed, but importing it fails with SystemExit",
        "dd_crash is installed, but importing it ends Python with status 7",
        "ee_late is installed, but importing it fails with OSError",
    ]
    assert any(problem.endswith("run `python -m pip install --force-reinstall cc_exit`") for problem in problems)
    assert "not tried" not in sections["Extras"]


def test_packages_for_which_no_time_is_left_are_named(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, aa_slow="import time; time.sleep(60)", bb_broken="raise ImportError")
    monkeypatch.setattr(module, "IMPORTING", 0.5)
    sections, problems = examine()
    assert sections["Extras"]["not tried"].startswith("aa_slow, bb_broken (")
    assert not any("importing it" in problem for problem in problems)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not say what a limit leaves")
def test_a_limit_of_memory_leaves_the_rest_of_the_report(monkeypatch):
    script = f"ulimit -v 900000; exec {shlex.quote(sys.executable)} -m xmlgp doctor"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stderr) == (1, "")
    words = " ".join(result.stdout.split())
    assert words.startswith("Versions xmlgp")
    assert "but a limit (ulimit -v) leaves 0." in words
    assert " usable of " in words


def test_what_computes_is_unknown_where_it_cannot_be_imported(monkeypatch):
    def broken(name):
        raise ImportError("libfoo.so is missing")

    monkeypatch.setattr(module.importlib, "import_module", broken)
    sections, _ = examine()
    # The rest is examined.
    assert sections["Computing"] == {"unknown": "ImportError"}
    assert sections["Files"]["numba"] == "unknown"
    assert sections["Terminal"]


def test_a_disk_without_space_and_a_folder_that_cannot_be_written_are_problems(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: usage(9, 9, 5_000_000))
    _, problems = examine()
    assert "~/cache has only 5.0 MB of free space; remove files, or set XMLGP_CACHE_DIR to another folder" in problems
    (tmp_path / "home/cache").write_text("a file")
    _, problems = examine()
    assert "~/cache cannot be written to; change its permissions, or set XMLGP_CACHE_DIR to another folder" in problems


def test_a_command_of_another_environment_is_a_problem(tmp_path, monkeypatch):
    other = tmp_path / "home/bin/xmlgp"
    other.parent.mkdir()
    other.write_text("")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert any(problem.startswith("~/bin/xmlgp is of another environment; ") for problem in examine().problems)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert any(problem.startswith("no folder of PATH has the command xmlgp; ") for problem in examine().problems)


def test_two_kinds_of_blas_are_a_problem(monkeypatch):
    library = {"user_api": "blas", "num_threads": 2, "filepath": "a.so", "version": "1"}
    libraries = [library | {"internal_api": name} for name in ("openblas", "mkl")]
    monkeypatch.setattr("threadpoolctl.threadpool_info", lambda: libraries)
    assert any(problem.startswith("mkl and openblas are both loaded") for problem in examine().problems)


@pytest.mark.parametrize("part", ["_versions", "_extras", "_computing", "_files", "_terminal"])
def test_a_part_that_fails_is_unknown_and_the_others_are_there(monkeypatch, part):
    def fail(problems):
        raise OSError(errno.EIO, "of the disk /home/somebody")

    monkeypatch.setattr(module, part, fail)
    sections, _ = examine()
    assert [facts for facts in sections.values() if "unknown" in facts] == [{"unknown": "OSError"}]


def test_problems_are_the_exit_status_and_come_last(tmp_path, monkeypatch):
    monkeypatch.setattr("xmlgp.cli.doctor.examine", lambda: module.Examination({"Versions": {"a": "1"}}, []))
    result = run("doctor")
    assert (result.exit_code, result.stdout) == (0, "Versions\n  a  1\nNo problems\n")
    monkeypatch.setattr("xmlgp.cli.doctor.examine", lambda: module.Examination({}, ["a disk is full; remove files"]))
    result = run("doctor")
    assert (result.exit_code, result.stdout) == (1, "Problems\n- a disk is full; remove files\n")


@pytest.mark.parametrize("columns", ["40", "80"])
def test_lines_fit_the_terminal_and_paths_stay_whole(monkeypatch, columns):
    path = "~/" + "long-" * 20
    facts = {"numpy": "2.4", "cache": f"{path}, 3.7 MB, 70.3 GB free, and some more words after that"}
    monkeypatch.setattr("xmlgp.cli.doctor.examine", lambda: module.Examination({"Files": facts}, []))
    monkeypatch.setenv("COLUMNS", columns)
    lines = run("doctor").stdout.splitlines()
    assert all(len(line) <= int(columns) or path in line for line in lines)
    assert any(path in line for line in lines)
