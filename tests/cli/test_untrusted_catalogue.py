"""A catalogue that somebody else wrote runs no code and writes nowhere but in the data folder."""

import re
from pathlib import Path

import pytest

from tests.cli.command import run, said

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
def test_tags_of_a_catalogue_run_no_code(tmp_path, monkeypatch, tag):
    monkeypatch.chdir(tmp_path)
    Path("untrusted.yaml").write_text(f"datasets:\n  small: {tag}\n")
    sentence = said(run("fetch", "small", "--catalogue", "untrusted.yaml"))
    assert re.match(r"untrusted\.yaml:2: invalid YAML: could not determine a constructor ", sentence)
    assert [path.name for path in tmp_path.iterdir()] == ["untrusted.yaml"]


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
def test_names_in_a_catalogue_cannot_leave_the_data_folder(tmp_path, monkeypatch, name):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    quoted = '"' + "".join(f"\\U{ord(letter):08x}" for letter in name) + '"'
    for entry, complaint in [
        (ENTRY.replace("NAME", quoted).replace("FILE", "train.txt"), "the name of a data set must be made of "),
        (ENTRY.replace("NAME", "small").replace("FILE", quoted), "files: train: name must be a plain file name, not "),
    ]:
        Path("untrusted.yaml").write_text(entry)
        sentence = said(run("fetch", "small", "--catalogue", "untrusted.yaml"))
        assert complaint in sentence
        assert sentence.isprintable()
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["here", "untrusted.yaml"]
