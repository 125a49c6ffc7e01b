"""Nothing that is read can be run: the package's code has nothing in it that unpickles, evaluates or starts programs.

What model folders, caches and catalogues of strangers do to their readers is tested with those; this is about the code.
"""

import ast
import importlib
import re
from pathlib import Path

import pytest
import yaml

import xmlgp
from tests.cli.command import run, said

PACKAGE = Path(xmlgp.__file__).parent

#: Modules that run what they read, or other programs. multiprocessing and joblib pickle.
MODULES = (
    r"(_?pickle|dill|cloudpickle|joblib|marshal|shelve|copyreg|code|codeop|runpy|imp|subprocess|_posixsubprocess|pty)"
)
MODULES += r"|multiprocessing|concurrent\.futures\.process|tarfile|xmlrpc|importlib\.(machinery|util)|webbrowser|torch"

#: Functions that do.
FUNCTIONS = (
    r"eval|exec|compile|__import__|breakpoint|importlib\.import_module|os\.(system|popen|startfile|fork|forkpty)"
)
FUNCTIONS += (
    r"|os\.(exec|spawn|posix_spawn)\w*|asyncio\.create_subprocess_\w+|ctypes\.(CDLL|PyDLL|cdll|pydll)|numpy\.load"
)
FUNCTIONS += (
    r"|numpy\.lib\.npyio\..*|yaml\.(?!safe_load$|YAMLError$|MarkedYAMLError$|SafeLoader$|\w+Node$|\w+Event$)\w+"
)
FUNCTIONS += r"|shutil\.unpack_archive|types\.(FunctionType|CodeType)|scipy\.io\.loadmat|ctypes\.util\..*"

FORBIDDEN = re.compile(rf"({MODULES})(\..*)?|builtins\.({FUNCTIONS})|{FUNCTIONS}")

#: Methods that do, whatever they are of.
METHODS = {
    "extractall",
    "read_pickle",
    "to_pickle",
    "loads_pickle",
    "full_load",
    "unsafe_load",
    "load_module",
    "exec_module",
}

#: Arguments that are dangerous unless they are False.
ARGUMENTS = {"allow_pickle", "shell"}

EXCEPTIONS = {
    # Both are looked at below.
    ("cli/__init__.py", "__import__"),
    ("data/checked_yaml.py", "yaml.load"),
    # Its processes are our own, and what they hand each other comes from nobody else.
    ("experiments/cells.py", "multiprocessing.active_children"),
    ("experiments/cells.py", "multiprocessing.get_context"),
}


def dangers(source):
    """Names of all that is forbidden in a module's source, as they are known outside of it."""
    tree = ast.parse(source)
    known = {}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            known |= {alias.asname or alias.name.split(".")[0]: alias.asname and alias.name for alias in node.names}
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found += [f"{node.module}.{alias.name}" for alias in node.names]

    def dotted(node):
        if isinstance(node, ast.Name):
            return known.get(node.id) or node.id
        if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
            return f"{owner}.{node.attr}"
        return None

    dangerous = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            found.append(dotted(node) or "")
        if isinstance(node, ast.Attribute) and node.attr in METHODS:
            dangerous.append(node.attr)
        if isinstance(node, ast.keyword) and node.arg in ARGUMENTS and getattr(node.value, "value", True) is not False:
            dangerous.append(node.arg)
    return {*dangerous, *filter(FORBIDDEN.fullmatch, found)}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import pickle", "pickle"),
        ("import pickle as p", "pickle"),
        ("from pickle import loads as read", "pickle.loads"),
        ("import os, marshal", "marshal"),
        ("def f():\n    from subprocess import run", "subprocess.run"),
        ("import multiprocessing.pool", "multiprocessing.pool"),
        ("x = eval('1')", "eval"),
        ("f = exec", "exec"),
        ("import builtins\nbuiltins.eval('1')", "builtins.eval"),
        ("__import__('os')", "__import__"),
        ("import importlib\nimportlib.import_module('os')", "importlib.import_module"),
        ("import os\nos.system('true')", "os.system"),
        ("from os import execvp as go\ngo('true', [])", "os.execvp"),
        ("import numpy as np\nnp.load('x')", "numpy.load"),
        ("from numpy import load", "numpy.load"),
        ("import numpy as np\nnp.lib.format.read_array(f, allow_pickle=True)", "allow_pickle"),
        ("import numpy as np\nnp.lib.format.read_array(f, allow_pickle=chosen)", "allow_pickle"),
        ("import yaml\nyaml.load(f, yaml.Loader)", "yaml.Loader"),
        ("import yaml\nyaml.load(f, L)", "yaml.load"),
        ("import yaml as y\ny.unsafe_load(f)", "yaml.unsafe_load"),
        ("archive.extractall()", "extractall"),
        ("open_archive('x').extractall", "extractall"),
        ("start('true', shell=True)", "shell"),
        ("import ctypes\nctypes.CDLL('x.so')", "ctypes.CDLL"),
    ],
)
def test_what_is_dangerous_is_found(source, name):
    assert name in dangers(source)


@pytest.mark.parametrize(
    "source",
    [
        "import re\nre.compile('x')",
        "import numpy as np\nnp.lib.format.read_array(f, allow_pickle=False)",
        "import yaml\nyaml.safe_load(f)\nclass L(yaml.SafeLoader): pass",
        "import json\njson.load(f)",
        "model.eval()",
    ],
)
def test_what_is_harmless_is_not(source):
    assert dangers(source) == set()


def test_no_code_of_the_package_is_dangerous():
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        for name in dangers(path.read_text())
    }
    assert found == EXCEPTIONS


def test_yaml_is_loaded_by_safe_loaders_only():
    """What the exception for yaml.load hangs on: a loader of our own, whose only objects are those of SafeLoader."""
    module = importlib.import_module("xmlgp.data.checked_yaml")
    calls = [node for node in ast.walk(ast.parse(Path(module.__file__).read_text())) if isinstance(node, ast.Call)]
    loaders = [ast.unparse(call.args[1]) for call in calls if ast.unparse(call.func) == "yaml.load"]
    assert loaders
    for name in loaders:
        loader = getattr(module, name)
        assert issubclass(loader, yaml.SafeLoader)
        assert loader.yaml_constructors == yaml.SafeLoader.yaml_constructors
        assert loader.yaml_multi_constructors == yaml.SafeLoader.yaml_multi_constructors


@pytest.mark.parametrize("name", ["os", "options", "__init__", "../data/fetch", "fetch.os", "FETCH", ""])
def test_only_subcommands_are_imported(name):
    """What the exception for __import__ hangs on."""
    assert said(run(name), 2).startswith(f"No such command '{name}'.")


TAGS = [
    "!!python/object/apply:os.mkdir [PWNED]",
    "!!python/object/new:os.mkdir [PWNED]",
    "!!python/object:subprocess.Popen {args: mkdir PWNED}",
    "!!python/name:os.system ''",
    "!!python/module:antigravity ''",
    "!!python/tuple [1, 2]",
    "!mkdir PWNED",
]


@pytest.mark.parametrize("tag", TAGS)
def test_tags_of_a_catalogue_make_nothing(tmp_path, monkeypatch, tag):
    monkeypatch.chdir(tmp_path)
    Path("strange.yaml").write_text(f"datasets:\n  small: {tag}\n")
    sentence = said(run("fetch", "small", "--catalogue", "strange.yaml"))
    assert re.match(r"strange\.yaml:2: this is not the YAML expected: could not determine a constructor ", sentence)
    assert [path.name for path in tmp_path.iterdir()] == ["strange.yaml"]


ENTRY = """
datasets:
  NAME:
    title: A small set
    shape: {N: 3, N_test: 2, D: 5, K: 4}
    propensity: {A: 0.55, B: 1.5}
    max_mb: 1
    files: {train: {name: FILE}, test: {}}
    sources: [{mirror: copy}]
"""


@pytest.mark.parametrize(
    "name", ["../evil", "/evil", "..", ".", ".partial", "a/b", "a\\b", "~", "C:", "-rf", "a\0b", "\u202ea"]
)
def test_names_of_a_catalogue_lead_nowhere_else(tmp_path, monkeypatch, name):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    quoted = '"' + "".join(f"\\U{ord(letter):08x}" for letter in name) + '"'
    for entry, complaint in [
        (ENTRY.replace("NAME", quoted).replace("FILE", "train.txt"), "the name of a data set must be made of "),
        (ENTRY.replace("NAME", "small").replace("FILE", quoted), "files: train: name must be a plain file name, not "),
    ]:
        Path("strange.yaml").write_text(entry)
        sentence = said(run("fetch", "small", "--catalogue", "strange.yaml"))
        assert complaint in sentence
        assert sentence.isprintable()
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["here", "strange.yaml"]
