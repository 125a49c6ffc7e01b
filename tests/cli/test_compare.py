"""`xmlgp compare`: its tables, its sentence, its JSON, and files of several programs side by side."""

import json

import pytest

from tests.cli import command
from tests.cli.command import said

#: Four points with labels; `a` is right for three of them and `b` for one.
FILES = {
    "test.txt": "5 2 4\n0 0:1\n1 1:0.5\n3 0:1\n2,3 0:1\n 0:1\n",
    "train.txt": "7 2 4\n0,1 0:1\n0,1 0:1\n0 1:1\n0,2 1:1\n 0:1\n3 1:1\n 0:1\n",
    "a.scores": "5 4\n0:0.9 1:0.8\n1:0.5 0:0.4\n3:1\n0:0.5 2:0.4\n0:1\n",
    "b.csv": "id,label,probability\n1,0,0.75\n1,2,0.5\n2,3,0.75\n2,1,0.5\n3,1,1\n4,1,0.5\n",
    "b.txt": "0:0.75 2:0.5 \n3:0.75 1:0.5 \n1:1 \n1:0.5 \n\n",
    "assigned.scores": "5 4 assigned\n0:0.9\n1:0.5\n\n\n\n",
    "none.jsonl": '{"id": 1, "labels": []}\n' * 2,
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)


def run(*arguments, stdin=None):
    return command.run("compare", *arguments, stdin=stdin)


def test_tables_points_and_a_sentence():
    result = run("a.scores", "b.csv", "test.txt", "--train", "train.txt", "-k", "1,2")
    measures, groups, points, sentence = result.stdout.strip().split("\n\n")[1:]
    assert result.stdout.startswith("A  a.scores\nB  b.csv\n\n")
    lines = measures.splitlines()
    assert lines[0].split() == ["A", "B", "A", "-", "B", "95", "%", "interval", "p"]
    assert lines[1].split()[:4] == ["P@1", "75.00", "25.00", "+50.00"]
    assert [line.split()[0] for line in lines[1:]] == [
        f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG") for k in (1, 2)
    ]
    title, head, *rows = groups.splitlines()
    assert title == "recall@2 by deciles of labels, and what each adds to A - B of P@2"
    assert head.split()[-1] == "P@2"
    # Label 0 has 4 of the 8 pairs of a training point and a label, 1 has 2, and 2 and 3 have one each.
    assert [row.split()[:6] for row in rows] == [
        ["3", "4", "1", "100.00", "100.00", "+0.00"],
        ["7", "2", "1", "100.00", "100.00", "+0.00"],
        ["9", "1", "1", "100.00", "0.00", "+100.00"],
        ["10", "1", "2", "50.00", "0.00", "+50.00"],
    ]
    assert [row.split()[-1] for row in rows] == ["+0.00", "+0.00", "+12.50", "+12.50"]
    assert points.splitlines() == [
        "points that differ most in their first 2 labels; * marks true labels",
        "point 3: A has 1, B has 0 of 1 true label",
        "  true  3",
        "  A     *3",
        "  B     1",
        "point 4: A has 1, B has 0 of 2 true labels",
        "  true  2; 3",
        "  A     0; *2",
        "  B     1",
    ]
    assert sentence == "No difference is certain: chance makes differences as large."
    assert "b.csv has no labels of 1 of 5 points, such as '5'" in result.stderr
    assert "95 % intervals over 4 test points; fewer than 50 are too few to judge by" in result.stderr


def test_many_points_make_a_difference_certain(tmp_path):
    (tmp_path / "many.txt").write_text("100 1 3\n" + "0 0:1\n" * 100)
    (tmp_path / "good.txt").write_text("0:2 1:1\n" * 90 + "1:2 0:1\n" * 10)
    (tmp_path / "bad.txt").write_text("0:2 1:1\n" * 50 + "1:2 0:1\n" * 50)
    sentences = [
        run(*names, "many.txt", "-k", "1,2", "--points", "0").stdout.splitlines()[-2:]
        for names in (("good.txt", "bad.txt"), ("bad.txt", "good.txt"), ("bad.txt", "bad.txt"))
    ]
    forth, back, same = (" ".join(lines).strip() for lines in sentences)
    assert forth.startswith("A is above B in P@1 by 40.00 (30.")
    assert forth.endswith("), nDCG@1, nDCG@2; other differences may be chance.")
    assert back == forth.replace("A is above B", "B is above A")
    assert same == "No difference is certain: chance makes differences as large."


def test_json_has_what_the_tables_have():
    found = json.loads(run("a.scores", "b.txt", "test.txt", "-k", "1", "--points", "1", "--json").stdout)
    assert list(found) == ["P@1", "nDCG@1", "points"]
    low, high = found["P@1"].pop("interval")
    assert low < 0 < high
    assert 0.05 < found["P@1"].pop("p") < 1
    assert found["P@1"] == {"a": 75, "b": 25, "difference": 50}
    assert found["points"] == [{"point": 2, "labels": [1], "a": [1], "b": [3], "hits": [1, 0]}]
    found = json.loads(
        run("a.scores", "b.csv", "test.txt", "-k", "2", "--macro", "--train", "train.txt", "--json").stdout
    )
    assert {"recall@2", "coverage@2", "macro-F1@2", "deciles"} < set(found)
    assert found["deciles"][3]["recall@2"]["difference"] == 50


def test_scores_of_any_program_give_the_same():
    expected = run("a.scores", "b.csv", "test.txt", "-q").stdout
    assert run("a.scores", "b.txt", "test.txt", "-q").stdout == expected.replace("b.csv", "b.txt")
    assert run("a.scores", "-", "test.txt", "-q", stdin=FILES["b.txt"].encode()).stdout == expected.replace(
        "b.csv", "-"
    )


def test_a_single_point_shows_nothing(tmp_path):
    (tmp_path / "one.txt").write_text("2 1 4\n0 0:1\n 0:1\n")
    for name, content in {"right.txt": "0:1\n\n", "wrong.txt": "1:1\n\n"}.items():
        (tmp_path / name).write_text(content)
    reason = "there is only one point with a true label, which shows no difference beyond chance"
    assert said(run("right.txt", "wrong.txt", "one.txt", "-q")) == reason
    # Of labels that one point has, the interval is all that is possible.
    result = json.loads(run("a.scores", "b.csv", "test.txt", "-k", "1", "--train", "train.txt", "--json").stdout)
    recall = result["deciles"][1]["recall@1"]
    assert recall == {"a": 100, "b": 0, "difference": 100, "interval": [-100, 100], "p": 1}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("assigned.scores b.csv", "one of assigned.scores and b.csv ranks labels, and the other assigns them, so no"),
        ("a.scores assigned.scores", "one of a.scores and assigned.scores ranks labels, and"),
        ("a.scores none.jsonl", "none.jsonl has 2 points, but test.txt has 5 points"),
    ],
)
def test_what_cannot_be_compared(arguments, sentence):
    assert said(run(*arguments.split(), "test.txt", "-q")).startswith(sentence)
