"""The examples on every page run as they are printed, and print what the page shows."""

import contextlib
from urllib.request import urlopen

import pytest

from tests.docs.pages import PAGES, blocks_of, name_of
from tests.docs.running import Shown, is_as_shown, make_environment, missing_for, run_page
from tests.serving.toy import make_model

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
    "docs/serve.md",
    "docs/text.md",
)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=name_of(page),
            # A page may start a dozen processes, which take longer on a busy machine.
            marks=[pytest.mark.exhaustive, pytest.mark.timeout(170)] if name_of(page) in LONG else [],
        )
        for page in WITH_EXAMPLES
    ],
)
def test_examples_of_a_page_run_and_print_what_it_shows(page, tmp_path, environment, shared):
    text = page.read_text(encoding="utf-8")
    if missing := missing_for(text):
        pytest.skip(missing)
    with contextlib.closing(run_page(text, tmp_path, environment, shared)) as commands:
        for shown in commands:
            place = f"{name_of(page)}:{shown.line}"
            assert is_as_shown(shown), f"{place}: {shown.command}\n{shown.printed}\nRun `python -m tests.docs`."


def test_a_server_of_a_page_has_a_free_port_and_ends_with_the_page(tmp_path, environment, shared):
    pytest.importorskip("uvicorn", reason="Uvicorn is not installed: pip install '.[serve]'")
    folder = tmp_path / "page"
    make_model(folder / "models" / "desk")
    line = "listening on http://127.0.0.1:8081 with desk; stop with Ctrl-C\n"
    python = "from urllib.request import urlopen\nurl = 'http://127.0.0.1:8081/healthz'\nopen('url', 'w').write(url)\n"
    text = (
        f"```console\n$ xmlgp serve models/desk --port 8081 &\n{line}$ cat url\nhttp://127.0.0.1:8081/healthz\n```\n"
        f"```python\n{python}assert urlopen(url, timeout=60).status == 200\n```\n"
    )
    (folder / "url").write_text("http://127.0.0.1:8081/healthz")
    with contextlib.closing(run_page(text, folder, environment, shared)) as commands:
        assert all(is_as_shown(shown) for shown in commands)
    url = (folder / "url").read_text()
    assert url != "http://127.0.0.1:8081/healthz"
    with pytest.raises(OSError, match="refused"):
        urlopen(url, timeout=60)


def test_a_server_of_a_page_that_does_not_start_is_a_failure(tmp_path, environment, shared):
    pytest.importorskip("uvicorn", reason="Uvicorn is not installed: pip install '.[serve]'")
    with pytest.raises(AssertionError, match="models/none"):
        list(run_page("```sh\nxmlgp serve models/none &\n```\n", tmp_path, environment, shared))


def test_scores_and_measures_are_compared_and_integers_and_times_are_not():
    expected = "5 epochs in 2.5 s, bound -12582.1\n17:0.22 10:0.194\n"
    assert is_as_shown(Shown(1, "", expected, "6 epochs in 9.75 s, bound -12600\n10:0.217 17:0.195\n"))
    assert not is_as_shown(Shown(1, "", expected, expected.replace("0.194", "0.202")))
    assert not is_as_shown(Shown(1, "", expected, expected.replace("12582.1", "12000")))
    assert not is_as_shown(Shown(1, "", expected, expected.replace("bound", "log posterior")))


def test_few_examples_are_not_run():
    # This page is about what changes a machine: `make install-test` tries what it says.
    pages = [page for page in WITH_EXAMPLES if page.name != "install.md"]
    blocks = [block for page in pages for block in blocks_of(page.read_text(encoding="utf-8"))]
    assert len(blocks) > 30
    # Those of docs/distributed.md need several machines, and those of docs/serve.md change one.
    assert sum(block.reason is not None for block in blocks) <= 15
