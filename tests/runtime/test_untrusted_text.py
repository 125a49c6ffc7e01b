"""Excerpts: like Python's own text of a value where that is short, and short where it is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.problems import STEADY
from xmlgp.runtime.untrusted_text import LONGEST, escape, excerpt

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=100) | st.dates() | st.binary(),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=9),
    max_leaves=30,
)


@pytest.mark.parametrize("value", [None, True, 3, -2.5, float("nan"), "a b", "a\nb", [], {}, [1, "x"], {"a": [None]}])
def test_what_is_short_is_shown_as_python_does(value):
    assert excerpt(value) == repr(value)


@STEADY
@given(VALUES)
def test_everything_is_one_short_line(value):
    assert excerpt(value).isprintable()
    assert len(excerpt(value)) <= LONGEST


def test_what_is_too_large_to_be_written_is_not():
    bomb = ["x"] * 10
    for _ in range(100):
        bomb = [bomb] * 10
    assert excerpt(bomb).startswith("[[[[[[[...], [...], ")
    assert excerpt(10**5000) == "a number of 16610 bits"
    assert excerpt({"a": -(10**5000)}) == "{'a': a number of 16610 bits}"
    loop = []
    loop.append(loop)
    assert excerpt(loop).startswith("[[[")


@pytest.mark.parametrize(
    ("text", "expected"), [("a\x1b[2J\n", r"a\x1b[2J\n"), ("x" * 200, "x" * 200), ("x" * 60_000, "x" * 200 + "…")]
)
def test_escaped_text_is_printable_and_short(text, expected):
    assert escape(text) == expected
