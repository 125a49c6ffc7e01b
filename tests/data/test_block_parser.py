"""The fast parser agrees with the strict one, or returns None."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xmlgp.data.block_parser import parse_block
from xmlgp.data.line_parser import parse_lines
from xmlgp.errors import DataFormatError

D, K = 50, 20


def parse_strictly(text, features=D, labels=K):
    try:
        return parse_lines(text, features, labels, "x", 1)
    except DataFormatError:
        return None


def assert_same(actual, expected):
    for found, wanted in (actual.features, expected.features), (actual.labels, expected.labels):
        assert found.shape == wanted.shape
        for name in "data", "indices", "indptr":
            assert getattr(found, name).dtype == getattr(wanted, name).dtype
            assert getattr(found, name).tobytes() == getattr(wanted, name).tobytes()


digits = st.text("0123456789", max_size=20)
decimal = st.builds(
    "{}{}.{}{}".format, st.sampled_from(["", "", "-", "+"]), digits, digits, st.sampled_from(["", "", "e-7"])
)
value = st.one_of(
    decimal,
    digits,
    st.floats(allow_nan=False).map(repr),
    st.floats(width=32).map(lambda x: f"{x:.6f}"),
    st.integers(-(10**17), 10**17).map(str),
)
index = st.one_of(st.integers(0, D + 1).map(str), st.just("00000000000000000007"), digits)
pair = st.builds("{}:{}".format, index, value)
label_list = st.lists(st.integers(0, K).map(str), max_size=4).map(",".join)
line = st.builds(
    lambda labels, pairs, end: " ".join([labels, *pairs]) + end,
    label_list,
    st.lists(pair, max_size=4),
    st.sampled_from(["\n", "\n", " \n", "\r\n", "\t \n"]),
)
noise = st.text("0123456789,:.-+eE \t\r\n\0x\xb2", max_size=40).map(lambda text: text + "\n")


@settings(max_examples=300, deadline=None)
@given(lines=st.lists(st.one_of(line, line, line, noise), max_size=3))
@example(lines=["1\n"])
@example(lines=[" 1:.\n"])
@example(lines=[" 1:-.\n"])
@example(lines=[" 1:1e-5.3\n"])
@example(lines=[" 1:9007199254740993\n"])
@example(lines=[" 1:3.40282356779733661637539395458142568448e38\n"])
def test_both_parsers_agree_on_lines(lines):
    text = "".join(lines).encode()
    fast = parse_block(text, D, K)
    if fast is not None:
        strict = parse_strictly(text)
        assert strict is not None
        assert_same(fast, strict)


def ordinary_lines(form, count=300):
    """Return lines of ordinary data."""
    random = np.random.default_rng(3)
    rows = []
    for _ in range(count):
        labels = random.choice(K, random.integers(4), replace=False)
        columns = random.choice(D, random.integers(9), replace=False)
        pairs = (f" {column}:{form % random.normal()}" for column in columns)
        rows.append(",".join(map(str, labels)) + "".join(pairs) + "\n")
    return "".join(rows).encode()


@pytest.mark.parametrize("form", ["%d", "%.6f", "%.12f", "%.17f", "%g", "%e", "%+.3f"])
def test_ordinary_lines_are_parsed_by_the_fast_parser(form):
    text = ordinary_lines(form)
    fast = parse_block(text, D, K)
    assert fast is not None
    assert_same(fast, parse_strictly(text))


@pytest.mark.parametrize("length", range(1, 17))
def test_integers_of_every_length(length):
    number = "1234567890123456"[-length:]
    for text in (
        f" 7:{number}\n",
        f"1 7:0.{number}\n",
        f"1 7:{number}.5\n",
        f"1 {number.zfill(16)[-2:].zfill(length)}:1\n",
    ):
        assert_same(parse_block(text.encode(), 100, K), parse_strictly(text.encode(), 100))


@pytest.mark.parametrize("text", [b"", b"\n", b" \n", b"\r\n", b"\n\n3\n"])
def test_empty_lines(text):
    assert_same(parse_block(text, D, K), parse_strictly(text))
    assert text.count(b"\n") == parse_block(text, D, K).N


@pytest.mark.parametrize(
    "text",
    [
        b"20\n",
        b" 50:1\n",
        b"1,1\n",
        b" 1:1 1:2\n",
        b" 99999999999999999999:1\n",
        b" 1:1e39\n",
        b" 1:1\r 2:1\n",
        b"1\x002\n",
    ],
)
def test_malformed_lines_are_not_parsed(text):
    assert parse_block(text, D, K) is None
    assert parse_strictly(text) is None
