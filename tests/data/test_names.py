"""Label names are read as Python reads lines of text, or refused with the line of the error."""

import gzip
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzzing.data_files import standard_input
from tests.problems import DETERMINISTIC
from xmlgp.data.names import read_label_names
from xmlgp.errors import DataFormatError, NamesFormatError

NAMES = ["graph theory", "Zürich", "機械学習", ""]
TEXT = "graph theory\nZürich\n機械学習\n\n".encode()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "names.txt"


@pytest.mark.parametrize(
    "content",
    [TEXT, TEXT.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + TEXT, TEXT.replace(b"graph theory", b"  graph theory ")],
    ids=["plain", "carriage returns", "byte order mark", "surrounding spaces"],
)
def test_names_are_read(path, content):
    path.write_bytes(content)
    assert read_label_names(path, 4) == NAMES
    path.with_name("names.gz").write_bytes(gzip.compress(content))
    assert read_label_names(path.with_name("names.gz"), 4) == NAMES
    for piped in (content, gzip.compress(content)):
        with standard_input(piped):
            assert read_label_names("-", 4) == NAMES


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"a\nb\nc\n", 4, "the file ends after 3 of 4 label names"),
        (b"a\nb\nc\nd\ne\n", 5, "the file has more names than the 4 labels"),
        (b"a\nb\nc\nd", 4, "the file ends within this line: it is truncated, or its newline is missing"),
        (b"a\nb\xe9b\nc\nd\n", 2, "byte 0xe9 at byte 2 of the line is not UTF-8"),
        ("a\nb\nc\nd\n".encode("utf-16"), 1, "byte 0xff at byte 1 of the line is not UTF-8"),
        (b"a\nb\nc\nd \x1b[2J\n", 4, "U+001B at column 3 is a control character"),
        ("a\n\x9b2J\nc\nd\n".encode(), 2, "U+009B at column 1 is a control character"),
        (b"0\tgraphs\n1\ttrees\n2\tc\n3\td\n", 1, "U+0009 at column 2 is a control character"),
    ],
)
def test_malformed_file_is_reported_with_its_line(path, content, line, reason):
    path.write_bytes(content)
    with pytest.raises(DataFormatError) as caught:
        read_label_names(path, 4)
    assert str(caught.value) == f"{path}:{line}: {reason}"


def test_additional_names_are_not_read_into_memory(tmp_path):
    path = tmp_path / "names.gz"
    path.write_bytes(gzip.compress(b"a\n" * (32 << 20), compresslevel=1))
    tracemalloc.start()
    try:
        with pytest.raises(NamesFormatError, match=":5: the file has more names than the 4 labels"):
            read_label_names(path, 4)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


@DETERMINISTIC
@given(
    st.lists(st.binary(max_size=6) | st.text(max_size=4).map(lambda text: text.encode("utf-8", "replace")), max_size=5)
)
@example([b"\x1b", b"\xff"])
def test_any_text_is_read_or_refused_with_the_first_malformed_line(rows):
    content = b"".join(row.replace(b"\n", b"") + b"\n" for row in rows)
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:-1]
    with standard_input(content):
        try:
            found = read_label_names("-", len(lines))
        except NamesFormatError as error:
            found, wrong = None, lines[error.line - 1].removesuffix(b"\r")
            lines = lines[: error.line - 1]
            assert is_malformed(wrong)
    assert not any(is_malformed(line.removesuffix(b"\r")) for line in lines)
    assert found is None or found == [line.decode().strip() for line in lines]


def is_malformed(line):
    try:
        return any(ord(c) < 32 or 127 <= ord(c) < 160 for c in line.decode())
    except UnicodeDecodeError:
        return True
