"""`xmlgp evaluate MODEL DATA`: models in place of scores."""

import json
from pathlib import Path

import pytest

from tests.cli import command
from tests.cli.command import said


def run(*arguments, stdin=None):
    return command.run("evaluate", *arguments, stdin=stdin)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder with two models of texts and the texts, whose columns only the first model knows."""
    folder = tmp_path_factory.mktemp("models")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = ["red", "blue", "green"]
        rows = [f"{words[i % 3]} {words[i // 3 % 3]},{words[i % 3]}" for i in range(60)]
        Path("own.csv").write_text("\n".join(["body,tags", *rows]) + "\n")
        columns = ["--text-column", "body", "--label-column", "tags"]
        for name, epochs in ("a", "3"), ("b", "1"):
            assert command.run("train", "-q", "own.csv", name, *columns, "--epochs", epochs).exit_code == 0
    return folder


def test_a_model_is_evaluated_as_what_it_predicts(models, monkeypatch):
    monkeypatch.chdir(models)
    assert command.run("predict", "-q", "a", "own.csv", "-k", "3", "-o", "a.jsonl").exit_code == 0
    by_hand = run("a.jsonl", "own.csv", "--train", "a", "--calibration", "--json")
    result = run("a", "own.csv", "--calibration", "--json")
    assert (result.exit_code, by_hand.exit_code) == (0, 0)
    expected, found = ({**json.loads(one.stdout), "intervals": 0} for one in (by_hand, result))
    assert found == pytest.approx(expected, rel=1e-5)
    assert found["PSP@1"] > 0
    assert run("a", "own.csv", "--assigned").stdout.startswith("precision_micro ")


def test_two_models_are_compared(models, monkeypatch):
    monkeypatch.chdir(models)
    result = run("a", "b", "own.csv", "-k", "1")
    assert result.exit_code == 0
    assert result.stdout.startswith("A  a\nB  b\n")
    assert run("a", "a", "own.csv").stdout.endswith("No difference is certain: chance makes differences as large.\n")


def test_a_model_is_not_evaluated_on_standard_input(models, monkeypatch):
    monkeypatch.chdir(models)
    message = "A model is evaluated on a file, which is read twice; write standard input to a file first."
    assert said(run("a", "-", stdin=Path("own.csv").read_text()), status=2) == message
