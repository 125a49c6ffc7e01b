"""Damaged files: the same twelve of each kind in every run; `make fuzz` tries thousands of random ones."""

import pytest
from hypothesis import strategies as st

from tests.fuzzing.__main__ import KINDS
from tests.fuzzing.hunt import Sample, Violation, hunt


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_damaged_files_are_read_correctly_or_refused_in_one_sentence(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "place").mkdir()
    tally = hunt(kind(tmp_path / "place"), 12, tmp_path / "kept")
    assert tally.tried >= 12
    assert min(tally.read, tally.refused) >= 1


class Picky:
    """A reader that fails on each `!`, which the search must find."""

    name = "picky"

    def __init__(self, folder, original=""):
        self.folder = folder
        contents = st.text("a!b", min_size=1, max_size=40)
        self.samples = contents.map(lambda text: Sample(original, {"odd.txt": text.encode(), "gone.txt": None}))

    def check(self, sample):
        if b"!" in sample.files["odd.txt"]:
            raise ValueError("I do not like it\nat all")
        return sample.files["odd.txt"].startswith(b"a")


def test_the_smallest_file_that_is_handled_incorrectly_is_kept(tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    (whole / "beside.txt").write_text("as it was")
    (whole / "gone.txt").write_text("there before")
    kept = tmp_path / "kept"
    with pytest.raises(Violation) as caught:
        hunt(Picky(tmp_path, "whole"), 100, kept)
    reason, _, where = str(caught.value).partition("; ")
    assert reason == "ValueError: I do not like it"
    assert where == f"the smallest such odd.txt and gone.txt of whole is kept in {kept}"
    assert {file.name: file.read_text() for file in kept.iterdir()} == {"odd.txt": "!", "beside.txt": "as it was"}
