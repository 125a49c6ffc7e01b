"""The list of mutants fits the code, so that `make mutants` can run at any time."""

import re

from tests.mutants import MUTANTS, PROJECT, misfit


def test_every_mutant_fits_the_code():
    assert [text for text in map(misfit, MUTANTS) if text] == []


def test_names_of_mutants_are_unique():
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names))


def test_the_page_of_results_has_every_mutant():
    page = (PROJECT / "docs" / "development" / "mutants.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE) == [mutant.name for mutant in MUTANTS]


def test_a_mutant_that_does_not_fit_the_code_is_reported():
    mutant = MUTANTS[0]
    assert "there is no xmlgp/none.py" in misfit(mutant._replace(file="xmlgp/none.py"))
    assert "0 times, not once" in misfit(mutant._replace(old="no such text"))
    assert "does not compile" in misfit(mutant._replace(new="("))
    assert "no tests tests/none.py" in misfit(mutant._replace(tests=("tests/none.py",)))
