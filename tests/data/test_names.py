"""Label names are read as Python reads lines of text, or refused with the line of the error."""

import gzip
import tracemalloc

import pytest

from tests.fuzzing.data_files import standard_input
from xmlgp.data.names import format_names, parse_names, read_label_names
from xmlgp.runtime.errors import DataFormatError, NamesFormatError, SettingsError

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
        (b"a\nb\xe9b\nc\nd\n", 2, "byte 0xe9 at character 2 of the line is not UTF-8"),
        (b"a\nb\nc\nd \x1b[2J\n", 4, "has U+001B, which no name can have"),
        ("a\n\x9b2J\nc\nd\n".encode(), 2, "has U+009B, which no name can have"),
        (b"0\tgraphs\n1\ttrees\n2\tc\n3\td\n", 1, "has U+0009, which no name can have"),
    ],
)
def test_malformed_file_is_reported_with_its_line(path, content, line, reason):
    path.write_bytes(content)
    with pytest.raises(DataFormatError) as caught:
        read_label_names(path, 4)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert reason in str(caught.value)


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


def test_names_are_written_only_if_they_can_be_read():
    assert parse_names(format_names(NAMES), 4) == NAMES
    for code in [*range(0x300), *range(0x2020, 0x2030), 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFEFF, 0xFFFF, 0x10FFFF]:
        names = ["a", f"b{chr(code)}"]
        content = "".join(f"{name}\n" for name in names).encode(errors="surrogatepass")
        if parse_names(content, 2) is None:
            with pytest.raises(SettingsError) as caught:
                format_names(names)
            assert str(caught.value) == f"the name {names[1]!a} has U+{code:04X}, which no name can have"
        else:
            assert format_names(names) == content
