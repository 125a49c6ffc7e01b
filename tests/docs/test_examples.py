"""The examples on every page run as they are printed, and print what the page shows."""

import pytest

from tests.docs.pages import PAGES, blocks_of, name_of
from tests.docs.running import make_environment, run_page, without_numbers

WITH_EXAMPLES = [page for page in PAGES if blocks_of(page.read_text(encoding="utf-8"))]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return make_environment(tmp_path_factory.mktemp("environment"))


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_examples_of_a_page_run_and_print_what_it_shows(page, tmp_path, environment, shared):
    for shown in run_page(page.read_text(encoding="utf-8"), tmp_path, environment, shared):
        same = without_numbers(shown.printed) == without_numbers(shown.expected)
        assert same, f"{name_of(page)}:{shown.line}: {shown.command}\n{shown.printed}\nRun `python -m tests.docs`."


def test_few_examples_are_not_run():
    blocks = [block for page in WITH_EXAMPLES for block in blocks_of(page.read_text(encoding="utf-8"))]
    assert len(blocks) > 30
    assert sum(block.reason is not None for block in blocks) <= 5
