"""`xmlgp topics`: its output, label names and errors."""

import json
from pathlib import Path

import pytest

from tests.cli.command import run, said
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.trained_model import open_topics

NAMES = ["graph theory", "Zürich", "\u202egnp.exe", "", "a b", "機械学習", "line\u2028end"]


@pytest.fixture(autouse=True)
def _names(topics):
    """Write the label names."""
    Path("names.txt").write_text("".join(f"{name}\n" for name in NAMES), encoding="utf-8")


def printed(*arguments):
    """Return the output of a successful run."""
    result = run("topics", "model", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.parametrize(("options", "count"), [(["--top", "3"], 3), ([], 5), (["--top", "99"], 7)])
def test_each_topic_is_a_block_of_labels_and_weights_without_noise(options, count):
    expected = []
    left_out = 0
    for topic in open_topics(ModelFolder("model"), top=count):
        expected.append(f"topic {topic.number} ({100 * topic.share:.2f} %)")
        rows = [f"  {weight:.4f}  {label}" for label, weight in zip(topic.labels, topic.weights, strict=True)]
        large = [row for row, weight in zip(rows, topic.weights, strict=True) if weight >= topic.weights[0] / 100]
        left_out += len(rows) - len(large)
        expected += large
    assert printed(*options).splitlines() == expected
    # The model has such labels, and programs get them.
    assert left_out or count == 3
    assert [len(topic["labels"]) for topic in json.loads(printed(*options, "--json"))] == [count] * 4


def test_more_topics_than_a_person_reads_are_joined():
    whole = json.loads(printed("--json", "--top", "7"))
    joined = json.loads(printed("--groups", "2", "--json", "--top", "7"))
    assert [topic["joined"] for topic in whole] == [[topic["topic"]] for topic in whole]
    assert sorted(sum((topic["joined"] for topic in joined), [])) == [0, 1, 2, 3]
    assert sum(topic["share"] for topic in joined) == pytest.approx(1)
    lines = [line for line in printed("--groups", "2").splitlines() if line.startswith("topic")]
    others = [len(topic["joined"]) - 1 for topic in joined]
    for line, topic, count in zip(lines, joined, others, strict=True):
        words = f", joined with {count} similar one{'s' if count > 1 else ''}" if count else ""
        assert line == f"topic {topic['topic']}{words} ({100 * topic['share']:.2f} %)"
    assert printed("--groups", "2", "--separate") == printed()


def test_label_names_follow_the_labels_and_invisible_characters_are_escaped():
    shown = [*NAMES[:2], r"\u202egnp.exe", *NAMES[3:6], r"line\u2028end"]
    lines = printed("--label-names", "names.txt").splitlines()
    for line, without in zip(lines, printed().splitlines(), strict=True):
        name = shown[int(without.split()[1])] if without.startswith(" ") else ""
        assert line == (f"{without}  {name}" if name else without)
    text = printed("--label-names", "names.txt", "--json")
    assert text.isascii()
    labels = [label for topic in json.loads(text) for label in topic["labels"]]
    assert [label["name"] for label in labels] == [NAMES[label["label"]] for label in labels]


def test_errors_in_label_names_are_reported_in_one_line(workdir):
    (workdir / "names.txt").write_bytes(b"a\nb\n\x1b]0;gotcha\x07\nd\ne\nf\ng\n")
    message = said(run("topics", "model", "--label-names", "names.txt"))
    assert message == "names.txt:3: U+001B at column 1 is a control character"
    assert said(run("topics", "model", "--label-names", "data")) == "data: Is a directory"
