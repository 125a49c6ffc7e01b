"""The examples on every page run as they are printed, and print what the page shows."""

import pytest

from tests.docs.pages import PAGES, blocks_of, name_of
from tests.docs.running import Shown, is_as_shown, make_environment, run_page

WITH_EXAMPLES = [page for page in PAGES if blocks_of(page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return make_environment(tmp_path_factory.mktemp("environment"))


#: Pages whose examples train several models; tests of commands have the options in which they differ from other pages.
LONG = (
    "README.md",
    "docs/distributed.md",
    "docs/evaluation.md",
    "docs/learning.md",
    "docs/models/bmlpl.md",
    "docs/models/gpc.md",
    "docs/models/mlgpf.md",
    "docs/python/index.md",
    "docs/quickstart.md",
    "docs/text.md",
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=pytest.mark.exhaustive if name_of(page) in LONG else [])
        for page in WITH_EXAMPLES
    ],
)
def test_examples_of_a_page_run_and_print_what_it_shows(page, tmp_path, environment, shared):
    for shown in run_page(page.read_text(encoding="utf-8"), tmp_path, environment, shared):
        place = f"{name_of(page)}:{shown.line}"
        assert is_as_shown(shown), f"{place}: {shown.command}\n{shown.printed}\nRun `python -m tests.docs`."


def test_scores_and_measures_are_compared_and_integers_and_times_are_not():
    expected = "5 epochs in 2.5 s, bound -12582.1\n17:0.22 10:0.194\n"
    assert is_as_shown(Shown(1, "", expected, "6 epochs in 9.75 s, bound -12600\n10:0.217 17:0.195\n"))
    assert not is_as_shown(Shown(1, "", expected, expected.replace("0.194", "0.202")))
    assert not is_as_shown(Shown(1, "", expected, expected.replace("12582.1", "12000")))
    assert not is_as_shown(Shown(1, "", expected, expected.replace("bound", "log posterior")))


def test_few_examples_are_not_run():
    blocks = [block for page in WITH_EXAMPLES for block in blocks_of(page.read_text(encoding="utf-8"))]
    assert len(blocks) > 30
    # Those of docs/distributed.md need several machines.
    assert sum(block.reason is not None for block in blocks) <= 9
