"""One more text format needs one file and one line in the table, and no other file changes."""

import json

import pytest

from tests.cli.command import run
from tests.text.corpora import documents_of, in_every_way
from tests.text.ris_format import RIS
from xmlgp.errors import DataFormatError
from xmlgp.text.documents import CorpusOptions, Document
from xmlgp.text.formats import FORMATS, format_of_corpus

RECORD = "TY  - JOUR\nID  - r{number}\nTI  - {text}\n{keywords}ER  - \n\n"
ROWS = [("cat dog purrs", ["animals"]), ("table chair stands", ["home"]), ("dog on the chair", ["animals", "home"])] * 4
CONTENT = "".join(
    RECORD.format(number=number, text=text, keywords="".join(f"KW  - {label}\n" for label in labels))
    for number, (text, labels) in enumerate(ROWS)
)


@pytest.fixture(autouse=True)
def _registered():
    """Put the format in front of the others, as one line in the table would."""
    others = dict(FORMATS)
    FORMATS.clear()
    FORMATS.update({RIS.name: RIS} | others)
    yield
    FORMATS.clear()
    FORMATS.update(others)


def test_the_format_is_recognised_and_read_in_every_way(tmp_path):
    assert format_of_corpus("-", b"TY  - JOUR\n") == format_of_corpus("a.ris.gz", b"anything\n") == "ris"
    documents = in_every_way(tmp_path / "a", CONTENT.encode(), documents_of)
    assert documents[:2] == [Document(1, "r0", *ROWS[0]), Document(7, "r1", *ROWS[1])]
    assert [(document.text, document.labels) for document in documents] == ROWS


def test_the_format_can_be_chosen_and_its_errors_have_lines(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\n" + CONTENT + "nonsense\n")
    with pytest.raises(DataFormatError, match=f"a.txt:{CONTENT.count(chr(10)) + 2}: this line of RIS has no tag"):
        documents_of(path, CorpusOptions(format="ris"))


def test_commands_train_on_the_format_and_predict(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ris").write_text(CONTENT)
    settings = ["-P", "1", "--epochs", "1", "--no-label-weights", "--set", "regression_points=0"]
    result = run("train", "a.ris", "model", *settings)
    assert result.exit_code == 0, result.stderr
    answers = [json.loads(line) for line in run("predict", "-q", "model", "a.ris").stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [f"r{number}" for number in range(len(ROWS))]
