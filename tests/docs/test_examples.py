"""The examples of all pages run, and print what the pages show."""

import pytest

from tests.docs.pages import PAGES, blocks_of, name_of
from tests.docs.running import make_environment, run_page, words_of

#: The examples of one page need files, which tests/docs/test_other_tools.py makes.
WITH_EXAMPLES = [
    page
    for page in PAGES
    if page.stem != "other-tools" and any(not block.reason for block in blocks_of(page.read_text(encoding="utf-8")))
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name_of)
def test_examples_run_and_print_what_the_page_shows(page, tmp_path):
    folder = tmp_path / "page"
    folder.mkdir()
    run_page(page.read_text(encoding="utf-8"), folder, make_environment(tmp_path))


def test_examples_that_fail_or_print_something_else_are_found(tmp_path):
    environment = make_environment(tmp_path)
    for number, block in enumerate(("sh\nfalse\n", "console\n$ echo one\ntwo\n")):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(AssertionError, match="line 1"):
            run_page(f"```{block}```\n", folder, environment)


def test_numbers_may_differ_and_words_may_not():
    assert words_of("P@1  61.2% in 2.5 s\n") == words_of("P@1 60.9% in 12 s")
    assert words_of("bound -3") != words_of("log posterior -3")
