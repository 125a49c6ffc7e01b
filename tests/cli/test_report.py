"""`xmlgp report`: one page that needs nothing else, and its errors."""

import json
import re
import sys
from html.parser import HTMLParser

import xmlgp
from tests.cli.command import SMALL, changed_description, run, said
from tests.cli.texts import documents
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset


class Page(HTMLParser):
    """Collects the texts of a page, and checks that every element is closed and that nothing is loaded."""

    VOID = ("meta", "br")

    def __init__(self, html):
        super().__init__()
        self.open, self.rows, self.texts = [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert tag not in ("script", "link", "img", "iframe")
        assert not {"src", "href"} & {name for name, _ in attributes}
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open and self.open[-1] not in ("style", "table", "tbody", "thead") and text.strip():
            self.texts.append(" ".join(text.split()))
            if "tr" in self.open:
                self.rows[-1].append(self.texts[-1])


def test_the_limit_of_precision_is_on_the_page(text_model, workdir):
    lines = [json.dumps(row | {"labels": row["labels"][:1]}) + "\n" for row in documents(30, 1)]
    (workdir / "new.jsonl").write_text("".join(lines))
    limit = "points have few labels (1.00 on average), so P@3 is at most 33.3 %, P@5 is at most 20.0 %"
    assert ["limits", limit] in Page(xmlgp.report("model", "new.jsonl")).rows
    # The documents of training have up to three labels.
    assert not [row for row in Page(xmlgp.report("model", "train.jsonl")).rows if row[0] == "limits"]


def test_a_page_about_documents(text_model, workdir):
    added = [{"id": "<script>", "text": "<b>& red</b>", "labels": ["the blue", "unknown <i>"]}]
    (workdir / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents(30, 1) + added))
    result = run("report", "model", "new.jsonl", "--title", "A & B <")
    assert (result.exit_code, result.output) == (0, "report.html\n")
    html = (workdir / "report.html").read_text(encoding="utf-8")
    page = Page(html)
    assert page.texts[0] == "A & B <"
    assert page.rows[0] == ["model", "model (mlgpf)"]
    assert page.rows[1][1].startswith("60 points, ")
    rows = [["test data", "new.jsonl"], ["test points", "31"]]
    assert all(row in page.rows for row in [*rows, ["unknown labels", "1 of the test data, which count as missed"]])
    measures = {row[0]: row[1::2] for row in page.rows if row[0] in ("P", "nDCG", "PSP", "recall", "macro-F1")}
    run("predict", "-q", "model", "new.jsonl", "-k", "5", "-o", "answers.jsonl")
    expected = xmlgp.evaluate("answers.jsonl", "new.jsonl", train="model", measures=["macro"]).measures
    assert measures == {name: [f"{expected[f'{name}@{k}']:.2f}" for k in (1, 3, 5)] for name in measures}
    assert len(measures) == 5
    # The labels of the page add up to those that were listed and true.
    bins = [row for row in page.rows if re.fullmatch(r"\d+ to \d+ %", row[0])]
    assert sum(int(row[1]) for row in bins) == 31 * 5
    assert "unknown <i>" in page.texts
    # A document whose first label is wrong is shown with its text.
    assert {"<script>", "<b>& red</b>"} <= set(page.texts)
    assert run("report", "-q", "model", "new.jsonl", "--title", "A & B <", "-o", "-").stdout == html


def test_points_without_labels_are_one_number_everywhere(text_model, workdir):
    rows = [*documents(30, 1), *({**row, "labels": []} for row in documents(20, 2))]
    (workdir / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = Page(xmlgp.report("model", "new.jsonl"))
    assert ["test points", "50, of which 20 without labels count as missed"] in page.rows
    # The measures and the table of probabilities have the same true labels among the first five of the same points.
    bins = [row for row in page.rows if re.fullmatch(r"\d+ to \d+ %", row[0])]
    share = sum(int(row[1]) * float(row[3]) for row in bins) / 50 / 5
    (precision,) = (float(row[5]) for row in page.rows if row[0] == "P")
    assert abs(precision - 100 * share) < 0.1
    assert precision < 30


def test_a_page_about_rows(model, workdir):
    write_dataset("data/test.txt", small_dataset(seed=7).rows(slice(0, 30)))
    assert run("report", "model", "data", "-q").exit_code == 0
    page = Page((workdir / "report.html").read_text(encoding="utf-8"))
    assert ["test data", "data/test.txt"] in page.rows
    assert xmlgp.report("model", "data") == xmlgp.report(xmlgp.load("model"), "data")


def test_a_model_without_counts_has_no_propensity_scored_measures(trained, workdir):
    trained("rows alone", "data", "model", *SMALL, "--label-weights", "--no-neighbours")

    def without_counts(description):
        for name in ("parameters.statistics.labels", "parameters.statistics.features"):
            description["arrays"].pop(name, None)

    changed_description("model", without_counts)
    assert not [row for row in Page(xmlgp.report("model", "data")).rows if row[0] == "PSP"]


def test_what_cannot_be_reported_is_refused(model, workdir, monkeypatch):
    write_dataset("one.txt", small_dataset(K=1))
    assert run("train", "-q", "one.txt", "one", *SMALL).exit_code == 0
    assert said(run("report", "one", "one.txt")).endswith("two labels or more, but this one has 1 label")
    assert said(run("report", "model", "one.txt")) == "one.txt has 1 label, but the model was trained on 7"
    result = run("report", "model", "data", "-o", "data/test.txt")
    assert said(result, 2).startswith("The output data/test.txt is the same file as the input")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert said(run("report", "model", "data")) == "reports need Jinja2: pip install 'xmlgp[report]'"
