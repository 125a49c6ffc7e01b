"""ARFF files of Weka and MEKA are read as text or as numbers, by the right values, or refused with the way out."""

import numpy as np
import pytest
from scipy.io import arff as scipy_arff

from tests.cli.command import run
from tests.inputs.reading import read_training
from xmlgp.errors import DataFormatError, XmlgpError
from xmlgp.text.corpus import open_corpus, read_documents
from xmlgp.text.documents import Document

TEXT = """% made by Weka
@RELATION tickets

@ATTRIBUTE 'the id' numeric
@attribute text STRING
@attribute\tlabels {animals,'big home','a;b'}
@data
7,'cats \\'purr\\', and\\nsleep',animals
% a comment
8.5, "tables, stand" ,'big home'
?,plain words,?
{1 'sparse text', 2 'a;b'}
{1 'no label'}
"""

MUSIC = """@relation 'Music: -C 2 -other 1'

@attribute happy {0,1}
@attribute 'sad one' {1,0}
@attribute f1 numeric
@attribute f2 real
@attribute f3 {0,1}
@data
1,0,0.5,2,1
0,1,-1e-3,0,0
{0 1, 2 3}
{ 1 1 }
{}
"""


def rows_of(path):
    with open_corpus(str(path)) as found:
        return list(found.rows)


def test_a_file_with_texts_is_a_table(tmp_path):
    path = tmp_path / "a.arff"
    path.write_text(TEXT)
    assert rows_of(path) == [
        (1, ["the id", "text", "labels"]),
        (8, ["7", "cats 'purr', and\nsleep", "animals"]),
        (10, ["8.5", "tables, stand", "big home"]),
        (11, ["", "plain words", ""]),
        (12, ["0", "sparse text", "a;b"]),
        (13, ["0", "no label", "animals"]),
    ]
    with open_corpus(str(path)) as found:
        documents = list(read_documents(found))
    assert documents[0] == Document(8, None, "cats 'purr', and\nsleep", ["animals"])
    assert documents[3] == Document(12, None, "sparse text", ["a", "b"])


def test_a_file_of_meka_has_the_numbers_that_scipy_reads(tmp_path):
    dense = MUSIC[: MUSIC.index("{0 1, 2")].replace("-other 1", "")
    for name, count, content in ("first.arff", 2, dense), ("last", -3, dense.replace("-C 2", "-C -3")):
        path = tmp_path / name
        path.write_text("% " + "x" * 5000 * (name == "first.arff") + "\n" + content)
        if count < 0:
            path.write_text(content.replace("f1 numeric", "f1 {0,1}").replace("0.5,2", "1,1").replace("-1e-3", "0"))
        table = np.array([list(map(float, row)) for row in scipy_arff.loadarff(path)[0].tolist()])
        labels, features = np.split(table, [2], axis=1)
        if count < 0:
            labels, features = features, labels
        found = read_training(str(path), cache=True).dataset
        assert np.array_equal(found.labels.toarray(), labels == 1)
        assert np.array_equal(found.features.sparse.toarray(), features.astype(np.float32))


def test_sparse_rows(tmp_path):
    path = tmp_path / "a.arff"
    path.write_text(MUSIC)
    found = read_training(str(path)).dataset
    # By the definition of the format, a value that is not listed is the first one of its type.
    assert found.labels.toarray().tolist()[2:] == [[True, True], [False, True], [False, True]]
    assert found.features.sparse.toarray().tolist()[2:] == [[3, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_commands_read_files_of_meka(tmp_path):
    data = tmp_path / "a.arff"
    body = "".join(f"{i % 2},{1 - i % 2},{i % 2},{1 - i % 2},1\n" for i in range(40))
    data.write_text(MUSIC[: MUSIC.index("1,0,0.5")] + body)
    model = tmp_path / "model"
    assert run("train", "-q", data, model, "-P", "1", "--epochs", "1").exit_code == 0
    assert run("predict", "-q", model, data, "-o", tmp_path / "a.scores", "-k", "1").exit_code == 0
    result = run("evaluate", tmp_path / "a.scores", data, "--train", data)
    assert result.exit_code == 0
    assert (
        run("predict", "-q", model, "-", "-k", "1", stdin=data.read_bytes()).stdout
        == (tmp_path / "a.scores").read_text()
    )
    assert "this is an ARFF file of Weka" in run("evaluate", data, data).stderr


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "-C 2",
            "",
            "does not say which are labels; as MEKA writes them, `@relation 'NAME: -C 14'` says that the first",
        ),
        ("-C 2", "-C 5", "does not say which are labels"),
        ("f2 real", "f2 {a,b}", "the attribute 'f2' is '{a,b}'; make numbers of it, such as 0 and 1"),
        ("0.5,2,1", "0.5,?,1", ":9: the attribute 'f2' is unknown (?)"),
        ("0.5,2,1", "0.5,nan,1", ":9: the attribute 'f2' is 'nan', not a number"),
        ("0.5,2,1", "0.5,2", ":9: this row has 4 values, but there are 5 attributes"),
        ("{0 1, 2 3}", "{0 1, 9 3}", ":11: '9 3' is not `attribute value` below 5"),
        ("{0 1, 2 3}", "{0 1, 00000000099 3}", ":11: '00000000099 3' is not `attribute value` below 5"),
        ("@data\n", "", ":8: this line of an ARFF file is '1,0,0.5,2,1', not @attribute or @data"),
        ("-1e-3", "'1", ':10: a quote is not closed, or text follows it: "\'1,0,0"'),
    ],
)
def test_mistakes_are_reported_with_the_way_out(tmp_path, old, new, reason):
    path = tmp_path / "a.arff"
    path.write_text(MUSIC.replace(old, new))
    with pytest.raises(XmlgpError) as caught:
        read_training(str(path))
    assert reason in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_malformed_row_of_a_table_is_an_error_of_this_row(tmp_path):
    path = tmp_path / "a.arff"
    path.write_text(TEXT.replace("?,plain words,?", "1,2,3,4"))
    _, _, _, error, *_ = rows_of(path)
    assert isinstance(error, DataFormatError)
    assert str(error) == f"{path}:11: this row has 4 values, but there are 3 attributes"


def test_a_file_without_data(tmp_path):
    path = tmp_path / "a.arff"
    path.write_text("@relation x\n@attribute text string\n")
    with pytest.raises(XmlgpError, match=r"a.arff: this ARFF file has no line @data"):
        rows_of(path)
