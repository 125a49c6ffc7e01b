"""`xmlgp split`: both parts have the records of the data, unchanged."""

import errno
import gzip
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

import xmlgp
from tests.cli.command import SMALL, run, said
from tests.cli.disk import failing_disk
from tests.cli.texts import as_json, documents
from tests.problems import small_dataset
from xmlgp.data.division import choose_test_points
from xmlgp.data.formats import read_dataset
from xmlgp.data.repository_format import write_dataset

LABELS = ["odd" if number % 2 else "even;third" if number % 3 == 0 else "even" for number in range(30)]
ROWS = list(zip([f"text {number}" for number in range(30)], LABELS, strict=True))
SVM = [f"{number % 2} {number + 1}:{number / 7}\n\n# between\n" for number in range(30)]

#: Data in lines by the names of files: what is before the records, the records, and the encoding.
LINES = {
    "quoted.csv": (
        "\ufefftext,labels\r\n",
        [f'"{text}\r\n""two"" lines",{label}\r\n\r\n' for text, label in ROWS],
        None,
    ),
    "tabs.tsv": ("text\tlabels\n", [f"{text}\t{label}\n" for text, label in ROWS], None),
    "wide.csv": ("text,labels\n", [f"\u010a{text},{label}\n" for text, label in ROWS], "utf-16-be"),
    "latin.csv": ("text,labels\n", [f"é {text},{label}\n" for text, label in ROWS], "latin-1"),
    "corpus.jsonl": ("", as_json(documents(30, 0)).strip().splitlines(keepends=True), None),
    "rows.svm": ("# about\n", SVM, None),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))


def split(*arguments):
    """Return the files that are written, and the note about the parts, before that about the next command."""
    result = run("split", *arguments)
    assert result.exit_code == 0, result.output
    note, following = result.stderr.splitlines()[-2:]
    assert following.startswith("Note: next, `xmlgp train ")
    return result.stdout.splitlines(), note


@pytest.mark.parametrize("name", LINES)
def test_lines_are_copied_as_they_are(name):
    before, records, encoding = LINES[name]
    Path(name).write_bytes((before + "".join(records)).encode(encoding or "utf-8"))
    is_test = choose_test_points([0] * 30, 6, seed=1)
    files, note = split(name, "out", "--test", "0.2", "--seed", 1, *(["--encoding", encoding] if encoding else []))
    assert "6 (20.0 %) for testing" in note
    assert files[:2] == [f"out/{part}{Path(name).suffix}" for part in ("train", "test")]
    assert files[2:] == (["out/corpus.json"] if encoding else [])
    for file, chosen in zip(files[:2], (~is_test, is_test), strict=True):
        text = before + "".join(
            record.rstrip("\n") + "\n" if name == "corpus.jsonl" else record
            for record in itertools.compress(records, chosen)
        )
        assert Path(file).read_bytes() == text.encode(encoding or "utf-8")


@pytest.mark.parametrize("compressed", [False, True])
def test_rows_go_with_their_names(compressed):
    dataset = small_dataset()
    os.mkdir("data")
    path = "data/train.txt.gz" if compressed else "data/train.txt"
    write_dataset(path, dataset)
    Path("data/labels.txt").write_text("".join(f"l{label}\n" for label in range(dataset.K)))
    files, _ = split("data", "out", "--test", "0.3", "--in-order")
    assert files == [*(path.replace("data/train", f"out/{part}") for part in ("train", "test")), "out/labels.txt"]
    assert Path(files[2]).read_bytes() == Path("data/labels.txt").read_bytes()
    train, test = (read_dataset(file) for file in files[:2])
    assert train.fingerprint == dataset.rows(slice(0, train.N)).fingerprint
    assert test.fingerprint == dataset.rows(slice(train.N, None)).fingerprint
    content = Path(files[0]).read_bytes()
    assert (gzip.decompress(content) if compressed else content).startswith(b"%d " % train.N)


@pytest.mark.parametrize(("head", "first"), [("\ufeff# about\n", 0), ("", 1)])
def test_rows_of_several_labels_in_libsvm_format_keep_their_numbers(head, first):
    # The first point alone has the first feature and the highest label and feature.
    rows = [f"0,7 {first}:1 9:2 # best\n", "3:0.10\n", "\n", "2\t4:1 3:5\r\n", "1,2\n"]
    Path("rows.svm.gz").write_bytes(gzip.compress((head + "".join(rows)).encode()))
    files, _ = split("rows.svm.gz", "out", "--test", "3", "--in-order")
    assert files == ["out/train.txt.gz", "out/test.txt.gz"]
    train, test = (gzip.decompress(Path(file).read_bytes()).decode() for file in files)
    assert train == f"1 10 8\n0,7 {first}:1 9:2\n"
    assert test == "3 10 8\n 3:0.10\n2 4:1 3:5\n1,2\n"


def test_a_comment_after_a_byte_order_mark_is_no_point():
    Path("two.svm").write_text("\ufeff# about\n+1 1:1\n-1 2:1\n")
    files, _ = split("two.svm", "out", "--test", "1")
    assert [read_dataset(file).N for file in files] == [1, 1]


def test_a_header_after_a_byte_order_mark_has_the_number_of_points():
    Path("rows.txt").write_bytes(b"\xef\xbb\xbf3 4 2\n0,1 0:1 3:2.5\n1 2:1\n 1:0.5\n")
    files, _ = split("rows.txt", "out", "--test", "1")
    assert [read_dataset(file).N for file in files] == [2, 1]


def test_documents_of_a_group_stay_together():
    rows = [
        {"text": f"t{number}", "labels": ["x"], "author": f"a{number % 7}" if number % 5 else None}
        for number in range(60)
    ]
    Path("notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run("split", "notes.jsonl", "out", "--group-column", "author", "--test", 20)
    assert "notes.jsonl: 12 documents have no 'author', and may each be in either part" in result.stderr
    authors = [
        {json.loads(line)["author"] for line in Path(f"out/{part}.jsonl").read_text().splitlines()}
        for part in ("train", "test")
    ]
    assert authors[0] & authors[1] <= {None}
    assert all(len(part) > 1 for part in authors)
    assert "there is no field 'writer'" in said(run("split", "notes.jsonl", "out2", "--group-column", "writer"))


def table(header, separator=";", encoding="utf-8"):
    """Write a corpus of 60 documents with these names of text, labels and author."""
    lines = [
        f"{' '.join(row['labels'])} é,{separator.join(row['labels'])},a{number % 7}"
        for number, row in enumerate(documents(60, 0))
    ]
    Path("table.csv").write_bytes("\n".join([header, *lines, ""]).encode(encoding))


def test_columns_are_typed_once():
    table("body,tags,author", "|", "gb18030")
    options = ["--text-column", "body", "--label-column", "tags", "--label-separator", "|", "--encoding", "gb18030"]
    result = run("split", "table.csv", "out", *options, "--group-column", "author")
    assert result.stdout.splitlines() == ["out/train.csv", "out/test.csv", "out/corpus.json"]
    assert json.loads(Path("out/corpus.json").read_text()) == {
        "text": ["body"], "labels": ["tags"], "separator": "|", "encoding": "gb18030", "group": "author"
    }  # fmt: skip
    # The next command works as it is printed.
    assert result.stderr.splitlines()[-1] == "Note: next, `xmlgp train out MODEL`"
    assert run("train", "out", "MODEL", *SMALL).exit_code == 0
    assert run("evaluate", "MODEL", "out").exit_code == 0
    answers = run("predict", "MODEL", "out").stdout
    assert len(answers.splitlines()) == len(Path("out/test.csv").read_bytes().splitlines()) - 1
    Path("answers.jsonl").write_text(answers)
    for command in (
        ["evaluate", "answers.jsonl", "out", "--train", "out"],
        ["evaluate", "answers.jsonl", "out/test.csv"],
        ["report", "MODEL", "out", "-o", "report.html"],
        ["vectorize", "out", "numbers"],
        ["split", "out", "again"],
    ):
        result = run(*command)
        assert result.exit_code == 0, result.output
    # Given options win.
    assert "there is no column 'title'; " in said(run("train", "out", "other", "--text-column", "title"))
    assert Path("again/corpus.json").read_bytes() == Path("out/corpus.json").read_bytes()
    assert "same file" in said(run("predict", "MODEL", "out", "-o", "out/corpus.json"), 2)


def test_columns_that_are_found_need_no_options():
    table("text,labels,author")
    files, _ = split("table.csv", "out")
    assert files == ["out/train.csv", "out/test.csv"]
    assert run("train", "out", "model", *SMALL).exit_code == 0


def test_a_missing_column_of_texts_is_refused_before_the_parts_are_written():
    table("body,labels,author")
    assert "there is no column 'text'; the columns are 'body', " in said(run("split", "table.csv", "out"))
    assert not os.path.exists("out")


def test_options_of_an_earlier_division_are_replaced():
    table("body,labels,author")
    assert split("table.csv", "out", "--text-column", "body")[0][2:] == ["out/corpus.json"]
    Path("out/train.csv").unlink()
    Path("out/test.csv").unlink()
    table("text,labels,author")
    assert said(run("split", "table.csv", "out"), 2).startswith("There is out/corpus.json already; ")
    assert split("table.csv", "out", "--overwrite")[0] == ["out/train.csv", "out/test.csv"]
    assert not os.path.exists("out/corpus.json")


@pytest.mark.parametrize(
    "content",
    ["", "[]", "3", '{"text": 3}', '{"text": []', '{"txt": "body"}', '{"text": ""}', '{"separator": ["|"]}', "\0",
     '{"format": "yaml"}', '{"labels": ["\\u001b[2J"]}', '{"text": [["body"]]}', "[" * 100_000, '{"id": null}'],
)  # fmt: skip
def test_damaged_options_of_a_folder_are_one_sentence(content):
    table("text,labels,author")
    split("table.csv", "out")
    Path("out/corpus.json").write_text(content)
    message = said(run("train", "out", "model", *SMALL))
    assert message.startswith("out/corpus.json: this is not what `xmlgp split` writes (")
    assert message.endswith("); remove it, and give the options of the corpus")
    assert len(message) < 250


def test_documents_without_labels_are_counted():
    counted = (
        "no labels and will train as having none; docs/other-tools.md leaves out those whose labels are not known yet"
    )
    Path("texts.csv").write_text("text,labels\n" + "one,a;b\ntwo,\nthree,b\n" * 20)
    result = run("split", "texts.csv", "out", "--in-order")
    assert f"Note: texts.csv: 20 documents have {counted}" in result.stderr.splitlines()
    assert f"; 15 documents have {counted}" in run("train", "out", "model", *SMALL).stderr


def test_copies_in_both_parts_are_noted():
    Path("texts.csv").write_text("text,labels\n" + "same,a\nother,b\n" * 20)
    result = run("split", "texts.csv", "out")
    assert "texts.csv: 10 documents for testing are copies of ones for training; in a table or JSON" in result.stderr
    assert "copies" not in run("split", "texts.csv", "out2", "--group-column", "text", "--test", "0.5").stderr


@pytest.mark.parametrize(
    ("format", "line"),
    [("fasttext", "__label__a text\n"), ("annif", "a text\ta\n"), ("annif", "a text\t<http://x/a>\n")],
)
@pytest.mark.parametrize("option", ["--group-column", "--id-column", "--text-column", "--label-column"])
def test_a_column_of_a_format_without_columns_is_refused(format, line, option):
    Path("texts.txt").write_text(line * 4)
    result = run("split", "texts.txt", "out", "--corpus-format", format, option, "text")
    assert said(result) == f"texts.txt:1: the format {format} has no columns, so none is 'text'"


def test_points_of_a_group_are_all_held_out_or_none():
    # Labels are random, so only copies of a document tell them.
    random = np.random.default_rng(0)
    rows = [
        {"text": f"word{number} word{number}s", "labels": [f"l{label}"], "author": f"a{number}"}
        for number, label in enumerate(random.integers(0, 10, 150))
        for _ in range(4)
    ]
    Path("notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    measured = {}
    for out, *options in ["one", "--in-order"], ["groups", "--in-order", "--group-column", "author"]:
        run("split", "notes.jsonl", out, "--test", 40, *options)
        result = run("train", out, f"model-{out}", *SMALL, "--epochs", 20)
        assert result.exit_code == 0
        measured[out] = xmlgp.load(f"model-{out}").held_out
    assert measured["one"].precision_1 > 90
    assert measured["groups"].precision_1 < 40
    assert measured["groups"].points % 4 == 0
    # The interval is that of 14 documents, not of 56.
    low, high = measured["groups"].intervals[0]
    assert high - low > 25
    # Both the run and the model know the groups of their points.
    model = xmlgp.load("model-groups")
    assert xmlgp.learn(model, retrain=True).held_out == measured["groups"]
    told = json.loads(Path("groups/corpus.json").read_text())
    assert told == {"group": "author"}
    Path("groups/corpus.json").unlink()
    assert "the model here was trained on other data (560 points)" in said(
        run("train", "groups", "model-groups", *SMALL, "-q")
    )


def test_what_is_not_a_file_of_lines_is_refused(tmp_path):
    os.mkdir("docs")
    for number in range(3):
        Path(f"docs/{number}.txt").write_text("a text")
        Path(f"docs/{number}.key").write_text("label\n")
    assert said(run("split", "docs", "out")).startswith("docs: only files of lines are divided; write JSON Lines")
    os.mkfifo("pipe")
    for path in ("pipe", "-"):
        assert said(run("split", path, "out"), 2).startswith(f"{path} cannot be divided, as it is read twice")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "text", "noun"),
    [("a.csv", "", "documents"), ("b.csv", "text,labels\n", "documents"), ("c.txt", "0 5 3\n", "points")],
)
def test_data_without_points_are_refused(tmp_path, name, text, noun):
    Path(name).write_text(text)
    for options in ([], ["--in-order"]):
        assert said(run("split", name, "out", *options)) == f"{name}: there are no {noun}"
    assert not (tmp_path / "out").exists()


def test_a_failing_disk_leaves_no_mixture(monkeypatch):
    Path("corpus.csv").write_text("text,labels\n" + "".join(f"{text},{label}\n" for text, label in ROWS))
    old = {Path(file).name: Path(file).read_bytes() for file in split("corpus.csv", "disk")[0]}
    new = {Path(file).name: Path(file).read_bytes() for file in split("corpus.csv", "new", "--seed", 1)[0]}
    for operation in itertools.count(1):
        with failing_disk(monkeypatch, Path("disk").resolve(), operation, errno.ENOSPC) as disk:
            result = run("split", "-q", "corpus.csv", "disk", "--seed", 1, "--overwrite")
        left = {file.name: file.read_bytes() for file in Path("disk").iterdir() if not file.name.startswith(".")}
        if not disk.failed:
            break
        assert left.items() <= old.items() or left.items() <= new.items()
        if result.exit_code:
            assert said(result).startswith("no space left on the disk of disk")
    assert operation > 5
    assert left == new


def test_nothing_is_replaced_or_left_half_written():
    Path("corpus.csv").write_text("text,labels\n" + "".join(f"{text},{label}\n" for text, label in ROWS))
    split("corpus.csv", "out")
    before = {file: file.read_bytes() for file in Path("out").iterdir()}
    message = "There is out/train.csv already; choose another folder, or replace it with --overwrite."
    assert said(run("split", "corpus.csv", "out", "--seed", 1), 2) == message
    with open("corpus.csv", "a") as stream:
        stream.write("one field\n")
    assert said(run("split", "corpus.csv", "out", "--overwrite")).startswith("corpus.csv:32: ")
    assert {file: file.read_bytes() for file in Path("out").iterdir()} == before
    assert said(run("split", "corpus.csv", "new")).startswith("corpus.csv:32: ")
    assert not os.path.exists("new")
    assert "same file" in said(run("split", "out/train.csv", "out", "--overwrite"), 2)
