"""Excel workbooks and Parquet files are read as the tables that they are, by every way in."""

import datetime
import gzip
import itertools
import sys
import tracemalloc
import zipfile
from decimal import Decimal

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.command import run
from tests.fuzzing.data_files import standard_input
from xmlgp.errors import DataFormatError, XmlgpError
from xmlgp.text.corpus import open_corpus, read_documents
from xmlgp.text.documents import CorpusOptions, Document
from xmlgp.text.table_files import TableFile, as_text

DAY, NOON = datetime.date(2026, 1, 31), datetime.datetime(2026, 1, 31, 12, 30)

HEADER = ["id", "text", "labels", "more"]
ROWS = [
    [7, "cats purr", "animals; home", DAY],
    ["k1", "über\ntables", "home", NOON],
    [3.0, None, None, 2.5],
    [4, 12, True, "=not a formula"],
]


def workbook(path, rows=(HEADER, *ROWS)):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for row in book.active.iter_rows():
        for cell in row:
            cell.data_type = "s" if cell.value == "=not a formula" else cell.data_type
    book.save(path)
    return str(path)


def table(path, *options, **columns):
    pq.write_table(pa.table(columns), path, *options)
    return str(path)


def rows_of(path, notes=None):
    with open_corpus(path, note=(notes if notes is not None else []).append) as found:
        assert isinstance(found, TableFile)
        return list(found.rows)


def documents_of(path, options=CorpusOptions(), labelled=True, notes=None):  # noqa: B008 it is immutable
    note = (notes if notes is not None else []).append
    with open_corpus(path, options, note) as reader:
        return list(read_documents(reader, options, labelled=labelled, note=note))


def test_the_cells_of_a_workbook(tmp_path):
    expected = [
        HEADER,
        ["7", "cats purr", "animals; home", "2026-01-31"],
        ["k1", "über\ntables", "home", "2026-01-31T12:30:00"],
        ["3", "", "", "2.5"],
        ["4", "12", "true", "=not a formula"],
    ]
    assert rows_of(workbook(tmp_path / "a.xlsx")) == list(enumerate(expected, 1))


def test_the_documents_of_a_workbook(tmp_path):
    path = workbook(tmp_path / "a.xlsx")
    assert documents_of(path) == [
        Document(2, "7", "cats purr", ["animals", " home"]),
        Document(3, "k1", "über\ntables", ["home"]),
        Document(4, "3", "", [""]),
        Document(5, "4", "12", ["true"]),
    ]
    options = CorpusOptions(text=("more", "text"), separator="-")
    assert documents_of(path, options)[0] == Document(2, "7", "2026-01-31 cats purr", ["animals; home"])
    assert documents_of(path, labelled=False)[1] == Document(3, "k1", "über\ntables", [])


def test_rows_and_columns_without_content_are_left_out(tmp_path):
    rows = [[], ["text", "labels", None], ["a", "x", None, None], [None], ["b"], ["c", "y", None, "z"], [], [None]]
    path = workbook(tmp_path / "a.xlsx", rows)
    assert rows_of(path) == [
        (2, ["text", "labels"]), (3, ["a", "x"]), (5, ["b", ""]), (6, ["c", "y", "", "z"]),
    ]  # fmt: skip
    with pytest.raises(DataFormatError, match="a.xlsx:6: this row has 4 fields, but the header has 2"):
        documents_of(path)


def test_the_first_sheet_that_is_shown_is_read(tmp_path):
    book = openpyxl.Workbook()
    book.active.sheet_state = "hidden"
    for name in "main", "other":
        book.create_sheet(name).append(["text", name])
    book.save(tmp_path / "a.xlsx")
    notes = []
    assert rows_of(str(tmp_path / "a.xlsx"), notes) == [(1, ["text", "main"])]
    which = "the sheet 'main' is read, and 2 others are not; save another sheet as a file of its own to read it"
    assert notes == [f"{tmp_path}/a.xlsx: {which}"]


def computed(path, value):
    """Put the computed value of the formula in a workbook there, as Excel does."""
    content = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            content[name] = archive.read(name)
    sheet = "xl/worksheets/sheet1.xml"
    assert b"<v></v>" in content[sheet] or b"<v/>" in content[sheet] or b"<v />" in content[sheet]
    for empty in b"<v></v>", b"<v/>", b"<v />":
        content[sheet] = content[sheet].replace(empty, b"<v>%b</v>" % value)
    if not value:
        content[sheet] = content[sheet].replace(b'<c r="B2">', b'<c r="B2" t="str">')
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)


def test_formulas_count_by_their_computed_values(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [["text", "labels"], ["a", "=1+1"], ["b", "x"]])
    reason = "a cell has a formula without a value; open the workbook in Excel or LibreOffice, and save it"
    with pytest.raises(DataFormatError) as caught:
        documents_of(path)
    assert str(caught.value) == f"{path}:2: {reason}"
    computed(path, b"2")
    assert rows_of(path)[1:] == [(2, ["a", "2"]), (3, ["b", "x"])]
    workbook(path, [["text", "labels"], ["a", '=""'], ["b", "x"]])
    computed(path, b"")
    assert rows_of(path)[1:] == [(2, ["a", ""]), (3, ["b", "x"])]


def test_errors_of_excel_are_empty_and_noted(tmp_path):
    notes = []
    path = workbook(tmp_path / "a.xlsx", [["text", "labels"], ["a", "#N/A"], ["b", "#DIV/0!"]])
    assert rows_of(path, notes)[1:] == [(2, ["a", ""]), (3, ["b", ""])]
    assert notes == [f"{path}: 2 cells have errors of Excel such as #N/A, and counted as empty"]


def test_a_wrong_dimension_loses_no_rows(tmp_path):
    path = workbook(tmp_path / "a.xlsx")
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    sheet = content["xl/worksheets/sheet1.xml"]
    assert b'ref="A1:D5"' in sheet
    content["xl/worksheets/sheet1.xml"] = sheet.replace(b'ref="A1:D5"', b'ref="A1:A1"')
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)
    assert [row[0] for _, row in rows_of(path)] == ["id", "7", "k1", "3", "4"]


def test_the_cells_of_a_parquet_file(tmp_path):
    path = table(
        tmp_path / "a.parquet",
        id=[1, 2],
        text=["cats", None],
        labels=[["a", "b;c"], None],
        objects=[[{"label": "x", "uri": "u:1"}, {"zone": 1}], []],
        more=[1.5, float("nan")],
        when=[NOON, None],
        price=[Decimal("1.50"), None],
        raw=["ü".encode(), b""],
    )
    (_, header), first, second = rows_of(path)
    assert header == ["id", "text", "labels", "objects", "more", "when", "price", "raw"]
    assert first == (
        2, ["1", "cats", ["a", "b;c"], ["u:1", '{"label": null, "uri": null, "zone": 1}'], "1.5",
            "2026-01-31T12:30:00", "1.50", "ü"],
    )  # fmt: skip
    assert second[1][:4] == ["2", "", "", []]
    assert documents_of(path) == [Document(2, "1", "cats", ["a", "b;c"]), Document(3, "2", "", [""])]
    assert documents_of(path, CorpusOptions(labels="objects"))[1] == Document(3, "2", "", [])


def test_categories_and_lists_of_numbers(tmp_path):
    frame = pd.DataFrame({"text": pd.Categorical(["a", "b", "a"]), "labels": [[1, 2], [], [3]]})
    frame.to_parquet(tmp_path / "a.parquet")
    found = documents_of(str(tmp_path / "a.parquet"))
    assert [(document.text, document.labels) for document in found] == [("a", ["1", "2"]), ("b", []), ("a", ["3"])]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("a", "a"), (None, ""), (float("nan"), ""), (3, "3"), (3.0, "3"), (-2.5, "-2.5"), (1e300, str(int(1e300))),
        (float("inf"), "inf"), (True, "true"), (False, "false"),
        ([1, None, "x", 2.0, ["y", "z"]], ["1", "x", "2", "y z"]),
    ],
)  # fmt: skip
def test_texts_of_cells(cell, text):
    assert as_text(cell) == text


@pytest.mark.parametrize("ending", ["xlsx", "parquet"])
def test_every_way_in_gives_the_same(tmp_path, ending):
    frame = pd.DataFrame({"id": ["a", "b"], "text": ["cats purr", "tables stand"], "labels": ["x;y", "y"]})
    path = tmp_path / f"a.{ending}"
    frame.to_excel(path, index=False) if ending == "xlsx" else frame.to_parquet(path)
    expected = [Document(2, "a", "cats purr", ["x", "y"]), Document(3, "b", "tables stand", ["y"])]
    assert documents_of(str(path)) == expected
    (tmp_path / "named.csv").write_bytes(path.read_bytes())
    assert documents_of(str(tmp_path / "named.csv")) == expected
    (tmp_path / "a.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert documents_of(str(tmp_path / "a.gz")) == expected
    with standard_input(path.read_bytes()):
        assert documents_of("-") == expected


@pytest.mark.parametrize("ending", ["xlsx", "parquet"])
def test_commands_read_tables(tmp_path, ending):
    frame = pd.DataFrame({"id": range(40), "text": ["cats purr", "tables stand"] * 20, "labels": ["x", "y"] * 20})
    frame.to_csv(tmp_path / "a.csv", index=False)
    path = tmp_path / f"a.{ending}"
    frame.to_excel(path, index=False) if ending == "xlsx" else frame.to_parquet(path)
    options = ["-P", "1", "--epochs", "1", "--no-label-weights"]
    answers = {}
    for data in tmp_path / "a.csv", path:
        assert run("train", "-q", data, tmp_path / "model", "--overwrite", *options).exit_code == 0
        answers[data] = run("predict", "-q", tmp_path / "model", data, "-k", "2").stdout
    assert len(set(answers.values())) == 1
    assert run("predict", "-q", tmp_path / "model", "-", "-k", "2", stdin=path.read_bytes()).stdout == answers[path]
    (tmp_path / "a.jsonl").write_text(answers[path])
    result = run("evaluate", tmp_path / "a.jsonl", path, "--train", path)
    assert result.exit_code == 0, result.stderr
    assert run("report", tmp_path / "model", path, "-o", tmp_path / "a.html").exit_code == 0
    result = run("predict", "-q", tmp_path / "model", path, "--text-column", "title")
    assert result.exit_code == 1
    assert "there is no column 'title'; the columns are 'id', 'text', 'labels'" in result.stderr


@pytest.mark.parametrize(("ending", "module"), [("xlsx", "openpyxl"), ("parquet", "pyarrow")])
def test_without_its_library_a_table_says_what_it_needs(tmp_path, monkeypatch, ending, module):
    path = tmp_path / f"a.{ending}"
    workbook(path) if ending == "xlsx" else table(path, text=["a"])
    for name in list(sys.modules):
        if name == module or name.startswith(f"{module}."):
            monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(XmlgpError, match=rf"a.{ending}: this is an? .*, which needs {module}: pip install 'xmlgp\[ta"):
        documents_of(str(path))


@pytest.mark.parametrize("ending", ["xlsx", "parquet"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-9],
        lambda content: content[:99],
        lambda content: content[:60] + b"\xff" * 200 + content[260:],
        # The list of a zip archive says that it is further back than it is.
        lambda content: content[:-6] + b"\0\0\0\x7f" + content[-2:],
    ],
)
def test_a_damaged_table_is_reported_in_a_sentence(tmp_path, ending, damage):
    path = tmp_path / f"a.{ending}"
    workbook(path) if ending == "xlsx" else table(path, text=["a" * 600], labels=["x"])
    path.write_bytes(damage(path.read_bytes()))
    result = run("vectorize", path, tmp_path / "out")
    assert result.exit_code == 1
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith(f"Error: {path}: this is a")
    assert "damaged or truncated (" in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "size", "limit"),
    [("xl/worksheets/sheet2.xml", 70, "64 MiB and 100"), ("xl/sharedStrings.xml", 9, "8 MiB and 20")],
)
def test_a_small_workbook_does_not_fill_the_memory(tmp_path, name, size, limit):
    path = workbook(tmp_path / "a.xlsx")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive, archive.open(name, "w") as member:
        for _ in range(size):
            member.write(bytes(1 << 20))
    expected = f"{path}: it expands to more than {limit} times its size; save it as CSV in UTF-8"
    with pytest.raises(XmlgpError) as caught:
        rows_of(path)
    assert str(caught.value) == expected


@pytest.mark.parametrize("content", [b"<c/>" * (5 << 18), b"<!-- </row> -->", "<c/>".encode("utf-16")])
def test_a_row_of_a_workbook_does_not_fill_the_memory(tmp_path, content):
    path = workbook(tmp_path / "a.xlsx")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"]
    parts["xl/worksheets/sheet1.xml"] = sheet.replace(b'<row r="5"', b'<row r="5">%b</row><row r="6"' % content)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    with pytest.raises(XmlgpError, match="a.xlsx: a sheet has a row of more than 4 MiB, or comments"):
        rows_of(path)


def test_rows_beyond_those_of_excel_are_refused(tmp_path):
    path = workbook(tmp_path / "a.xlsx")
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    sheet = content["xl/worksheets/sheet1.xml"]
    assert b'<row r="5"' in sheet
    content["xl/worksheets/sheet1.xml"] = sheet.replace(b'<row r="5"', b'<row r="99000000000"').replace(b'r="D5"', b"")
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)
    with pytest.raises(XmlgpError, match="the sheet has more than 1048576 rows"):
        rows_of(path)


def test_equal_texts_of_a_small_parquet_file_do_not_fill_the_memory(tmp_path):
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 3000, pa.int32()), pa.array(["a" * (1 << 22)]))
    path = str(tmp_path / "a.parquet")
    # The file does not say that it was written from a dictionary.
    pq.write_table(pa.table({"text": text, "labels": ["x"] * 3000}), path, store_schema=False)
    assert (tmp_path / "a.parquet").stat().st_size < 1 << 20
    before = pa.total_allocated_bytes()
    most = 0
    tracemalloc.start()
    try:
        with open_corpus(path) as found:
            for _, row in itertools.islice(found.rows, 1, 600):
                assert len(row[0]) == 1 << 22
                most = max(most, pa.total_allocated_bytes() - before)
        assert most + tracemalloc.get_traced_memory()[1] < 1 << 27
    finally:
        tracemalloc.stop()


def test_a_parquet_file_that_claims_many_values_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("xmlgp.text.table_files.FREE_VALUES", 1000)
    monkeypatch.setattr("xmlgp.text.table_files.MOST_VALUES", 10)
    rows = pa.array([1], pa.int8()).take(pa.array([0] * 3_000_000, pa.int32()))
    path = table(tmp_path / "a.parquet", text=rows)
    with pytest.raises(XmlgpError, match="a.parquet: it has 3000000 values, more than 10 for each byte; save it as"):
        rows_of(path)


def test_warnings_of_the_library_are_not_shown(tmp_path, recwarn):
    path = workbook(tmp_path / "a.xlsx", [["text", "when"], ["a", DAY]])
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    sheet = content["xl/worksheets/sheet1.xml"]
    assert b"<v>46053</v>" in sheet
    content["xl/worksheets/sheet1.xml"] = sheet.replace(b"<v>46053</v>", b"<v>99999999999</v>")
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in content.items():
            archive.writestr(name, text)
    assert rows_of(path)[1] == (2, ["a", ""])
    assert list(recwarn) == []
