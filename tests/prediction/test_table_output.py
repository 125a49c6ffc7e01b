"""Tables of labels for Excel and Parquet have the rows of the CSV, exactly, or are not written."""

import csv
import io
import json
import sys

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.cli.command import run
from xmlgp.data.features import Features
from xmlgp.data.streams import open_output
from xmlgp.errors import UsageError, XmlgpError
from xmlgp.prediction import table_output
from xmlgp.prediction.label_formats import FORMATS, check_format
from xmlgp.prediction.label_writer import LabelWriter, ScoredPoints
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.table_output import write_table

NAMES = ["=1+1", "@SUM(A1)", "#N/A", "2026-01-31", "über"]


def blocks():
    scores = Scores(
        np.array([0, 2, 2, 5]), np.array([0, 1, 2, 3, 4], np.int32), np.array([0.9, 0.25, 0.8, 0.5, 1e-9]), 5
    )
    yield ScoredPoints(["k1", "empty", 3], Features(sp.csr_array((3, 0))), scores)


def sheet_rows(path, **options):
    return [[cell.value for cell in row] for row in openpyxl.load_workbook(path, **options).active.iter_rows()]


def written(path, name, names=NAMES, uris=None):
    with open_output(path) as stream:
        write_table(stream, name, str(path), *LabelWriter(names, "probability", uris=uris).table(blocks()))
    return path


def expected(**options):
    stream = io.BytesIO()
    LabelWriter(NAMES, "probability", **options).write(stream, "csv", blocks())
    return list(csv.reader(io.StringIO(stream.getvalue().decode())))


def test_a_workbook_has_the_rows_of_the_csv_and_no_formulas(tmp_path):
    path = written(tmp_path / "a.xlsx", "xlsx")
    rows = sheet_rows(path)
    assert [list(map(str, row)) for row in rows] == expected()
    assert [type(value) for value in rows[-1]] == [int, str, float]
    cells = [cell for row in openpyxl.load_workbook(path).active.iter_rows(min_row=2) for cell in row]
    assert {cell.data_type for cell in cells} == {"s", "n"}
    assert sheet_rows(path, data_only=True) == rows


def test_a_parquet_file_has_the_rows_of_the_csv(tmp_path):
    uris = ["u:1", "", "u:3", "u:4", "u:5"]
    table = pq.read_table(written(tmp_path / "a.parquet", "parquet", uris=uris))
    assert dict(zip(table.column_names, table.schema.types, strict=True)) == {
        "id": pa.string(), "uri": pa.string(), "label": pa.string(), "probability": pa.float64(),
    }  # fmt: skip
    rows = [["" if value is None else str(value) for value in row.values()] for row in table.to_pylist()]
    assert [table.column_names, *rows] == expected(uris=uris)
    assert table["uri"].null_count == 1


def test_a_parquet_file_is_written_by_groups_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(table_output, "ROWS", 2)
    path = written(tmp_path / "a.parquet", "parquet")
    assert pq.ParquetFile(path).metadata.num_row_groups == 3
    assert pq.read_table(path)["label"].to_pylist() == NAMES


@pytest.mark.parametrize("name", ["xlsx", "parquet"])
def test_labels_without_names_and_no_labels(tmp_path, name):
    path = written(tmp_path / f"a.{name}", name, names=None)
    found = sheet_rows(path)[1:] if name == "xlsx" else [list(row.values()) for row in pq.read_table(path).to_pylist()]
    assert [str(row[1]) for row in found] == ["0", "1", "2", "3", "4"]
    with open_output(path) as stream:
        write_table(stream, name, str(path), *LabelWriter(NAMES, "utility", with_std=True).table([]))
    header = sheet_rows(path)[0] if name == "xlsx" else pq.read_table(path).column_names
    assert header == ["id", "label", "utility", "std"]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([["a" * 32_768]], "row 2: a text has 32768 characters, more than the 32767 of a cell; write .parquet or .csv"),
        ([["a"]] * 5, "there are more rows than the 5 of a sheet; write .parquet or .csv"),
    ],
)
def test_what_does_not_fit_into_a_workbook_leaves_the_old_file(tmp_path, monkeypatch, rows, reason):
    monkeypatch.setattr(table_output, "MOST_ROWS", 5)
    path = tmp_path / "a.xlsx"
    path.write_text("old")
    with pytest.raises(XmlgpError) as caught, open_output(path) as stream:
        write_table(stream, "xlsx", str(path), ["id"], rows)
    assert str(caught.value) == f"{path}: {reason}"
    assert path.read_text() == "old"
    with open_output(path) as stream:
        write_table(stream, "xlsx", str(path), ["id"], [["a" * 32_767]] * 4)
    assert len(sheet_rows(path)) == 5


@pytest.mark.parametrize("name", ["xlsx", "parquet"])
def test_characters_that_files_cannot_have(tmp_path, name):
    path = tmp_path / f"a.{name}"
    with open_output(path) as stream:
        write_table(stream, name, str(path), ["id", "label"], [["a\x1b[31m\0\ufffe", "half \ud800"]])
    if name == "xlsx":
        assert sheet_rows(path)[1] == ["a [31m  ", "half \\ud800"]
    else:
        assert pq.read_table(path).to_pylist() == [{"id": "a\x1b[31m\0\ufffe", "label": "half \\ud800"}]


@pytest.mark.parametrize(
    ("path", "name", "reason"),
    [
        (
            "a.xls",
            None,
            "a.xls: files named .xls cannot be written; end the name in .jsonl, .tsv, .csv, .xlsx, .parquet.",
        ),
        ("a.SQLITE", "csv", "a.SQLITE: files named .sqlite cannot be written; end the name in .jsonl, "),
        ("a.zip", "jsonl", "a.zip: files named .zip cannot be written; end the name in .jsonl, "),
        ("a.xlsx", "jsonl", "a.xlsx: this is the name of an Excel workbook (.xlsx), but the format is jsonl."),
        ("a.parquet", "xlsx", "a.parquet: this is the name of a Parquet file, but the format is xlsx."),
        ("a.xlsx.gz", "xlsx", "a.xlsx.gz: an Excel workbook (.xlsx) is compressed itself; leave out .gz."),
        ("a.parquet.zst", "parquet", "a.parquet.zst: a Parquet file is compressed itself; leave out .zst."),
    ],
)
def test_names_that_say_something_else_are_refused(path, name, reason):
    with pytest.raises(UsageError) as caught:
        check_format(path, name)
    assert str(caught.value).startswith(reason)


def test_other_names_may_have_any_format():
    for path, name in ("a", "xlsx"), ("-", "parquet"), ("a.txt", None), ("a.csv.xz", "csv"), ("a.XLSX", "xlsx"):
        check_format(path, name)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    (folder / "train.csv").write_text("id,text,labels\n" + "7,cats purr,=animals\nk1,tables stand,home\n" * 9)
    options = ["-P", "1", "--epochs", "1", "--no-label-weights"]
    result = run("train", "-q", folder / "train.csv", folder / "model", *options)
    assert result.exit_code == 0, result.stderr
    return folder / "model"


@pytest.mark.parametrize("options", [[], ["--explain", "2", "--with-std"], ["--threshold", "0.1"]])
def test_predict_writes_tables(tmp_path, model, options):
    data = model.parent / "train.csv"
    for name in "csv", "xlsx", "parquet":
        result = run("predict", "-q", model, data, *options, "-o", tmp_path / f"a.{name}")
        assert (result.exit_code, result.stderr) == (0, "")
    with open(tmp_path / "a.csv") as stream:
        header, *rows = csv.reader(stream)
    assert len(rows) > 9
    found = sheet_rows(tmp_path / "a.xlsx")
    assert [["" if value is None else str(value) for value in row] for row in found] == [header, *rows]
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column_names == header
    assert [[str(value) for value in row.values()] for row in table.to_pylist()] == rows
    # What was written is read again.
    assert run("vectorize", tmp_path / "a.xlsx", tmp_path / "out", "--text-column", "label", "--label-column", "label"
    ).exit_code == 0  # fmt: skip


def test_a_table_is_refused_before_any_work(tmp_path, model, monkeypatch):
    data, out = model.parent / "train.csv", tmp_path / "a.xlsx"
    for name in list(sys.modules):
        if name.partition(".")[0] == "openpyxl":
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("xmlgp.runs.predict.score_blocks", None)
    result = run("predict", "-q", model, data, "-o", out)
    assert result.exit_code == 1
    assert "which needs openpyxl: pip install 'xmlgp[tables]'" in result.stderr
    result = run("predict", "-q", model, data, "-o", tmp_path / "a.ods")
    assert result.exit_code == 2
    assert "files named .ods cannot be written" in result.stderr
    result = run("predict", "-q", model, data, "-o", tmp_path / "a.parquet", "--bad-lines", "report")
    assert "a report of bad lines needs the format jsonl, not parquet" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def points(tmp_path):
    """Ten points, each with an identifier of its own."""
    rows = [f"{i},{text}\n" for i, text in enumerate(["cats purr,=animals", "tables stand,home"] * 5, 7)]
    (tmp_path / "new.csv").write_text("id,text,labels\n" + "".join(rows))
    return tmp_path / "new.csv"


def test_scores_have_the_same_measures_in_each_format(tmp_path, model, points):
    options = "--calibration", "--reliability", "--json", "--train", model
    measured = {}
    for name in FORMATS:
        out = tmp_path / f"a.{name}"
        run("predict", "-q", model, points, "-k", "2", "-o", out)
        result = run("evaluate", out, points, *options)
        assert result.exit_code == 0, result.stderr
        measured[name] = json.loads(result.stdout)
    assert measured["jsonl"]["P@1"] > 0
    assert list(measured.values()) == [measured["jsonl"]] * len(FORMATS)


def test_points_without_labels_are_not_in_a_table(tmp_path, model, points):
    outputs = []
    for name in "jsonl", "csv":
        out = tmp_path / f"a.{name}"
        run("predict", "-q", model, points, "--threshold", "0.87", "-o", out)
        outputs.append(run("evaluate", out, points, "--assigned"))
    assert outputs[0].stdout == outputs[1].stdout
    assert "a.csv has no labels of 5 of 10 points, such as '" in outputs[1].stderr
