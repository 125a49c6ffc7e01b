"""`xmlgp train` and `xmlgp predict` on text: names, formats of the answer, labels that are allowed."""

import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest

import xmlgp
from tests.cli.command import SMALL, changed_description, run, said
from tests.cli.disk import arrays
from tests.cli.texts import TEST, documents
from xmlgp.model_folder.folder import ModelFolder


@pytest.fixture(autouse=True)
def _files(text_model):
    """Write the vectorized documents to `folder`."""
    assert run("vectorize", "-q", "train.jsonl", "folder", "--test", "new.jsonl").exit_code == 0


def predicted(*arguments, stdin=None):
    result = run("predict", "-q", "model", *arguments, stdin=stdin)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def answers(*arguments, stdin=None):
    return [json.loads(line) for line in predicted(*arguments, stdin=stdin).splitlines()]


def scored(text):
    """Return the points of a scores file, each a list of tuples."""
    (N, K), *points = [line.split() for line in text.splitlines()]
    assert (int(N), int(K)) == (len(points), 5)
    return [
        [(int(label), *map(float, numbers)) for label, *numbers in (pair.split(":") for pair in point)]
        for point in points
    ]


@pytest.mark.parametrize("options", [["-k", "3"], ["--threshold", "0.1"]])
def test_json_lines_and_a_corpus_are_evaluated_as_numbers_are(options):
    for name in "p.jsonl", "p.scores":
        assert predicted("new.jsonl", *options, "-o", name, "--format", name[2:]) == ""
    arguments = ["--train", "model", "--json", "-q"]
    expected = run("evaluate", "p.scores", "folder", *arguments).stdout
    assert json.loads(expected)
    for scores, data in ("p.jsonl", "new.jsonl"), ("p.scores", "new.jsonl"), ("p.jsonl", "folder"):
        assert run("evaluate", scores, data, *arguments).stdout == expected
    # Without a model, the labels that were seen have the names that are compared.
    with_names = ["evaluate", "p.jsonl", "--json", "-q"]
    shown = json.loads(run(*with_names, "new.jsonl").stdout)
    shown.pop("intervals")
    assert {name: json.loads(expected)[name] for name in shown} == pytest.approx(shown)
    assert run(*with_names, "folder").stdout == run(*with_names, "new.jsonl").stdout


def test_text_and_rows_have_the_same_scores():
    options = ["-k", "all", "--with-std"]
    assert [point["id"] for point in answers("new.jsonl")] == [document["id"] for document in TEST]
    rows = predicted("folder/test.txt", *options)
    assert predicted("new.jsonl", *options, "--format", "scores") == rows
    names = ModelFolder("model").names.labels
    for point, row in zip(answers("new.jsonl", *options), scored(rows), strict=True):
        assert [label["label"] for label in point["labels"]] == [names[label] for label, *_ in row]
        found = [(label["probability"], label["std"]) for label in point["labels"]]
        np.testing.assert_allclose(found, [numbers for _, *numbers in row], rtol=1e-6)
    by_number = answers("folder/test.txt", *options, "--format", "jsonl")
    assert [point["id"] for point in by_number] == list(range(1, 10))
    assert [point["labels"] for point in by_number] == [point["labels"] for point in answers("new.jsonl", *options)]
    # A folder of data has rows.
    assert predicted("folder", *options) == rows


@pytest.mark.parametrize("first", ["# red", "{ red", "[red]", "10 20 30", "1:2", "1 1:2 3:4", "1,2 0:1", "0", "4 5"])
def test_any_line_is_a_text_for_a_model_of_text(workdir, first):
    texts = [first, "blue"]
    expected = list(xmlgp.predict("model", texts))
    text = "\n".join(texts)
    for name in "notes", "README.md", "a.txt":
        Path(name).write_text(text)
        assert answers(name) == answers("-", stdin=text) == expected


def test_rows_for_a_model_of_text_are_those_of_a_vectorized_folder_or_of_an_ending(workdir):
    rows = Path("folder/test.txt").read_text()
    expected = predicted("folder/test.txt")
    Path("alone.txt").write_text(rows)
    for arguments in ["alone.txt"], ["-"]:
        result = run("predict", "model", *arguments, stdin=rows)
        assert len(result.stdout.splitlines()) == len(rows.splitlines())
        note = "taking the lines as texts; rows of numbers need vectorizer.json beside their file"
        assert result.stderr.startswith(f"Note: {arguments[0]}: {note}\n")
    # Other files of the folder are texts.
    Path("folder/notes.md").write_text("# red\n")
    assert answers("folder/notes.md") == list(xmlgp.predict("model", ["# red"]))
    Path("alone.svm").write_text("1 1:1\n")
    assert said(run("predict", "model", "alone.svm")).startswith("alone.svm: model does not say whether")
    assert expected.startswith("9 5\n")


def test_a_text_in_place_of_a_file_and_a_pipe_in_place_of_none():
    reason = "there is no file or folder 'a red cat'; for a text, type: echo \"a text\" | xmlgp predict model -"
    assert said(run("predict", "model", "a red cat")) == reason
    assert said(run("predict", "model", "new.jsonl", "nwe.txt")).startswith("there is no file or folder 'nwe.txt'")
    assert predicted(stdin="red\n") == predicted("-", stdin="red\n") != ""


def test_a_whole_file_is_one_document():
    text = "# red\n\n10 20 30\nblue\tgreen\n"
    (expected,) = xmlgp.predict("model", [text])
    for name in "a.txt", "b.md":
        Path(name).write_text(text)
    assert answers("-", "--whole", stdin=text) == [expected]
    assert answers("a.txt", "--whole") == [expected | {"id": "a.txt"}]
    for options in [], ["--whole"]:
        assert answers("a.txt", "b.md", *options) == [expected | {"id": name} for name in ("a.txt", "b.md")]
    # A corpus is a text where that is asked for.
    (whole,) = answers("new.jsonl", "--whole")
    assert whole["id"] == "new.jsonl"
    Path("latin.txt").write_bytes("réd\n".encode("latin-1"))
    assert len(answers("latin.txt", "a.txt", "--encoding", "latin-1")) == 2
    assert run("predict", "model", "-", "--whole", stdin="unknown\n").stderr.endswith("no word that the model knows\n")


def test_several_files_that_are_no_texts_are_refused():
    Path("a.txt").write_text("red\n")
    for words, reason in (
        (["new.jsonl"], "new.jsonl has many documents; name one such file at a time"),
        (["--whole", "--text-column", "text"], "leave these out"),
        (["--whole", "-o", "a.txt"], "the same file as the input"),
    ):
        assert reason in said(run("predict", "model", "a.txt", *words), 2)
    assert said(run("predict", "model", "folder", "a.txt")) == "folder: Is a directory"
    assert Path("a.txt").read_text() == "red\n"
    assert run("train", "-q", "data", "numbers", *SMALL).exit_code == 0
    for words in ["data/test.txt", "data/train.txt"], ["data/test.txt", "--whole"]:
        assert said(run("predict", "numbers", *words)).startswith("numbers was not trained on text: name one file")


def test_many_short_lines_are_noted():
    text = "red\n\n" + "some red words\n" * 6
    note = "Note: -: 2 of 8 lines have fewer than 3 words; --whole takes all lines as one document\n"
    assert run("predict", "model", "-", stdin=text).stderr.startswith(note)
    assert "--whole" not in run("predict", "model", "-", stdin=text + "some red words\n" * 4).stderr


def test_what_seems_to_be_json_is_noted():
    result = run("predict", "model", "-", stdin='{\n "text": "red"\n}\n')
    assert result.stderr.startswith(
        "Note: -: taking the lines as texts; --corpus-format jsonl reads objects, one a line\n"
    )
    assert len(result.stdout.splitlines()) == 3


def test_every_kind_of_corpus_and_input_has_the_same_answers(workdir):
    """Formats of corpora and of answers are tested in tests/text/test_corpus.py and tests/prediction."""
    text = (workdir / "new.jsonl").read_text()
    whole = predicted("new.jsonl")
    (workdir / "new.gz").write_bytes(gzip.compress(text.encode()))
    assert predicted("new.gz") == predicted("-", stdin=text) == whole
    assert predicted("new.gz", "-o", "out.jsonl.gz") == ""
    assert gzip.decompress((workdir / "out.jsonl.gz").read_bytes()).decode() == whole
    labels = [point["labels"] for point in answers("new.jsonl")]
    found = answers("-", stdin="\n".join(document["text"] for document in TEST))
    assert [point["labels"] for point in found] == labels
    assert [point["id"] for point in found] == list(range(1, 10))
    table = "title,body\n" + "".join(f"{document['id']},{document['text']}\n" for document in TEST)
    found = answers("-", "--text-column", "body", "--id-column", "title", stdin=table)
    assert [point["id"] for point in found] == [str(document["id"]) for document in TEST]
    assert predicted("-", "--format", "csv", stdin="text,labels\n") == "id,label,probability\n"


def test_no_documents_get_no_answers(workdir):
    Path("a.gz").write_bytes(gzip.compress(b""))
    assert predicted("a.gz") == ""
    for name, text in ("a", ""), ("a.jsonl", ""), ("a.csv", ""), ("a.csv", "text,labels\n"):
        Path(name).write_text(text)
        assert predicted(name) == predicted("-", stdin=text) == ""
    assert predicted("a", "--format", "scores") == "0 5\n"
    assert predicted("-", "--format", "tsv", stdin="") == "id\tlabel\tprobability\n"


def test_documents_without_known_words_are_counted():
    result = run("predict", "model", "new.jsonl")
    assert result.stderr == "Note: new.jsonl: 1 document has no word that the model knows\n"
    for name in ("scores", "csv"):
        result = run("predict", "model", "-", "--format", name, stdin="unknown\n\nred\n")
        assert result.stderr == "Note: -: 2 documents have no word that the model knows\n"
    assert run("predict", "model", "-", stdin="red\n").stderr == ""


def test_labels_are_numbers_where_a_model_has_no_names(workdir):
    assert run("train", "-q", "data", "numbers", *SMALL).exit_code == 0
    result = run("predict", "-q", "numbers", "data", "--format", "jsonl", "-k", "all")
    labels = json.loads(result.stdout.splitlines()[0])["labels"]
    assert sorted(label["label"] for label in labels) == list(range(7))
    reason = "new.jsonl is text, but the model was not trained on text"
    assert said(run("predict", "-q", "numbers", "new.jsonl")) == reason


def test_an_interrupted_training_on_a_corpus_resumes(workdir, interrupt):
    rows = "".join(f"{document['text']},{'|'.join(document['labels'])}\n" for document in documents(60, 0))
    (workdir / "a table").write_text("title,tags\n" + rows)
    options = ["--text-column", "title", "--label-column", "tags", "--label-separator", "|"]
    assert run("train", "-q", "a table", "whole", *options, *SMALL).exit_code == 0
    interrupt(5, "a table", "model 2", *options, *SMALL)
    assert run("train", "-q", "a table", "model 2", *options, *SMALL).exit_code == 0
    assert ModelFolder("model 2").description["vectorizer"] == ModelFolder("whole").description["vectorizer"]
    assert arrays("model 2") == arrays("whole")


def test_a_broken_corpus_trains_nothing(workdir):
    (workdir / "bad.csv").write_text("text,labels\na\n")
    reason = "bad.csv:2: this row has 1 field, but the header has 2"
    assert said(run("train", "-q", "bad.csv", "other")) == reason
    assert not (workdir / "other").exists()
    (workdir / "folder/vectorizer.json").write_text("{}")
    reason = "folder/vectorizer.json: this is not the description of a vectorizer"
    assert said(run("train", "-q", "folder", "other")) == reason
    assert not (workdir / "other").exists()


def test_an_explanation_names_the_strongest_words_in_a_table_too():
    rows = list(csv.DictReader(io.StringIO(predicted("new.jsonl", "--explain", "1", "-k", "1", "--format", "csv"))))
    for answer, row in zip(answers("new.jsonl", "--explain", "1", "-k", "1"), rows, strict=True):
        (label,) = answer["labels"]
        assert row["label"] == label["label"]
        for side in ("for", "against"):
            assert row[side].split(" ")[0] == (label[side][0]["word"] if label[side] else "")


def test_a_table_for_people_has_words_where_the_model_can_explain(workdir):
    first, *lines = predicted("-", "-k", "2", "--format", "table", stdin="red\n").splitlines()
    assert (first, len(lines)) == ("1", 2)
    assert " % ± " in lines[0]
    assert lines[0].endswith("  red")
    assert run("train", "-q", "train.jsonl", "se", "--kernel", "se", *SMALL).exit_code == 0
    result = run("predict", "se", "-", "-k", "1", "--format", "table", stdin="red\n")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "red" not in result.stdout


def test_what_cannot_be_explained_is_refused(workdir):
    result = run("predict", "model", "new.jsonl", "--explain", "2", "--format", "scores")
    assert (result.exit_code, result.stdout) == (2, "")
    assert run("train", "-q", "train.jsonl", "se", "--kernel", "se", *SMALL).exit_code == 0
    result = run("predict", "se", "new.jsonl", "--explain", "2", "-o", "answers")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "cannot be explained" in result.stderr
    assert not (workdir / "answers").exists()


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("name,sku\nred,s1\n", [], "s1"),
        ("text,sku\nred,s1\n", ["--text-column", "text"], "s1"),
        ("name,code\nred,c1\n", ["--id-column", "code"], "c1"),
    ],
)
def test_columns_replace_those_of_the_model_one_by_one(workdir, text, options, expected):
    changed_description(
        "model", lambda description: description["vectorizer"]["columns"].update(text=["name"], id="sku")
    )
    (workdir / "x.csv").write_text(text)
    (answer,) = answers("x.csv", "-k", "1", *options)
    assert answer["id"] == expected
    line = said(run("predict", "model", "x.csv", "--text-column", "name", "--id-column", "none"))
    assert line.startswith("x.csv:1: there is no column ")


def test_a_guess_that_leaves_out_text_is_told():
    result = run("predict", "model", "-", stdin="red\tblue\n")
    assert "--corpus-format lines" in result.stderr
    whole = run("predict", "model", "-", "--corpus-format", "lines", stdin="red\tblue\n")
    assert whole.stderr == ""
    assert whole.stdout != result.stdout
