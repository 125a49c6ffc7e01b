"""`xmlgp vectorize`: files, notes, options, and corpora that are refused without a trace."""

import gzip
import json

import pytest

from tests.cli.command import run, said
from tests.cli.disk import everything
from xmlgp.data.formats import read_dataset

pytestmark = pytest.mark.usefixtures("workdir")

FILES = ["train.txt", "test.txt", "features.txt", "labels.txt", "vectorizer.json"]

TRAIN = [("The cat sat", ["animals"]), ("a dog, a cat", ["animals", "pets"]), ("", ["pets"]), ("機械学習 dog", [])]
TEST = [("dog dog bird", ["pets", "birds"]), ("bird", ["birds"])]


def annif(documents):
    return "".join(f"{text}\t{' '.join(f'<{label}>' for label in labels)}\n" for text, labels in documents)


@pytest.mark.parametrize("name", ["corpus", "corpus.gz", "-"])
def test_a_corpus_becomes_a_data_set(workdir, name):
    """The formats are tested in tests/text/test_corpus.py, the counts in tests.api.test_corpus.py."""
    content, stdin = annif(TRAIN).encode(), None
    if name == "-":
        stdin = content
    else:
        (workdir / name).write_bytes(content if name == "corpus" else gzip.compress(content))
    (workdir / "test corpus").write_text(annif(TEST))
    result = run("vectorize", name, "out", "--test", "test corpus", stdin=stdin)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [f"out/{file}" for file in FILES]
    assert sorted(file.name for file in (workdir / "out").iterdir()) == sorted(FILES)
    assert result.stderr.splitlines() == [
        f"Note: {name}: 4 documents, 5 features, 2 labels; 1 document has no labels and will train as having none; "
        "docs/other-tools.md leaves out those whose labels are not known yet; 1 document has no words",
        "Note: test corpus: 2 documents; 2 labels left out because no training document has them",
    ]
    assert (workdir / "out/features.txt").read_text() == "cat\ndog\nsat\nthe\n機械学習\n"
    assert (workdir / "out/labels.txt").read_text() == "animals\npets\n"
    test = read_dataset("out/test.txt")
    assert test.features.sparse.toarray().tolist() == [[0, 2, 0, 0, 0], [0] * 5]
    assert test.labels.toarray().tolist() == [[False, True], [False, False]]


def test_options_of_columns_and_analysis(workdir):
    rows = "key|title|body|tags\n1|Big cats|in zoos|a b\n2|small cats|at home|b\n".replace("|", ",")
    (workdir / "a.csv").write_text(rows)
    columns = ["--text-column", "title", "--text-column", "body", "--label-column", "tags", "--label-separator", " "]
    result = run("vectorize", "-q", "a.csv", "out", *columns, "--id-column", "key", "--ngrams", "1-2", "--min-count", 2)
    assert (result.exit_code, result.stderr) == (0, "")
    assert (workdir / "out/features.txt").read_text() == "cats\n"
    assert (workdir / "out/labels.txt").read_text() == "a\nb\n"
    assert json.loads((workdir / "out/vectorizer.json").read_text()) == {
        "format": "xmlgp vectorizer",
        "format_version": 1,
        "analyzer": "word",
        "ngrams": [1, 2],
        "columns": {"text": ["title", "body"], "labels": "tags", "separator": " ", "id": "key"},
        "min_count": 2,
    }
    options = ["--analyzer", "char-wb", "--ngrams", "3", "--max-features", "4"]
    assert run("vectorize", "-q", "a.csv", "out", *columns, *options).exit_code == 0
    assert (workdir / "out/features.txt").read_text().splitlines() == [" ca", "ats", "cat", "ts "]


def test_several_test_files(workdir):
    (workdir / "a").write_text(annif(TRAIN))
    result = run("vectorize", "-q", "a", "out", "--test", "a", "--test", "-", stdin=annif(TEST))
    assert result.stdout.split() == [f"out/{name}" for name in ["train.txt", "test.txt", "test-2.txt", *FILES[2:]]]
    assert (workdir / "out/test.txt").read_text() == (workdir / "out/train.txt").read_text()
    assert read_dataset("out/test-2.txt").N == 2


@pytest.mark.parametrize("corpora", [["bad.csv", "out"], ["good", "out", "--test", "good", "--test", "bad.csv"]])
def test_a_broken_corpus_changes_nothing(workdir, corpora):
    (workdir / "good").write_text(annif(TRAIN))
    (workdir / "bad.csv").write_text("text,labels\nab,x\ncd\n")
    reason = "bad.csv:3: this row has 1 field, but the header has 2"
    assert said(run("vectorize", "-q", *corpora)) == reason
    assert not (workdir / "out").exists()
    assert run("vectorize", "-q", "good", "out", "--test", "good").exit_code == 0
    before = everything(workdir / "out")
    assert said(run("vectorize", "-q", *corpora)) == reason
    assert everything(workdir / "out") == before


@pytest.mark.parametrize(
    ("corpora", "status", "reason"),
    [
        (["nowhere", "out"], 1, "nowhere: No such file or directory"),
        (["a", "a"], 2, "Invalid value for 'DATA'"),
        (["data/train.txt", "data", "--test", "a"], 2, "The output data/train.txt is the same file as the input data/"),
        (["a", "data", "--test", "data/test.txt"], 2, "The output data/test.txt is the same file as the input data/"),
        (["a", "old", "--test", "old/test-3.txt"], 2, "The output old/test-3.txt is the same file as the input old/"),
    ],
)
def test_wrong_paths(workdir, corpora, status, reason):
    (workdir / "old").mkdir()
    # It would be removed with the rest of an earlier data set.
    for name in ("a", "data/train.txt", "data/test.txt", "old/test-3.txt", "old/vectorizer.json"):
        (workdir / name).write_text(annif(TRAIN))
    before = everything(workdir)
    assert said(run("vectorize", *corpora), status).startswith(reason)
    assert everything(workdir) == before


def test_test_points_of_an_earlier_data_set_do_not_stay(workdir):
    (workdir / "corpus.tsv").write_text("a fox\tx\n")
    twice = ["--test", "corpus.tsv"] * 2
    assert run("vectorize", "-q", "corpus.tsv", "data", *twice).exit_code == 0
    (workdir / "data" / "test-notes.txt").write_text("mine")
    assert run("vectorize", "-q", "corpus.tsv", "data").exit_code == 0
    left = {file.name for file in (workdir / "data").iterdir()}
    assert left == {"train.txt", "features.txt", "labels.txt", "vectorizer.json", "test-notes.txt"}
