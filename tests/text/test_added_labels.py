"""Names of labels to add: they follow those of the model, or the file is refused with the line of the error."""

import pytest

from tests.text.corpora import in_every_way
from xmlgp.errors import DataFormatError, NamesFormatError
from xmlgp.text.analysis import Analysis
from xmlgp.text.names import Names, add_label_names
from xmlgp.text.vectorizer import Vectorizer

OWN = ["trees", "", "trees", "graph theory"]


@pytest.mark.parametrize(
    "content",
    [
        "Zürich\n機械学習\na b\n",
        "Zürich\r\n機械学習\r\na b\r\n",
        "\ufeffZürich\n機械学習\na b\n",
        " Zürich\n機械学習 \n\u2003a b\n",
        "Zürich\n機械学習\na b",
    ],
    ids=["plain", "carriage returns", "byte order mark", "surrounding spaces", "no last newline"],
)
def test_names_follow_those_of_the_model(tmp_path, content):
    vectorizer = Vectorizer(Analysis(), ["word"])
    names = Names(list(OWN), ["word"], vectorizer)
    found = in_every_way(tmp_path / "new", content.encode(), lambda path: add_label_names(path, names, 4))
    assert found == (OWN + ["Zürich", "機械学習", "a b"], ["word"], vectorizer)
    assert add_label_names(tmp_path / "new", names, 4) == found
    assert names.labels == OWN


def test_names_that_the_model_has_stay_as_they_are(tmp_path):
    (tmp_path / "new").write_text("a\ntrees\n graph theory\nb\n")
    assert add_label_names(tmp_path / "new", Names(OWN), 4).labels == [*OWN, "a", "b"]
    (tmp_path / "new").write_text("trees\n")
    assert add_label_names(tmp_path / "new", Names(OWN), 4).labels == OWN


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"", 1, "the file is empty"),
        (b"a\n\nb\n", 2, "this line is empty, but each line must have the name of a label"),
        (b"a\nb\nc\nb \n", 4, "label 'b' is in line 2 already"),
        (b"a\nb\n\xed\xa0\x80\n", 3, "byte 0xed at byte 1 of the line is not UTF-8"),
        ("a\nb\n".encode("utf-16"), 1, "byte 0xff at byte 1 of the line is not UTF-8"),
        (b"a\nc \x1b[2J\n", 2, "U+001B at column 3 is a control character"),
        ("\x9b2J\n".encode(), 1, "U+009B at column 1 is a control character"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(tmp_path, content, line, reason):
    def refusal(path):
        with pytest.raises(DataFormatError) as caught:
            add_label_names(path, Names(OWN), 4)
        return str(caught.value).removeprefix(f"{path}:")

    assert in_every_way(tmp_path / "new", content, refusal).startswith(f"{line}: {reason}")


@pytest.mark.parametrize(("K", "model"), [(1, "the model of 1 label"), (7, "the model of 7 labels")])
def test_a_model_without_names_of_labels_cannot_get_any(tmp_path, K, model):
    with pytest.raises(NamesFormatError) as caught:
        add_label_names(tmp_path / "new", Names(None, ["word"]), K)
    assert str(caught.value) == f"{tmp_path / 'new'}:1: {model} has no names of labels, so none can be added"
