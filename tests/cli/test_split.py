"""`xmlgp split`: both parts have the records of the data, unchanged, whatever the format."""

import errno
import gzip
import itertools
import json
import os
import shlex
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

import xmlgp
from tests.cli.command import SMALL, run, said
from tests.cli.disk import failing_disk
from tests.cli.texts import as_json, documents
from tests.data.test_two_files import as_two_files
from tests.problems import small_dataset
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.text.documents import CorpusOptions

LABELS = ["odd" if number % 2 else "even;third" if number % 3 == 0 else "even" for number in range(30)]
ROWS = list(zip([f"text {number}" for number in range(30)], LABELS, strict=True))
SVM = "".join(f"{number % 3},5 {number + 1}:{number / 7}\n\n# between\n" for number in range(30)).splitlines(
    keepends=True
)

#: Data in lines by the names of files: what is before the records, the records, and the encoding.
LINES = {
    "quoted.csv": (
        "\ufefftext,labels\r\n",
        [f'"{text}\r\n""two"" lines",{label}\r\n\r\n' for text, label in ROWS],
        None,
    ),
    "tabs.tsv": ("text\tlabels\n", [f'"{text}\t{label}\n' for text, label in ROWS], None),
    "old.csv": ("text,labels\r", [f"{text},{label}\r" for text, label in ROWS], None),
    "wide.csv": ("text,labels\n", [f"\u010a{text},{label}\n" for text, label in ROWS], "utf-16-be"),
    "latin.csv": ("text,labels\n", [f"é {text},{label}\n" for text, label in ROWS], "latin-1"),
    "corpus.jsonl": ("\n", as_json(documents(30, 0)).strip().splitlines(keepends=True), None),
    "fasttext.txt": ("", [f"__label__{label} {text}\n" for text, label in ROWS], None),
    "annif": ("", [f"{text}\t<{label}>\n" for text, label in ROWS], None),
    "pecos.txt": ("", [f"{number % 3},7\ttext {number}\n" for number in range(30)], None),
    "text.arff": (
        "% about\n@relation r\n@attribute text string\n@attribute labels string\n@data\n",
        [f"'{text}','{label}'\n% a comment\n" for text, label in ROWS],
        None,
    ),
    "meka.arff": (
        "@relation 'r: -C 1'\n@attribute a {0,1}\n@attribute b numeric\n@data\n\n",
        [f"{number % 2},{number}\n\n" for number in range(30)],
        None,
    ),
    "rows.svm": ("# about\n", ["".join(SVM[place : place + 3]) for place in range(0, 90, 3)], None),
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
    assert following.startswith("next, `xmlgp train ")
    return result.stdout.splitlines(), note


@pytest.mark.parametrize("name", LINES)
def test_lines_are_copied_as_they_are(name):
    before, records, encoding = LINES[name]
    Path(name).write_bytes((before + "".join(records)).encode(encoding or "utf-8"))
    parts = xmlgp.split(xmlgp.Source(name, corpus=CorpusOptions(encoding=encoding)), test=6, seed=1)
    files, note = split(name, "out", "--test", "0.2", "--seed", 1, *(["--encoding", encoding] if encoding else []))
    assert "6 (20.0 %) for testing" in note
    assert files == [f"out/{part}{Path(name).suffix or '.txt'}" for part in ("train", "test")]
    for file, numbers in zip(files, (parts.train, parts.test), strict=True):
        text = before + "".join(records[number] for number in numbers)
        assert Path(file).read_bytes() == text.encode(encoding or "utf-8")


def test_elements_of_an_array_are_divided():
    array = [{"text": text, "labels": label.split(";"), "more": [[1], {"a": "]"}]} for text, label in ROWS]
    Path("array.json").write_text(json.dumps(array[:15], indent=1)[:-2] + ",\n" + json.dumps(array[15:])[1:])
    files, _ = split("array.json", "out")
    parts = xmlgp.split("array.json")
    for file, numbers in zip(files, parts[:2], strict=True):
        assert json.loads(Path(file).read_text()) == [array[number] for number in numbers]


def test_tables_keep_their_kind_columns_and_types():
    frame = pd.DataFrame(
        {"text": [f"={text}" for text, _ in ROWS], "labels": LABELS, "when": pd.Timestamp("2020-02-03").as_unit("ms")}
    )
    frame["number"] = np.arange(30) / 4
    frame.to_excel("table.xlsx", index=False)
    # A text that looks like a formula.
    book = openpyxl.load_workbook("table.xlsx")
    for cell in book.active["A"][1:]:
        cell.data_type = "s"
    book.save("table.xlsx")
    frame.to_parquet("table.parquet")
    for name, read in (("table.xlsx", pd.read_excel), ("table.parquet", pd.read_parquet)):
        files, _ = split(name, "out", "--stratified")
        train, test = map(read, files)
        assert len(test) == 8
        merged = pd.concat([train, test]).sort_values("number", ignore_index=True)
        pd.testing.assert_frame_equal(merged, frame, check_dtype=name == "table.parquet")
        assert train.number.is_monotonic_increasing
    cell = openpyxl.load_workbook("out/train.xlsx").active["C2"]
    assert cell.is_date
    assert cell.number_format == openpyxl.load_workbook("table.xlsx").active["C2"].number_format


def test_rows_go_with_their_names_and_dense_features():
    dataset = small_dataset()
    os.mkdir("data")
    write_dataset("data/train.txt.gz", dataset)
    dense = np.arange(80, dtype="f4").reshape(40, 2)
    np.save("more.npy", dense)
    Path("data/labels.txt").write_text("".join(f"l{label}\n" for label in range(7)))
    files, note = split("data", "out", "--dense", "more.npy", "--dense", "more.npy", "--test", 11, "--in-order")
    assert note.startswith("data/train.txt.gz: 40 points, 11 (27.5 %) for testing; ")
    names = [
        "train.txt.gz",
        "test.txt.gz",
        "labels.txt",
        "data.yaml",
        "train.npy",
        "train1.npy",
        "test.npy",
        "test1.npy",
    ]
    assert files == [f"out/{name}" for name in names]
    assert gzip.decompress(Path(files[1]).read_bytes()).startswith(b"11 25 7\n")
    test = read_dataset("out/test.txt.gz")
    assert (test.labels != dataset.labels[29:]).nnz == (test.features.sparse != dataset.features.sparse[29:]).nnz == 0
    np.testing.assert_array_equal(np.load("out/test1.npy"), dense[29:])
    # The folder has all that the commands need.
    for arguments in ("train", "out", "model", *SMALL), ("predict", "model", "out", "-o", "a.scores"):
        assert run(*arguments, "-q").exit_code == 0
    assert run("evaluate", "a.scores", "out").exit_code == 0
    # Dense features of another division would be those of other points.
    split("data", "out", "--overwrite")
    assert not os.path.exists("out/data.yaml")


def test_both_files_of_features_and_labels_are_divided():
    dataset = small_dataset()
    for name, content in zip(("trn_X_Xf.txt", "trn_X_Y.txt"), as_two_files(dataset), strict=True):
        Path(name).write_bytes(content)
    files, _ = split("trn_X_Y.txt", "out", "--stratified")
    assert files == [f"out/{part}_X_{kind}.txt" for kind in ("Xf", "Y") for part in ("trn", "tst")]
    parts = xmlgp.split("trn_X_Xf.txt", method="stratified")
    for part, numbers in zip(("train", "test"), parts[:2], strict=True):
        write_dataset(f"{part}-expected.txt", dataset.rows(numbers))
        write_dataset(
            f"{part}.txt", xmlgp.Source(f"out/{'trn' if part == 'train' else 'tst'}_X_Xf.txt").training().dataset
        )
        assert Path(f"{part}.txt").read_bytes() == Path(f"{part}-expected.txt").read_bytes()


def test_documents_of_a_folder_are_copied_with_their_labels():
    os.mkdir("notes")
    for number, (text, label) in enumerate(ROWS):
        Path(f"notes/n{number}.txt").write_text(text)
        Path(f"notes/n{number}.key").write_text(label.replace(";", "\n"))
    Path("notes/unlabelled.txt").write_text("not a document of a labelled corpus")
    files, note = split("notes", "out")
    assert note == "notes: 30 documents, 8 (26.7 %) for testing; 0 of 3 labels are in one part only"
    train, test = (set(os.listdir(file)) for file in files)
    assert (len(train), len(test)) == (44, 16)
    assert train | test == set(os.listdir("notes")) - {"unlabelled.txt"}
    assert run("train", "out", "model", *SMALL, "-q").exit_code == 0
    refused = said(run("split", "-q", "notes", "out", "--overwrite"), 2)
    assert refused == "There is out/train already; choose another folder."


def test_groups_and_rows_of_one_document_stay_together():
    rows = [f"{number // 2},text {number},l{number % 3},{'abcd'[number % 4]}" for number in range(400)]
    Path("rows.csv").write_text("\n".join(["id,text,labels,author", *rows]))
    for column, options in ("id", ["--merge-ids"]), ("author", ["--group-column", "author"]):
        for method in [], ["--stratified"], ["--in-order"]:
            files, _ = split("rows.csv", "out", "--overwrite", *options, *method)
            train, test = (set(pd.read_csv(file)[column]) for file in files)
            assert not train & test
    Path("some.csv").write_text(Path("rows.csv").read_text().replace(",b\n", ",\n"))
    notes = run("split", "some.csv", "some", "--group-column", "author").stderr
    assert "some.csv: 100 documents have no 'author', and may each be in either part\n" in notes
    # Together, rows of an identifier have two authors: of the four, two are one group each.
    files, _ = split("rows.csv", "out", "--overwrite", "--merge-ids", "--group-column", "author", "--test", "0.5")
    assert {frozenset(pd.read_csv(file).author) for file in files} == {frozenset("ab"), frozenset("cd")}


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
    again = ["split", "out/train.csv", ".", "--dense", "train.npy", "--overwrite"]
    np.save("train.npy", np.ones((len(Path("out/train.csv").read_text().splitlines()) - 1, 2)))
    assert "train.npy is the same file" in said(run(*again), 2)


def test_the_next_command_has_the_options_that_the_parts_need():
    rows = [f"{number}|text {number}|l{number % 2}/l{number % 3}" for number in range(60)]
    Path("my rows.csv").write_text("\n".join(["key|My text|tags", *rows]))
    columns = ["--text-column", "My text", "--label-column", "tags", "--label-separator", "/", "--no-quotes"]
    options = ["--seed", 1, "--test", "0.5", "--id-column", "key", *columns]
    result = run("split", *options, "my rows.csv", "my parts")
    following = result.stderr.splitlines()[-1].removeprefix("next, `").removesuffix("`")
    program, *arguments = shlex.split(following)
    given = arguments[3:]
    assert (program, arguments[:3]) == ("xmlgp", ["train", "my parts", "MODEL"])
    assert sorted(given) == sorted(["--id-column", "key", *columns])
    assert run(*arguments, *SMALL, "-q").exit_code == 0
    # From then on the model knows them.
    assert run("predict", "MODEL", "my parts", "-o", "out.jsonl", "-q").exit_code == 0
    assert run("split", "-q", *columns, "my rows.csv", "quiet").stderr == ""
