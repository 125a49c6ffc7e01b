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
    assert labels[1] <= labels[0] == tickets.sentences()["labels"].keys()
    assert all(row["text"] and row["id"] for row in train + test)


def test_groups_are_filled_with_phrases_that_exist():
    assert re.findall("[{}|]", "".join(tickets.tickets())) == []
    content = tickets.sentences()
    templates = [*content["phrases"].values(), *content["vague"].values()]
    templates += [label["sentences"] for label in content["labels"].values()]
    names = re.findall(r"\{(\w+)\}", str(templates))
    assert set(names) <= content["phrases"].keys()
