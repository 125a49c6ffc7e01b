"""Untrusted text and values in messages."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.problems import DETERMINISTIC
from xmlgp.runtime.untrusted_text import MAX_EXCERPT, ForTerminal, escape, excerpt, quote, visible

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=100) | st.dates() | st.binary(),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=9),
    max_leaves=30,
)


@pytest.mark.parametrize("value", [None, True, 3, -2.5, float("nan"), "a b", "a\nb", [], {}, [1, "x"], {"a": [None]}])
def test_excerpts_of_short_values_are_their_repr(value):
    assert excerpt(value) == repr(value)


@DETERMINISTIC
@given(VALUES)
def test_excerpts_are_one_short_printable_line(value):
    assert excerpt(value).isprintable()
    assert len(excerpt(value)) <= MAX_EXCERPT


def test_excerpts_of_huge_values_are_fast():
    bomb = ["x"] * 10
    for _ in range(100):
        bomb = [bomb] * 10
    assert excerpt(bomb).startswith("[[[[[[[...], [...], ")
    assert excerpt(10**5000) == excerpt({"a": -(10**5000)}) == "a number of thousands of digits"
    loop = []
    loop.append(loop)
    assert excerpt(loop).startswith("[[[")


@pytest.mark.parametrize(("text", "expected"), [("a\x1b[2J\n", r"a\u001b[2J\n"), ("x" * 60_000, "x" * 200)])
def test_escaped_text_is_one_short_line(text, expected):
    assert escape(text) == expected


@pytest.mark.parametrize(
    ("token", "expected"), [(b"1:x", "'1:x'"), (b"\xff\x00", repr("\\xff\x00")), (b"x" * 31, f"'{'x' * 30}...'")]
)
def test_quoted_bytes_are_printable_and_short(token, expected):
    assert quote(token) == expected


#: Characters that act on the text around, and how they are shown.
HIDDEN = {"\u202e": r"\u202e", "\x1b": r"\u001b", "\x9b": r"\u009b", "\ufeff": r"\ufeff", "\n": r"\n"}


@pytest.mark.parametrize("character", HIDDEN)
def test_what_acts_on_the_text_around_is_visible(character):
    assert visible(f"a{character}b") == f"a{HIDDEN[character]}b"
    assert json.loads(f'"{visible(character)}"') == character


@pytest.mark.parametrize("text", ["été Σ ℓ", "👩\u200d💻", "می\u200cخواهم", "a\xa0b"])
def test_other_text_is_visible_as_it_is(text):
    assert visible(text) == text


def test_a_terminal_gets_lines_and_tabs_as_they_are_and_bytes_of_other_encodings():
    stream = io.BytesIO()
    terminal = ForTerminal(stream)
    content = "a\tb\n\u202e\x1b".encode() + b"\xe9\n"
    assert terminal.write(memoryview(content)) == len(content)
    terminal.flush()
    assert stream.getvalue() == b"a\tb\n\\u202e\\u001b\xe9\n"
