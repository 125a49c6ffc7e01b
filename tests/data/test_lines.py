"""Splitting a stream into complete lines."""

import io
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmlgp.data import lines
from xmlgp.data.lines import LineReader
from xmlgp.runtime.errors import DataFormatError


class Pieces:
    """A stream that returns one piece a read, like a pipe."""

    def __init__(self, pieces):
        self.pieces = list(pieces)

    def read1(self, size):
        return self.pieces.pop(0) if self.pieces else b""


def read_all(reader, max_lines):
    """Return all blocks, each with the number of its first line."""
    result = []
    while True:
        line_number = reader.line_number
        text = reader.read_lines(max_lines)
        if not text:
            return result
        result.append((line_number, text))


@given(pieces=st.lists(st.binary(min_size=1, max_size=9).map(lambda piece: piece.replace(b"a", b"\n")), max_size=9))
def test_all_lines_are_returned_with_their_numbers(pieces):
    if pieces and not pieces[-1].endswith(b"\n"):
        pieces = [*pieces, b"\n"]
    content = b"".join(pieces)
    for max_lines in 1, 3, 1000:
        result = read_all(LineReader(Pieces(pieces), "x"), max_lines)
        text = b"".join(text for _, text in result)
        assert text == content
        expected_number = 1
        for line_number, text in result:
            assert line_number == expected_number
            assert 1 <= text.count(b"\n") <= max_lines
            assert text.endswith(b"\n")
            expected_number += text.count(b"\n")
        assert max_lines > 1 or len(result) == content.count(b"\n")


def test_block_size_is_near_its_limit():
    reader = LineReader(io.BytesIO(b"a line of text\n" * 500_000), "x")
    sizes = [len(text) for _, text in read_all(reader, 10**9)]
    assert max(sizes) <= 1.5 * lines.BLOCK_BYTES
    assert min(sizes[:-1]) >= 0.5 * lines.BLOCK_BYTES


@pytest.mark.parametrize("before", [0, 3])
def test_too_long_line_is_reported_with_its_number(monkeypatch, before):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    reader = LineReader(io.BytesIO(b"short\n" * before + b"x" * 1000 + b"\n" + b"x" * 1002), "x")
    with pytest.raises(DataFormatError) as caught:
        read_all(reader, 1)
    assert caught.value.line == before + 2


def test_last_line_without_newline_is_returned_and_then_refused():
    reader = LineReader(Pieces([b"one\ntwo"]), "x")
    assert reader.read_lines(9) == b"one\ntwo\n"
    with pytest.raises(DataFormatError, match="x:2: the file ends within this line"):
        reader.read_lines(9)


def test_the_next_line_can_be_looked_at_before_it_is_read_all():
    stream = Pieces([b"o", b"ne\ntw", b"o\nthree\n", b"four"])
    reader = LineReader(stream, "x")
    assert (reader.peek_line(), reader.peek_line(), reader.line_number) == (b"one\n", b"one\n", 1)
    assert len(stream.pieces) == 2
    assert reader.read_lines(1) == b"one\n"
    assert (reader.peek_line(), reader.line_number) == (b"two\n", 2)
    assert reader.read_lines(9) == b"two\nthree\nfour\n"
    assert reader.peek_line() == b""
    with pytest.raises(DataFormatError, match="x:4: the file ends within this line"):
        reader.read_lines(1)


@pytest.mark.parametrize("pieces", [[b"\xef\xbb\xbfone\ntwo\n"], [b"\xef", b"\xbb", b"\xbfone\n", b"two\n"]])
def test_byte_order_mark_is_left_out(pieces):
    reader = LineReader(Pieces(pieces), "x")
    assert reader.peek_line() == b"one\n"
    assert b"".join(text for _, text in read_all(reader, 1)) == b"one\ntwo\n"


def test_second_byte_order_mark_is_text():
    reader = LineReader(Pieces([b"\xef\xbb\xbf\xef\xbb\xbf", b"one\n"]), "x")
    assert reader.read_lines(9) == b"\xef\xbb\xbfone\n"


def test_only_blank_lines_may_follow_the_points_that_a_file_declares():
    reader = LineReader(Pieces([b"one\n\n \t\r\n  "]), "x")
    assert list(reader.blocks(1)) == [(1, b"one\n")]
    reader = LineReader(Pieces([b"one\n\n \n  two\nthree\n"]), "x")
    with pytest.raises(DataFormatError, match="x:4: the file has more points than the 1"):
        list(reader.blocks(1))
    reader = LineReader(Pieces([b"one"]), "x")
    with pytest.raises(DataFormatError, match="x:1: the file ends within this line"):
        list(reader.blocks(1))


def test_empty_file_has_no_line():
    reader = LineReader(io.BytesIO(), "x")
    assert reader.peek_line() == reader.read_lines(1) == reader.peek_line() == b""


@pytest.mark.parametrize(("patience", "expected"), [(60, [b"a\nb\n"]), (0, [b"a\n", b"b\n"])])
def test_lines_wait_for_those_that_come_soon_after(monkeypatch, patience, expected):
    monkeypatch.setattr(lines, "PATIENCE", patience)
    source, target = map(open, os.pipe(), ("rb", "wb"))
    with source, target:
        reader = LineReader(source, "x")
        reader.answer_at_once()
        target.write(b"a\n")
        target.flush()
        assert reader.peek_line() == b"a\n"
        assert not reader.waits()

        def write_more():
            target.write(b"b\n")
            target.close()

        if not patience:
            assert reader.read_lines(9) == expected.pop(0)
            assert reader.waits()
        timer = threading.Timer(0.05, write_more)
        timer.start()
        assert reader.read_lines(9) == expected.pop(0)
        assert (reader.read_lines(9), reader.waits()) == (b"", False)
        timer.join()
