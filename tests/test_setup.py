"""Building the package: the machine code of its loops is compiled by running it."""

import configparser
import importlib.util
import os
import re
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from setuptools import Distribution
from setuptools.command.egg_info import FileList

ROOT = Path(__file__).parents[1]
_spec = importlib.util.spec_from_file_location("xmlgp_setup", ROOT / "setup.py")
setup = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(setup)

#: What Numba says of each piece of machine code that it reads, or compiles.
CODE = re.compile(r"\[cache\] data (?:loaded from|saved to) '(.+)'")

#: Pooch requires it, and the checkout is not installed for a build.
COME_BY_THEMSELVES = {"requests", "xmlgp"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a function that runs commands in a process and returns the machine code and the modules that they used."""

    def run(commands):
        show_modules = "; print('modules', *{name.partition('.')[0] for name in sys.modules})"
        done = subprocess.run(
            [sys.executable, "-c", setup.RUN_ALL + show_modules, *commands.strip().splitlines()],
            cwd=tmp_path_factory.mktemp("commands"), check=True, stdout=subprocess.PIPE, input="A text.", text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_DEBUG_CACHE": "1"},
        )  # fmt: skip
        return set(CODE.findall(done.stdout)), set(done.stdout.splitlines()[-1].split()[1:])

    return run


@pytest.fixture(scope="module")
def built(run):
    return run(setup.COMMANDS)


def test_a_build_leaves_nothing_to_compile_for_the_first_commands_of_a_user(run, built):
    used, _ = run("""
fetch -q toy
train -q data/toy model
predict -q model data/toy/test.txt -o toy.scores
evaluate -q model data/toy
""")
    assert len(used) > 20
    assert used - built[0] == set()


def test_a_build_requires_what_it_imports(built):
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    options = config["options"]
    lists = [options["install_requires"], *config["options.extras_require"].values()]
    names = {line.partition(">")[0].partition("[")[0].lower() for text in lists for line in text.split()}
    distributions = packages_distributions()
    imported = {name.lower() for module in built[1] for name in distributions.get(module, ())}
    assert (imported & names) - COME_BY_THEMSELVES == set(options["setup_requires"].split())


@pytest.mark.parametrize(
    ("code", "reason"), [("raise SystemError('no loops')", "SystemError: no loops"), ("while True: pass", "timed out")]
)
def test_a_build_goes_on_without_machine_code(code, reason, tmp_path, capsys):
    (tmp_path / "xmlgp").mkdir()
    (tmp_path / "xmlgp/__init__.py").write_text(code)
    setup.compile_loops(tmp_path, seconds=3)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: the loops are not compiled, which the first run of xmlgp will do: ")
    assert reason in line


@pytest.mark.parametrize("is_editable", [True, False])
def test_machine_code_is_that_of_the_package_which_is_built(is_editable, tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(setup, "compile_loops", lambda folder, **variables: compiled.append(Path(folder)))
    monkeypatch.setattr(setup, "ROOT", tmp_path / "source" if is_editable else ROOT)
    root = tmp_path / "source" if is_editable else tmp_path
    old = root / "xmlgp/data/__pycache__/loop.nbc"
    old.parent.mkdir(parents=True)
    old.touch()
    command = setup.BuildWithCode(Distribution())
    command.build_lib = str(tmp_path)
    command.editable_mode = is_editable
    command.ensure_finalized()
    command.run()
    assert compiled == [root]
    assert not old.exists()
    assert (tmp_path / "xmlgp/data/datasets.yaml").exists() == (not is_editable)


def test_sources_have_the_catalogue(monkeypatch):
    monkeypatch.chdir(ROOT)
    command = setup.SourceWithCatalogue(Distribution({"script_name": "setup.py"}))
    command.ensure_finalized()
    command.filelist = FileList()
    command.add_defaults()
    assert "datasets.yaml" in command.filelist.files
