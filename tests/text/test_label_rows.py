"""Labels that are separated otherwise than the options say, or in rows of their own, are noted; rows are merged."""

import csv
import io
import json
import random

import pytest

from tests.text.corpora import documents_of, in_every_way
from xmlgp.errors import DataFormatError
from xmlgp.text import label_rows
from xmlgp.text.corpus import open_corpus, read_documents
from xmlgp.text.documents import NO_OPTIONS, CorpusOptions, Document

TOPICS = ["access", "billing", "network", "printer", "email"]
CHOSEN = random.Random(0)
LABELS = [CHOSEN.sample(TOPICS, CHOSEN.choice([1, 1, 1, 2, 2, 3])) for _ in range(100)]
MERGE = CorpusOptions(merge_ids=True)


def table(labels, ids=None, texts=None):
    """Return a table with these labels."""
    stream = io.StringIO()
    rows = csv.writer(stream, lineterminator="\n")
    rows.writerow(["id", "text", "labels"])
    for place, own in enumerate(labels):
        rows.writerow([ids[place] if ids else place, texts[place] if texts else f"text {place}", own])
    return stream.getvalue()


def notes_of(path, options=NO_OPTIONS, **arguments):
    notes = []
    documents_of(path, options, note=notes.append, **arguments)
    return [note.removeprefix(f"{path}: ") for note in notes]


# Separators


SEPARATORS = [(", ", "a comma", ","), ("|", "a bar", "'|'"), (";", "a semicolon", "';'")]


def table_and_json(folder, labels):
    """Write a table and JSON Lines with these texts of labels."""
    (folder / "a.csv").write_text(table(labels))
    (folder / "a.jsonl").write_text("".join(json.dumps({"text": "", "labels": own}) + "\n" for own in labels))


@pytest.mark.parametrize(("separator", "what", "option"), SEPARATORS)
def test_another_separator_than_that_of_the_option_is_noted(tmp_path, separator, what, option):
    labels = [separator.join(own) for own in LABELS]
    table_and_json(tmp_path, labels)
    example = next(own for own in labels if separator in own)
    share = f"{sum(separator in own for own in labels)}%"
    expected = (
        f"labels such as {example!r} have {what} in {share} of the rows; if it separates labels, "
        f"give --label-separator {option}"
    )
    for name in "a.csv", "a.jsonl":
        assert notes_of(tmp_path / name, CorpusOptions(separator="/")) == [expected]
        options = CorpusOptions(separator=separator.strip())
        assert notes_of(tmp_path / name, options) == notes_of(tmp_path / name, labelled=False) == []
        found = [[label.strip() for label in own.labels] for own in documents_of(tmp_path / name, options)]
        assert found == LABELS


@pytest.mark.parametrize(("separator", "what", "option"), [*SEPARATORS, (" / ", "a slash", "' / '")])
def test_another_separator_is_refused_where_no_option_names_one(tmp_path, separator, what, option):
    labels = [separator.join(own) for own in LABELS]
    table_and_json(tmp_path, labels)
    first = next(place for place, own in enumerate(labels) if separator in own)
    rows = sum(separator in own for own in labels)
    for name, line, beside, whole in (
        ("a.csv", first + 2, ", and a semicolon in none", ";"),
        ("a.jsonl", first + 1, "", "|" if separator == ";" else ";"),
    ):
        if (name, separator) == ("a.csv", ";"):  # the default
            assert notes_of(tmp_path / name) == []
            continue
        with pytest.raises(DataFormatError) as caught:
            documents_of(tmp_path / name)
        assert str(caught.value) == (
            f"{tmp_path / name}:{line}: labels such as {labels[first]!r} have {what} in {rows} of 100 rows{beside}; "
            f"give --label-separator {option} if that separates labels, or --label-separator '{whole}' if it is part "
            "of their names"
        )
        # The second answer keeps the labels whole.
        kept = documents_of(tmp_path / name, CorpusOptions(separator=whole))
        assert [own.labels for own in kept] == [[own] for own in labels]


def test_another_separator_is_refused_before_a_large_corpus_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(label_rows, "EARLY", 20)
    (tmp_path / "a.csv").write_text(table([", ".join(own) for own in LABELS]))
    read = []
    with open_corpus(str(tmp_path / "a.csv")) as reader, pytest.raises(DataFormatError):
        read.extend(document.line for document in read_documents(reader))
    assert len(read) < 20


SURNAMES = ["Smith", "Jones", "Brown", "Thomas", "James", "Scott", "Lewis", "George"]
GIVEN = ["John", "Mary", "James", "Anna", "Thomas", "Scott", "Ruth"]


@pytest.mark.parametrize(
    "labels",
    [
        [f"{CHOSEN.choice(SURNAMES)}, {CHOSEN.choice(GIVEN)}" for _ in range(300)],
        ["Paris, France", "London, UK", "London, ON, Canada", "Springfield, IL, USA", "Washington, USA", "France"] * 20,
        ["Science", "Science, Physics", "Science, Physics, Optics", "Arts", "Arts, Music"] * 20,
        ["Art, Modern", "Music, Popular", "Art, Popular", "World War, 1939-1945", "Music"] * 20,
        ["text/html", "text/plain", "image/png", "application/json", "application/xml"] * 20,
        [f"{whole},{tenth}" for whole in range(1, 6) for tenth in (0, 5)] * 9,
    ],
    ids=["people", "towns", "paths", "headings", "media types", "decimals"],
)
def test_names_whose_parts_keep_their_places_are_not_refused(tmp_path, labels):
    table_and_json(tmp_path, labels)
    for name in "a.csv", "a.jsonl":
        assert len(documents_of(tmp_path / name)) == len(labels)


def test_most_rows_with_another_separator_are_enough_without_a_label_that_occurs_twice(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a", "labels": "x;y"}\n{"text": "b", "labels": ""}\n')
    (note,) = notes_of(tmp_path / "a.jsonl")
    assert note.startswith("labels such as 'x;y' have a semicolon in 100% of the rows;")


@pytest.mark.parametrize(
    "labels",
    [
        # Names with a comma, in few rows, or in some that it does not divide into fewer labels.
        ["C, C++"] * 9 + ["python"] * 91,
        [f"Town {place}, State {place % 9}" if place % 3 == 0 else "abroad" for place in range(100)],
        ["New York, NY" if place % 3 else "abroad; Paris, TX" for place in range(100)],
        # Separated as it should be.
        [";".join(f"{name}, {name}" for name in own) for own in LABELS],
        [json.dumps([f"{name}, {name}", "x|y"]) for name in TOPICS],
        ["", " "] * 9,
    ],
    ids=lambda labels: labels[0][:20],
)
def test_ordinary_labels_are_not_noted(tmp_path, labels):
    (tmp_path / "a.csv").write_text(table(labels))
    assert notes_of(tmp_path / "a.csv") == []


def test_lists_of_labels_are_not_noted_but_those_of_lines(tmp_path):
    lines = [json.dumps({"text": "", "labels": [f"{name}, {name};x|y"]}) for name in TOPICS]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "a.txt").write_text("".join(f"words\t{name},x;y\n" for name in TOPICS * 2))
    assert notes_of(tmp_path / "a.jsonl") == []
    # Where a text separates labels, another separator is noted.
    (note,) = notes_of(tmp_path / "a.txt")
    assert "have a semicolon in 100% of the rows" in note


# One row a label


def rows_of_labels(order):
    """Return a table with a row for each label of each document, in some order."""
    rows = [(f"k{place}", f"text {place}", label) for place, own in enumerate(LABELS) for label in own]
    rows.sort(key=order)
    ids, texts, labels = zip(*rows, strict=True)
    return table(labels, ids, texts)


ORDERS = [lambda row: 0, lambda row: row[2], lambda row: random.Random(str(row)).random()]


@pytest.mark.parametrize("order", ORDERS, ids=["following", "by label", "anywhere"])
def test_rows_of_equal_identifiers_are_merged_when_asked_and_otherwise_noted(tmp_path, order):
    content = rows_of_labels(order)
    merged = in_every_way(tmp_path / "corpus", content.encode(), lambda path: documents_of(path, MERGE))
    assert {own.id: (own.text, sorted(own.labels)) for own in merged} == {
        f"k{place}": (f"text {place}", sorted(labels)) for place, labels in enumerate(LABELS)
    }
    assert len(merged) == len(LABELS)
    assert [own.line for own in merged] == sorted(own.line for own in merged)
    assert merged[0].line == 2
    rows = content.count("\n") - 1
    (note,) = notes_of(tmp_path / "corpus")
    assert note.startswith(f"{1 - 100 / rows:.0%} of the rows have the identifier (such as 'k")
    assert note.endswith(
        ") of an earlier row, and its text or none; --merge-ids makes them one document with all labels"
    )
    assert notes_of(tmp_path / "corpus", MERGE) == notes_of(tmp_path / "corpus", labelled=False) == []


@pytest.mark.parametrize("order", ORDERS, ids=["following", "by label", "anywhere"])
def test_of_many_identifiers_a_part_is_compared(tmp_path, monkeypatch, order):
    monkeypatch.setattr(label_rows, "KEPT", 40)
    (tmp_path / "a.csv").write_text(rows_of_labels(order))
    (note,) = notes_of(tmp_path / "a.csv")
    assert 15 < int(note.split("%")[0]) < 65


@pytest.mark.parametrize(
    ("ids", "texts"),
    [
        (["k"] * 5, [f"text {place}" for place in range(5)]),
        ([""] * 5, ["text"] * 5),
        (range(5), ["text"] * 5),
        ([*range(29), 28], ["text"] * 30),
    ],
    ids=["other texts", "no identifiers", "other identifiers", "few"],
)
def test_ordinary_identifiers_are_not_noted(tmp_path, ids, texts):
    (tmp_path / "a.csv").write_text(table(["x"] * len(texts), ids, texts))
    assert notes_of(tmp_path / "a.csv") == []


def test_texts_of_an_identifier_that_differ_are_joined(tmp_path):
    rows = [("1", "a", "x"), (1, "b", "y"), ("1", "", "z"), (1, "b", "y"), ("1", "c\0", "x"), (2**70, "d", "y")]
    lines = [json.dumps({"id": own, "text": text, "labels": [label]}) for own, text, label in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert documents_of(tmp_path / "a.jsonl", MERGE) == [
        Document(1, "1", "a c\0", ["x", "z", "x"]),
        Document(2, 1, "b", ["y", "y"]),
        Document(6, 2**70, "d", ["y"]),
    ]


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [("a.csv", "text,labels\na,x\n", 2), ("a.csv", "id,text,labels\n1,a,x\n,b,x\n", 3), ("a.txt", "a\tx\n", 1)],
)
def test_merging_needs_identifiers(tmp_path, name, content, line):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataFormatError) as caught:
        documents_of(tmp_path / name, MERGE)
    reason = "there is no identifier, which --merge-ids needs; --id-column names its column"
    assert str(caught.value) == f"{tmp_path / name}:{line}: {reason}"
