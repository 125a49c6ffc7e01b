"""Names that no label of the other file has are an error that says how they differ."""

import json

import pytest

import xmlgp
from tests.cli.command import run, said
from xmlgp.errors import SettingsError
from xmlgp.runs.common_names import describe_difference

VOCABULARY = "`xmlgp learn MODEL --vocabulary FILE` gives a model both"


@pytest.mark.parametrize(
    ("ours", "others", "difference"),
    [
        (["Pets", "Animals"], ["home", "animals"], "such as 'Animals' and 'animals', which differ in case"),
        (["<u:1>"], ["u:1"], "such as '<u:1>' and 'u:1', which differ in quotes or brackets around them"),
        (["a"], ['"a"'], "such as 'a' and '\"a\"', which differ in quotes or brackets around them"),
        (["a"], ["«a»"], "such as 'a' and '«a»', which differ in quotes or brackets around them"),
        (["log_in"], ["log in"], "such as 'log_in' and 'log in', which differ in blanks, underscores and hyphens"),
        (["log-in"], ["log  in"], "such as 'log-in' and 'log  in', which differ in blanks, underscores and hyphens"),
        (["ﬁsh"], ["fish"], "such as 'ﬁsh' and 'fish', which differ as Unicode composes characters"),
        (["007"], ["7.0"], "such as '007' and '7.0', which differ as numbers are written"),
        (["__label__a"], ["a"], "such as '__label__a' and 'a', which differ in the prefix __label__"),
        (["Log_in"], ['"log in"'], "such as 'Log_in' and '\"log in\"', which differ in several ways"),
        (["b"], ["a, b"], "such as 'b' and 'a, b', which looks like several; --label-separator separates them"),
        (
            ["http://e/1"],
            ["cats", "dogs"],
            f"such as 'http://e/1' and 'cats': the former are URIs, the latter names; {VOCABULARY}",
        ),
        (["cats"], ["urn:1"], f"such as 'cats' and 'urn:1': the former are names, the latter URIs; {VOCABULARY}"),
        (["0", "1"], ["cats"], "such as '0' and 'cats': the former are numbers, the latter names"),
        (["cats"], ["Katzen"], "such as 'cats' and 'Katzen'; is that another language or vocabulary?"),
    ],
)
def test_a_difference_is_recognised(ours, others, difference):
    assert describe_difference(ours, others) == difference


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "p.jsonl": '{"labels": ["Cats"]}\n{"labels": ["Dogs"]}\n',
        "other.jsonl": '{"labels": ["horses"]}\n{"labels": []}\n',
        "none.jsonl": '{"labels": []}\n{"labels": []}\n',
        "true.csv": "text,labels\na,cats\nb,dogs\n",
        "train.csv": "text,labels\na,cats\nb,dogs;horses\n",
        "upper.csv": "text,labels\na,CATS\nb,Dogs\n",
        "p.scores": "2 3\n0:0.5\n1:0.5\n",
    }.items():
        (tmp_path / name).write_text(content)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "p.jsonl true.csv",
            "p.jsonl and true.csv have no label in common, such as 'Cats' and 'cats', which differ in case; if these "
            "are other labels, --train MODEL tells which there are",
        ),
        (
            "p.jsonl true.csv --train train.csv",
            "p.jsonl and true.csv have no label in common, such as 'Cats' and 'cats', which differ in case",
        ),
        (
            "other.jsonl upper.csv --train train.csv",
            "no label of upper.csv is known to the model or the training data, such as 'cats' and 'CATS', which "
            "differ in case",
        ),
        (
            "p.scores upper.csv --train train.csv",
            "no label of upper.csv is known to the model or the training data, such as 'cats' and 'CATS', which "
            "differ in case",
        ),
    ],
)
def test_no_common_name_is_an_error(arguments, sentence):
    assert said(run("evaluate", *arguments.split())) == sentence


@pytest.mark.usefixtures("files")
def test_the_way_out_that_the_error_names_works():
    assert "--train MODEL tells which there are" in said(run("evaluate", "other.jsonl", "true.csv"))
    result = run("evaluate", "other.jsonl", "true.csv", "--train", "train.csv", "--json")
    assert json.loads(result.stdout)["recall_micro"] == 0
    # Where nothing is listed, no name is another.
    assert run("evaluate", "none.jsonl", "true.csv").stderr.splitlines()[0] == "none.jsonl lists no labels"


def test_few_common_names_are_noted():
    notes = []
    true = [["a"], *[["B"]] * 10]
    xmlgp.evaluate([["a", "b"]] * 11, true, note=notes.append)
    assert notes[0] == (
        "only 1 of 11 true labels in the data have a name that the table of scores lists; others are such as 'b' and "
        "'B', which differ in case"
    )
    notes.clear()
    xmlgp.evaluate([["a", "b"]] * 9, true[:9], note=notes.append)
    assert not any(note.startswith("only") for note in notes)


def test_tables_without_a_common_column_are_refused():
    pd = pytest.importorskip("pandas")
    scores = pd.DataFrame([[0.5, 0.25]], columns=["a", "b"])
    labels = pd.DataFrame([[1, 0]], columns=["A", "B"])
    with pytest.raises(SettingsError, match=r"^no label of the data is known to .*, such as 'a' and 'A', which differ"):
        xmlgp.evaluate(scores, labels)
