"""`xmlgp report`: the files it accepts, its notes and its errors."""

import sys
from pathlib import Path

import pytest

from tests.cli.command import changed_description, run, said
from tests.cli.texts import as_json, documents
from tests.problems import small_dataset
from tests.report.test_page import Parsed
from xmlgp.data.repository_format import write_dataset
from xmlgp.errors import SettingsError


@pytest.fixture(autouse=True)
def _test_data(request):
    if "text_model" in request.fixturenames:
        return
    request.getfixturevalue("model")
    write_dataset("data/test.txt", small_dataset(seed=7).rows(slice(0, 30)))


def parsed(file="report.html"):
    with open(file, encoding="utf-8") as stream:
        return Parsed(stream.read())


def facts_of(page):
    terms, values = ([text for _, text in page.of(tag)] for tag in ("dt", "dd"))
    return dict(zip(terms, values, strict=True))


def test_a_folder_of_training_and_test_data(tmp_path):
    result = run("report", "model", "data")
    assert (result.exit_code, result.output) == (0, "report.html\n")
    page = parsed()
    facts = facts_of(page)
    assert facts["Model"] == "model (mlgpf)"
    assert facts["Test data"] == "data/test.txt"
    assert (facts["Test documents"], facts["Training documents"], facts["Labels"]) == ("30", "40", "7")
    names = [text for attributes, text in page.of("span") if attributes.get("class") == "name"]
    assert names[:7] == ["P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5"]
    run("report", "model", "data", "-o", "again.html")
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "report.html").read_bytes()


def without_counts(description):
    for name in "labels", "features":
        del description["arrays"][f"parameters.statistics.{name}"]


def test_a_model_without_counts_needs_training_data():
    changed_description("model", without_counts)
    note = "Without training data, labels are grouped by their frequency in the test data, and there is no PSP\n"
    result = run("report", "model", "data/test.txt")
    assert (result.exit_code, result.stderr) == (0, note)
    assert run("report", "-q", "model", "data/test.txt", "-o", "-").stderr == ""
    assert "PSP" not in " ".join(text for _, text in parsed().of("span"))
    line = said(run("report", "model", "data/test.txt", "--train", "model"))
    assert line == "model has no counts of its labels; give the training data"
    result = run("report", "model", "data/test.txt", "--train", "data/train.txt")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "PSP@1" in " ".join(text for _, text in parsed().of("span"))


def test_the_counts_are_those_of_all_documents_that_the_model_knows(text_model):
    fresh = documents(30, 1)
    Path("more.jsonl").write_text(as_json(fresh))
    Path("all.jsonl").write_text(as_json([*documents(60, 0), *fresh]))
    assert run("learn", "model", "more.jsonl", "-q").exit_code == 0
    pages = [
        run("report", "model", "new.jsonl", "-o", "-", *train).stdout
        for train in ([], ["--train", "model"], ["--train", "all.jsonl"], ["--train", "train.jsonl"])
    ]
    assert "PSP@1" in pages[0]
    assert pages[0] == pages[1] == pages[2] != pages[3]
    # By names, and by the numbers of a scores file.
    for scores in "p.jsonl", "p.scores":
        run("predict", "-q", "model", "new.jsonl", "-k", "5", "-o", scores, "--format", scores[2:])
        tables = [
            run("evaluate", "-q", scores, "new.jsonl", "--train", train, "--reliability").stdout
            for train in ("model", "all.jsonl", "train.jsonl")
        ]
        assert "PSP" in tables[0]
        assert tables[0] == tables[1] != tables[2]


def test_points_that_the_model_was_trained_on_are_noted():
    note = "model was trained on these points, so all measures are too high\n"
    warning = "The model was trained on these documents."
    assert run("report", "model", "data/train.txt").stderr == note
    assert warning in [text for _, text in parsed().of("b")]
    # As many points, but others.
    write_dataset("others.txt", small_dataset(seed=7))
    for points in "others.txt", "data/test.txt":
        assert run("report", "model", points).stderr == ""
        assert warning not in [text for _, text in parsed().of("b")]


def test_points_that_the_model_has_learned_are_noted(text_model):
    Path("more.jsonl").write_text(as_json(documents(30, 1)))
    assert run("report", "model", "more.jsonl").stderr == ""
    assert run("learn", "model", "more.jsonl", "-q").exit_code == 0
    note = "model was trained on these points, so all measures are too high\n"
    for points in "train.jsonl", "more.jsonl":
        assert run("report", "model", points).stderr == note


def test_standard_input_and_output():
    stdin = Path("data/test.txt").read_bytes()
    result = run("report", "-q", "model", "-", "-o", "-", "--title", "a <b>title</b>", stdin=stdin)
    page = Parsed(result.stdout)
    assert facts_of(page)["Test data"] == "standard input"
    assert page.of("title")[0][1] == "Report: a <b>title</b>"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 25 6\n0 0:1\n", "test.txt has 6 labels, but the model was trained on 7"),
        ("0 25 7\n", "no document of the test data has a true label, so there is nothing to report"),
        ("2 25 7\n0 0:1\n1 0:x\n", "test.txt:3: 'x' is not a finite decimal number"),
    ],
)
def test_wrong_data_leave_the_old_page(tmp_path, content, message):
    (tmp_path / "test.txt").write_text(content)
    (tmp_path / "report.html").write_text("old")
    assert said(run("report", "-q", "model", "test.txt")) == message
    assert (tmp_path / "report.html").read_text() == "old"
    assert not any(file.name.startswith(".") for file in tmp_path.iterdir())


def test_without_jinja2(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert said(run("report", "model", "data")) == "reports need Jinja2: pip install 'xmlgp[report]'"


def test_a_model_without_explanations_says_why(monkeypatch):
    def check_explainable(self):
        raise SettingsError("its kernel is not linear")

    monkeypatch.setattr("xmlgp.mlgpf.predictor.MLGPFPredictor.check_explainable", check_explainable)
    note = "The report has no words for and against labels: its kernel is not linear\n"
    assert run("report", "model", "data").stderr == note
    assert run("report", "-q", "model", "data").stderr == ""
