"""Cutting a stream into whole lines."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmlgp.data import lines
from xmlgp.data.lines import LineReader
from xmlgp.errors import DataFormatError


class Pieces:
    """A stream that delivers given pieces, as a pipe does."""

    def __init__(self, pieces):
        self.pieces = list(pieces)

    def read1(self, size):
        return self.pieces.pop(0) if self.pieces else b""


def taken(reader, most):
    """Return what the reader gives, with the line it said comes next."""
    result = []
    while True:
        line = reader.line
        text = reader.take(most)
        if not text:
            return result
        result.append((line, text))


@given(pieces=st.lists(st.binary(min_size=1, max_size=9).map(lambda piece: piece.replace(b"a", b"\n")), max_size=9))
def test_nothing_is_lost_and_every_line_ends(pieces):
    if pieces and not pieces[-1].endswith(b"\n"):
        pieces = [*pieces, b"\n"]
    whole = b"".join(pieces)
    expected = whole.splitlines(keepends=True) if b"\r" not in whole else None
    for most in 1, 3, 1000:
        result = taken(LineReader(Pieces(pieces), "x"), most)
        text = b"".join(text for _, text in result)
        assert text == whole
        count = 1
        for line, text in result:
            assert line == count
            assert 1 <= text.count(b"\n") <= most
            assert text.endswith(b"\n")
            count += text.count(b"\n")
        if expected is not None and most == 1 and not set(whole) & set(b"\x0b\x0c\x1c\x1d\x1e\x85"):
            assert len(result) == len(expected)


def test_no_more_is_read_than_needed():
    stream = Pieces([b"one\ntw", b"o\nthree\n", b"four\n"])
    reader = LineReader(stream, "x")
    assert reader.take(1) == b"one\n"
    assert len(stream.pieces) == 2
    assert reader.take(2) == b"two\nthree\n"
    assert len(stream.pieces) == 1
    assert reader.take(5) == b"four\n"
    assert reader.take(5) == b""


def test_a_block_is_not_much_longer_than_its_limit():
    reader = LineReader(io.BytesIO(b"a line of text\n" * 500_000), "x")
    sizes = [len(text) for _, text in taken(reader, 10**9)]
    assert max(sizes) <= 1.5 * lines.BLOCK_BYTES
    assert min(sizes[:-1]) >= 0.5 * lines.BLOCK_BYTES


@pytest.mark.parametrize("before", [0, 3])
def test_a_line_too_long_is_an_error_in_that_line(monkeypatch, before):
    monkeypatch.setattr(lines, "LINE_BYTES", 1000)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    reader = LineReader(io.BytesIO(b"short\n" * before + b"x" * 1000 + b"\n" + b"x" * 1002), "x")
    with pytest.raises(DataFormatError) as caught:
        taken(reader, 1)
    assert caught.value.line == before + 2


def test_a_last_line_without_end_comes_first_and_is_refused_then():
    reader = LineReader(Pieces([b"one\ntwo"]), "x")
    assert reader.take(9) == b"one\ntwo\n"
    with pytest.raises(DataFormatError, match="x:2: the file ends within this line"):
        reader.take(9)


def test_the_next_line_can_be_looked_at_before_it_is_taken():
    stream = Pieces([b"o", b"ne\ntw", b"o\nthree\n", b"four"])
    reader = LineReader(stream, "x")
    assert (reader.look(), reader.look(), reader.line) == (b"one\n", b"one\n", 1)
    assert len(stream.pieces) == 2
    assert reader.take(1) == b"one\n"
    assert (reader.look(), reader.line) == (b"two\n", 2)
    assert reader.take(9) == b"two\nthree\nfour\n"
    assert reader.look() == b""
    with pytest.raises(DataFormatError, match="x:4: the file ends within this line"):
        reader.take(1)


def test_there_is_nothing_to_look_at_in_an_empty_file():
    reader = LineReader(io.BytesIO(), "x")
    assert reader.look() == reader.take(1) == reader.look() == b""
