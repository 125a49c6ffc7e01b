"""`xmlgp search`: what it prints, what it writes, and how it resumes."""

import json
import signal

import pytest

from tests.cli.command import run
from xmlgp.runs import race
from xmlgp.runtime.interrupts import Interrupted

#: A search that takes a second.
QUICK = ["search", "data", "--model", "bmlpl", "-T", "3", "--iterations", "9", "--metric", "p@1", "--folds", "3"]


def test_the_table_has_a_row_for_each_settings_and_notes_say_what_they_are_worth(workdir):
    result = run(*QUICK, "out", "--set", "weighting=unit,none")
    assert result.exit_code == 0
    heads, *rows = result.stdout.splitlines()
    assert heads.split() == ["settings", "P@1", "difference", "folds", "training"]
    assert sorted(row.split()[0] for row in rows) == ["default", "weighting=none", "weighting=unit"]
    assert len({len(row) for row in [heads, *rows]}) == 1
    worth = result.stderr.splitlines()[-1]
    assert "the default" in worth
    assert (workdir / "out" / "recipe.yaml").read_text().splitlines()[0] == f"# xmlgp search: {worth}"
    answer = json.loads(run(*QUICK, "out", "--set", "weighting=unit,none", "--json").stdout)
    assert [row["name"] for row in answer["rows"]] == [row.split()[0] for row in rows]
    assert (answer["metric"], answer["worth"]) == ("P@1", worth)
    shown = answer["rows"][0]
    assert shown["settings"]["model"] == "bmlpl"
    assert shown["difference"]["a"] == shown["value"]
    assert f"{shown['value']:.2f} [{shown['interval'][0]:.2f}, {shown['interval'][1]:.2f}]" in rows[0]


def test_an_interruption_says_how_to_resume(workdir, monkeypatch):
    def interrupted(*arguments, **options):
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr(race, "train", interrupted)
    for out, advice in ((["out"], "; resume with `xmlgp search data"), ([], "")):
        result = run(*QUICK, *out, "--set", "weighting=unit")
        assert result.exit_code == 130
        assert f"interrupted; stopped after 0 of 6 trainings{advice}" in result.stderr
        assert ("resume" in result.stderr) == bool(advice)


@pytest.mark.parametrize("command", ["train", "preprocess"])
def test_commands_take_a_recipe_file_which_options_override(workdir, command):
    (workdir / "mine.yml").write_text("settings: {factors: 3, epochs: 1, inducing_count: 7, batch_size: 16}\n")
    assert run(command, "data", "model", "--recipe", "mine.yml", "--seed", "4").exit_code == 0
    settings = json.loads(run("show", "model", "--json").stdout)["settings"]
    chosen = {name: settings[name] for name in ("factors", "epochs", "inducing_count", "seed")}
    assert chosen == {"factors": 3, "epochs": 1, "inducing_count": 7, "seed": 4}
