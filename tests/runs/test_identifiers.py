"""Points of two files are matched by identifiers, however these are written, and never by order without a word."""

import unicodedata

import pytest

from xmlgp.errors import SettingsError
from xmlgp.runs.identifiers import IdentifiedPoints, canonical_identifier, matched_rows


def matched(own, wanted, numbered=True, N=3):
    """Return the rows and the notes; identifiers of None are those of N points."""
    notes = []
    points = [IdentifiedPoints(name, ids, N if ids is None else len(ids)) for name, ids in (("p", own), ("t", wanted))]
    return matched_rows(*points, numbered, notes.append), notes


COMPARED = "identifiers are compared without blanks, leading zeros and decimal zeros: "
BY_ORDER = ", so points are matched by their order"
NONE = [None] * 3


@pytest.mark.parametrize(
    ("own", "wanted", "rows", "note"),
    [
        # The same identifiers, as text in one file and as numbers in the other.
        (["x", "y", "z"], ["z", "x", "y"], [2, 0, 1], None),
        ([1, 2, 3], ["3", "1", "2"], [2, 0, 1], None),
        (["x", "x", "y"], ["x", "x", "y"], None, None),
        (["x", None, "z"], ["x", "", "z"], None, None),
        (["x", 2, "z"], ["z", "x", None], None, "error: p has no labels of '3', a point of t"),
        # A spreadsheet or pandas made numbers of those of one file.
        ([1, 2, 3], ["003", "001", "002"], [2, 0, 1], f"{COMPARED}'3' of p is '003' of t"),
        (["010", "007", "2"], ["2.0", "7.0", "10.0"], [2, 1, 0], f"{COMPARED}'2' of p is '2.0' of t"),
        (["1e3", "2.50", "x "], ["x", "1000", "2.5"], [2, 0, 1], f"{COMPARED}'x ' of p is 'x' of t"),
        (["é", "b", "c"], ["c", "b", "e\u0301"], [2, 1, 0], f"{COMPARED}'é' of p is 'e\u0301' of t"),
        (["1", "01", "x"], ["x", "001", "y"], None, "error: p has no labels of '001', a point of t"),
        (["1", "1.0", "z"], ["1.00", "01", "y"], None, "error: p and t have no identifier in common, such as '1' and "),
        (["1", "2", "9"], ["02", "01", "03"], None, "error: p has no labels of '03', a point of t"),
        # On one side only, or on neither.
        (None, ["x", "y", "z"], None, f"p has no identifiers, but t has, such as 'x'{BY_ORDER}"),
        (None, ["1", "2", "3"], None, None),
        (None, NONE, None, None),
        (["x", "y", "z"], NONE, None, f"p has identifiers, but t has none{BY_ORDER}"),
        (["x", "y", "z"], ["", " ", ""], None, f"p has identifiers, but t has none{BY_ORDER}"),
        (["x", "y", "z"], None, None, f"p has identifiers, but t has none{BY_ORDER}"),
        # Numbers of rows.
        ([1, 2, 3], NONE, None, None),
        ([0, 1, 2], NONE, None, None),
        ([0, 1, 2], ["1", "2", "3"], None, None),
        ([1, 2, 3], ["0", "1", "2"], None, None),
        ([3, 1, 2], NONE, [1, 2, 0], None),
        (["003", "001", "002"], NONE, [1, 2, 0], f"{COMPARED}'001' of p is '1' of t"),
        ([2, 0, 1], NONE, [1, 2, 0], "p counts points from 0, so 0 is the first point of t"),
        ([1, 2, 3], ["x", "y", "z"], None, f"p counts points, but t has identifiers such as 'x'{BY_ORDER}"),
        ([1, 2, 3], ["4", "3", "2"], None, f"p counts points, but t has identifiers such as '4'{BY_ORDER}"),
        (["1.0", "2.0", "3.0"], ["2", "3", "4"], None, f"p counts points, but t has identifiers such as '4'{BY_ORDER}"),
        (["x", "y", "z"], ["1", "2", "3"], None, f"p has identifiers such as 'x', but t counts points{BY_ORDER}"),
        # Other numbers of points.
        (["w", "x", "y", "z"], ["z", "x"], [3, 1], "p: 2 of 4 points are not in t and left out"),
        ([1, 2, 3, 4], NONE, [0, 1, 2], "p: 1 of 4 points are not in t and left out"),
        ([0, 1, 2, 3], NONE, [0, 1, 2], "p: 1 of 4 points are not in t and left out"),
        (["x", "y"], ["x", "y", "z"], None, "error: p has no labels of 'z', a point of t"),
        ([1, 2], ["x", "y", "z"], None, "error: p has no labels of 'x', a point of t"),
        ([1, 2], NONE, None, None),  # the numbers of points are compared later
        # Twice, or others.
        (["x", "y", "x"], ["y", "x", "x"], None, "error: p has 'x' twice"),
        (["x", "y", "z"], ["y", "x", "x"], None, "error: t has 'x' twice; --merge-ids makes one document of rows"),
        (["x", "y", "z"], ["a", "b", "c"], None, "error: p and t have no identifier in common, such as 'x' and 'a'; "),
    ],
)  # fmt: skip
def test_points_are_matched_refused_or_noted(own, wanted, rows, note):
    if note and note.startswith("error: "):
        with pytest.raises(SettingsError) as caught:
            matched(own, wanted)
        assert str(caught.value).startswith(note.removeprefix("error: "))
        return
    found, notes = matched(own, wanted)
    assert found == rows
    assert notes[-1:] == ([note] if note else [])


def test_labels_in_memory_have_the_order_of_what_was_predicted():
    for own in [3, 1, 2], [2, 0, 1]:
        assert matched(own, None, numbered=False) == (None, [f"p has identifiers, but t has none{BY_ORDER}"])
    assert matched([0, 1, 2], None, numbered=False) == (None, [])


def test_identifiers_have_one_form():
    forms = {
        "1": ["1", "01", "1.0", " 1 ", "+1", "1.", "1e0", "0.1e1"],
        "1000": ["1e3", "1000.00", "1E+3"],
        "0": ["0", "-0", "000", "0.0"],
        "-7.5": ["-7.50", "-007.5"],
        "1.a": ["1.a"],
        "é": [unicodedata.normalize("NFD", "é")],
        "9" * 98: ["9" * 98 + ".0"],
    }
    for expected, written in forms.items():
        assert list(map(canonical_identifier, written)) == [expected] * len(written)
    assert canonical_identifier("0" + "9" * 5000) == "0" + "9" * 5000
