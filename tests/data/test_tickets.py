import csv
import re

from xmlgp.data import tickets
from xmlgp.data.catalogue import load_catalogue
from xmlgp.data.fetch import fetch


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_fetched_tickets_match_the_catalogue(tmp_path):
    # The checksums in the catalogue ensure that they are the same on every machine.
    entry = load_catalogue()["tickets"]
    assert all(file.checksums for file in entry.files)
    fetched = fetch(entry, tmp_path)
    train, test = map(rows_of, fetched.paths)
    labels = [{label for row in rows for label in row["labels"].split(";")} for rows in (train, test)]
    assert (len(train), len(test), len(labels[0])) == (entry.shape.N, entry.shape.N_test, entry.shape.K)
    assert labels[1] <= labels[0] == {*tickets.LABELS, tickets.URGENT}
    assert all(row["text"] and row["id"] for row in train + test)


def test_templates_are_filled_with_phrases_that_exist():
    everything = "".join(tickets.tickets())
    assert re.findall("[{}|]", everything) == []
    templates = [
        *tickets.PHRASES.values(),
        *tickets.VAGUE_SENTENCES.values(),
        *(text for _, text in tickets.LABELS.values()),
    ]
    names = re.findall(r"\{(\w+)\}", " ".join(templates))
    assert set(names) <= tickets.PHRASES.keys()
