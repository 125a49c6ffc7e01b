"""Inputs as people have them: each is read right, or refused in one sentence that names file, line and way out."""

import gzip

import pandas as pd
import pytest

from tests.text.corpora import documents_of
from xmlgp.runtime.errors import DataFormatError, XmlgpError
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions

TEXTS = ["cat dog purrs", "table chair stands", "dog on the chair", "bread and cheese", "cheese for the cat", "soup"]
LABELS = [["animals"], ["home"], ["animals", "home"], ["food"], ["food", "animals"], ["food", "home"]]


def read(path, content, options=NO_OPTIONS, labelled=True):
    """Return the documents of a file with this content, bytes or text."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return documents_of(path, options, labelled=labelled)


def table(labels_of, delimiter=","):
    """Return a table of the texts with the labels as a function writes a list of them."""
    rows = [delimiter.join((text, labels_of(labels))) for text, labels in zip(TEXTS, LABELS, strict=True)]
    return "\n".join([delimiter.join(("text", "labels")), *rows, ""])


def csv_of(labels_of):
    return table(lambda labels: '"{}"'.format(labels_of(labels).replace('"', '""')))


SWAPPED = "".join(f"{' '.join(labels)}\t{text}\n" for text, labels in zip(TEXTS, LABELS, strict=True))

READ = {
    "no-break and double blanks are one": (
        "a.jsonl",
        '{"text": "x", "labels": ["New\u00a0York", " two  words "], "id": "shelf \u2009 3"}\n',
        NO_OPTIONS,
        [("shelf 3", "x", ["New York", "two words"])],
    ),
    "letters and their marks are one": (
        "a.csv",
        "text,labels\nx,Erna\u0308hrung\n",
        NO_OPTIONS,
        [(None, "x", ["Ern\u00e4hrung"])],
    ),
    "URIs in brackets, as in Annif": (
        "a.csv",
        "text,labels\nx,<http://a/1> <http://a/2>\ny,<http://a/1>\n",
        NO_OPTIONS,
        [(None, "x", ["http://a/1", "http://a/2"]), (None, "y", ["http://a/1"])],
    ),
    "quotes are characters in TSV": (
        "a.tsv",
        'id\ttext\tlabels\n1\t"Cats" and\tx\n2\t"open\ty\n3\tclosed"\tx\n',
        NO_OPTIONS,
        [("1", '"Cats" and', ["x"]), ("2", '"open', ["y"]), ("3", 'closed"', ["x"])],
    ),
    "two columns of labels": (
        "a.csv",
        "text,first,second\nx,a,\ny,b,a\n",
        CorpusOptions(labels=("first", "second")),
        [(None, "x", ["a"]), (None, "y", ["b", "a"])],
    ),
    "names with commas that the user keeps whole": (
        "a.csv",
        'text,labels\nx,"Smith, J"\ny,"Doe, J"\n',
        CorpusOptions(separator=";"),
        [(None, "x", ["Smith, J"]), (None, "y", ["Doe, J"])],
    ),
    "gzip data of any name": ("a.csv", gzip.compress(b"text,labels\nx,a\n"), NO_OPTIONS, [(None, "x", ["a"])]),
}


@pytest.mark.parametrize("case", READ)
def test_it_is_read_as_it_was_meant(tmp_path, case):
    name, content, options, expected = READ[case]
    found = read(tmp_path / name, content, options)
    assert [(document.id, document.text, document.labels) for document in found] == expected


#: The name of a file, its content, and what a message has after the name.
REFUSED = {
    "a field that occurs twice": (
        "a.jsonl",
        '{"text": "x", "labels": ["a"]}\n{"text": "x", "labels": ["a"], "labels": ["b"]}\n',
        ":2: the line is not JSON ('labels' occurs twice); ",
    ),
    "quotes around several names": (
        "a.tsv",
        'text\tlabels\nx\t"a;b"\n',
        """:2: the labels are '"a;b"': there is what quotes or""",
    ),
    "a blank after the prefix of fastText": (
        "a.txt",
        "__label__a x\n__label__ b y\n",
        ":2: labels must be __label__NAME, without a blank, a qu",
    ),
    "blanks in a name in brackets": ("a.tsv", "x\t<a b> <c>\n", ":1: a line must be a text, one tab and labels, <in"),
    "no such column": (
        "a.csv",
        "text,tags\nx,a\n",
        ":1: there is no column 'labels'; the columns are 'text', 'tags'; ",
    ),
    "no such field": (
        "a.jsonl",
        '{"text": "x", "tags": []}\n',
        ":1: there is no field 'labels'; the fields are 'text', ",
    ),
    "semicolons between columns": (
        "a.csv",
        "text;labels\nx;a\n",
        ":1: there is no column 'text'; the columns are 'text;labels'; columns are separated by commas, or by tabs in "
        ".tsv: save the file so, or as .xlsx",
    ),
    "tabs between columns of a file with commas": (
        "a.csv",
        "text\tlabels\nx\ta\n",
        r":1: there is no column 'text'; the columns are 'text\tlabels'; columns are separated by commas",
    ),
    "cp1252": (
        "a.csv",
        "text,labels\ncafé,a\n".encode("cp1252"),
        ":2: byte 0xe9 at character 4 of the line is not UTF-8; in cp1",
    ),
    "carriage returns": ("a.csv", "text,labels\rx,a\r", ":1: there is a carriage return that ends no line; `tr "),
    "a carriage return in a text": (
        "a.csv",
        'text,labels\n"x\ry",a\n',
        ":2: there is a carriage return that ends no line; ",
    ),
    "labels before texts": ("a.txt", SWAPPED, ":1: the labels, such as 'cat', seem to be texts, "),
    "swapped columns": (
        "a.csv",
        "labels,text\n" + "".join(f"a long text of several words {n},topic\n" for n in range(9)),
        ":2: the labels, such as 'a long text of several words 0', seem to be texts, and the text 'topic' labels; ",
    ),
    **{
        f"labels divided by {sign!r}": ("a.csv", csv_of(sign.join), " labels are divided, but 3 of 6 have ")
        for sign in (",", "|", "#", " / ", "/", " ", "；", " & ", "::", "+", "_", " - ")
    },
    "angle brackets": (
        "a.csv",
        csv_of(lambda labels: "".join(f"<{label}>" for label in labels)),
        "in angle brackets are not",
    ),
    **{
        f"a list of {kind.__name__}": (
            "a.csv",
            csv_of(lambda labels, kind=kind: repr(kind(labels))),
            ": a list is written in",
        )
        for kind in (list, tuple, set)
    },
    "a list of NumPy": (
        "a.csv",
        "text,labels\nx,['a' 'b']\n",
        ": a list is written in a text, which is not read; docs/",
    ),
    "an empty list": ("a.csv", "text,labels\nx,[]\n", ":2: the labels are '[]': a list is written in a text"),
    "escaped separators": (
        "a.csv",
        "text,labels\nx,Smith\\; J;b\n",
        ":2: the labels are 'Smith\\\\; J;b': a separator is es",
    ),
    "HTML": ("a.csv", "text,labels\nx,R&amp;D;b\n", ":2: the labels are 'R&amp;D;b': a separator is escaped"),
    "labels in quotes": (
        "a.csv",
        'text,labels\nx,"""a"";""b"""\n',
        ':2: the labels are \'"a";"b"\': there is what quotes',
    ),
    "no value": (
        "a.csv",
        "text,labels\nx,nan\n",
        ":2: the labels are 'nan': programs write this where there is no value; ",
    ),
    "0 and 1": (
        "a.csv",
        "text,labels\nx,0\ny,1\n",
        ":2: the labels are only 0 and 1, which name none; docs/other-tools",
    ),
    "a vector": ("a.jsonl", '{"text": "x", "labels": [0, 1, 1]}\n', ":1: the labels are only 0 and 1, which name none"),
    "objects as labels": (
        "a.jsonl",
        '{"text": "x", "labels": [{"name": "a"}]}\n',
        ":1: a label in labels is {'name': 'a'}, ",
    ),
    "lists in lists": (
        "a.jsonl",
        '{"text": "x", "labels": [["a"]]}\n',
        ":1: a label in labels is ['a'], which is not text",
    ),
    "paragraphs": (
        "a.jsonl",
        '{"text": ["x"], "labels": []}\n',
        ":1: text is ['x'], which is not text; docs/other-tools",
    ),
    "an array": (
        "a.json",
        '[{"text": "x"}]\n',
        ":1: the line is [{'text': 'x'}], not an object; `jq -c '.[]' FILE` writes",
    ),
    "an object in several lines": ("a.json", '{\n"text": "x"}\n', ":1: the line is not JSON (Expecting property name"),
    "half a character": ("a.jsonl", '{"text": "\\ud800", "labels": []}\n', ":1: the line is not JSON ("),
    "a row too long": ("a.csv", "text,labels\nx,a,b\n", ":2: this row has 3 fields, but the header has 2"),
    "a quoted row of TSV": ("a.tsv", 'text\tlabels\n"x\ny"\ta\n', ":2: this row has 1 field, but the header has 2"),
    "a quoted header of TSV": ("a.tsv", '"text"\t"labels"\n"x"\t"a"\n', ":1: this seems to be the header of a table; "),
    "a quote that is not closed": (
        "a.csv",
        'text,labels\n"x,a\ny,b\n',
        ":2: the row that starts here is not CSV (unexpected",
    ),
    "the header twice": ("a.csv", "text,labels\nx,a\ntext,labels\n", ":3: this row is the header again; remove it"),
    "two columns of one name": ("a.csv", "text,labels,text\nx,a,b\n", ":1: several columns are 'text'"),
    "a header of other names": (
        "a.tsv",
        "title\ttags\nx\ta\n",
        ":1: this seems to be the header of a table; --text-column n",
    ),
    "three columns": (
        "a.tsv",
        "2000\tanimals\tcat dog\n",
        ":1: a line must be a text, one tab and labels, <in brackets> or ",
    ),
    "commas in Annif": (
        "a.tsv",
        "x\tanimals, home\n",
        ":1: the labels are 'animals, home': there is what quotes or separ",
    ),
    "another prefix": (
        "a.txt",
        "__label__a x\n__label2__b y\n",
        ":2: labels must be __label__NAME, without a blank, a qu",
    ),
    "a quote before a prefix": ("a.txt", '"__label__a x"\n', ":1: labels must be __label__NAME, without a blank, a qu"),
    "blanks in a label": (
        "a.txt",
        "__label__New York\tx\n",
        ":1: a name before the tab has blanks, which end a label; wr",
    ),
    "texts alone": (
        "a.txt",
        "one text\n",
        ":1: 'one text' is not the first line of a corpus with labels, as docs/text.md",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused_in_one_sentence(tmp_path, case):
    name, content, reason = REFUSED[case]
    with pytest.raises(DataFormatError) as caught:
        read(tmp_path / name, content)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / name}:")
    assert reason in message
    assert message.isprintable()
    assert len(message.removeprefix(str(tmp_path))) < 400


def test_a_header_is_no_text_to_be_tagged(tmp_path):
    with pytest.raises(DataFormatError, match="this seems to be the header of a table"):
        read(tmp_path / "a.txt", "id;text;tags\n1;x;a\n", labelled=False)
    options = CorpusOptions(format="lines")
    assert len(read(tmp_path / "a.txt", "id;text;tags\n1;x;a\n", options, labelled=False)) == 2


FRAME = pd.DataFrame({"id": [1, 2], "text": ["x", None], "labels": ["a;b", "NA"]})


@pytest.mark.parametrize(("ending", "write"), [("xlsx", "to_excel"), ("parquet", "to_parquet")])
def test_tables_of_pandas(tmp_path, ending, write):
    path = tmp_path / f"a.{ending}"

    def documents(frame):
        getattr(frame, write)(path, index=False)
        return documents_of(path)

    found = documents(FRAME.assign(labels=["a;b", "c"]))
    assert [tuple(document[:4]) for document in found] == [(2, "1", "x", ["a", "b"]), (3, "2", "", ["c"])]
    with pytest.raises(DataFormatError, match="there is no column 'labels'; the columns are 'id', 'text'; "):
        documents(FRAME[["id", "text"]])
    # A sheet may show the number otherwise.
    with pytest.raises(XmlgpError, match="a label is 250"):
        documents(FRAME.assign(labels=[250, 3.21]))
    path.write_bytes(b"damaged")
    with pytest.raises(XmlgpError, match=f"a.{ending}: "):
        documents_of(path)


def merge_cells(sheet):
    sheet.merge_cells("C2:C3")


def write_error(sheet):
    sheet["C2"] = "#N/A"


def repeat_column(sheet):
    sheet["D1"] = "labels"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (merge_cells, ": cells are merged, of which only the first has"),
        (write_error, ": a cell has an error, such as #N/A"),
        (repeat_column, ":1: several columns are 'labels'"),
    ],
)
def test_cells_that_pandas_reads_otherwise_are_refused(tmp_path, change, reason):
    path = tmp_path / "a.xlsx"
    with pd.ExcelWriter(path) as writer:
        FRAME.to_excel(writer, index=False)
        change(writer.sheets["Sheet1"])
    with pytest.raises(XmlgpError, match=reason):
        documents_of(path)


def test_cells_of_parquet_without_text_are_refused_and_large_identifiers_exact(tmp_path):
    path = tmp_path / "a.parquet"
    FRAME.assign(text=[b"x", b"y"]).to_parquet(path)
    with pytest.raises(XmlgpError, match="a cell is b'x', not text; "):
        documents_of(path)
    FRAME.assign(id=pd.array([2**53 + 1, None], "Int64"), labels="a").to_parquet(path)
    assert [document.id for document in documents_of(path)] == [str(2**53 + 1), ""]
