"""The page of published results is what its command writes, and its rows agree with the catalogue."""

import published
import pytest
from click.testing import CliRunner

from xmlgp.data.catalogue import load_catalogue


@pytest.fixture(autouse=True)
def default_catalogue(monkeypatch):
    monkeypatch.delenv("XMLGP_CATALOGUE", raising=False)


def test_page_is_what_the_command_writes(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(published.PAGE.read_text().split("## toy")[0].replace("| SLEEC *", "| changed"))
    result = CliRunner().invoke(published.main, ["--page", str(page)])
    assert result.exit_code == 0
    assert page.read_text() == published.PAGE.read_text()


def test_rows_are_of_data_sets_of_the_catalogue_and_agree_with_it():
    catalogue = load_catalogue()
    results = published.read_published()
    assert set(results) <= set(catalogue.entries)
    for name, entry in catalogue.entries.items():
        for method, measures in entry.results.get("repository", {}).items():
            expected = [*measures["P"], *measures["nDCG"], *measures["PSP"], *measures["PSnDCG"]]
            rows = [row for row in results[name] if row["method"] == method]
            assert expected in [[float(row[measure]) for measure in published.MEASURES] for row in rows], (name, method)


def row_of(method, mark="*", **values):
    return dict.fromkeys(published.MEASURES, "") | {"method": method, "mark": mark} | values


def test_comparison_names_the_best_row_of_the_same_data():
    ours = dict.fromkeys(published.MEASURES, "50.00")
    low = row_of("low", **dict.fromkeys(published.MEASURES, "49.99"))
    assert published.compare(ours, [low]) == "xmlgp is above every row in all of these measures."
    other = row_of("other data", "♦", **{"P@1": "99.00"})
    high = row_of("high", **{"P@3": "9.00", "PSP@1": "50.00"})
    sentence = published.compare(ours, [low, other, high])
    assert sentence.startswith("xmlgp is above every row in P@1, P@3, P@5, nDCG@3, nDCG@5, PSP@3, ")
    assert sentence.endswith("PSnDCG@5, and not in PSP@1 (high 50.00).")
