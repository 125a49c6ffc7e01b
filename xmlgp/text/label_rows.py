"""The labels of documents as rows have them: a text that separates names, or a row for each label.

Options say how labels are separated and whether rows are merged. Where the rows look as if the options were wrong, a
note says so once all are read.
"""

import contextlib
import json
import shlex
from collections import Counter
from itertools import groupby
from operator import itemgetter

from xmlgp.errors import DataFormatError, XmlgpError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Document

__all__ = ["merge_rows", "note_repeated", "split_labels"]

#: What usually separates labels.
SEPARATORS = {";": "a semicolon", ",": "a comma", "|": "a bar"}

#: Shares of rows. Another separator is noted in most rows, or in some if it divides the texts into fewer labels, unless
#: the given one is in more than few. Repeated identifiers are noted in more than few rows.
MOST, SOME, FEW = 0.5, 0.1, 0.05

#: Most texts of labels, and identifiers, that are kept to compare with others.
KEPT = 1 << 16


def split_labels(documents, path, columns, usual, note):
    """Yield documents whose labels are lists; those that are texts are separated as columns or the usual way say."""
    others = [separator for separator in SEPARATORS if separator != (columns.separator or usual)]
    rows, divided, counts = 0, 0, Counter()
    texts, pieces = ({separator: kind() for separator in others} for kind in (dict, set))
    for document in documents:
        text = document.labels
        if isinstance(text, str):
            try:
                names = columns.split(text, usual)
            except (ValueError, RecursionError):
                reason = f"the labels {excerpt(text)} are not a JSON list of names; --label-separator separates them"
                raise DataFormatError(path, document.line, reason) from None
            rows += bool(text and not text.isspace())
            divided += len(names) > 1
            for separator in others:
                if separator in text:
                    counts[separator] += 1
                    if text not in texts[separator] and len(texts[separator]) < KEPT:
                        texts[separator][text] = None
                        pieces[separator].update(map(str.strip, text.split(separator)))
            document = Document(document.line, document.id, document.text, names)
        yield document
    for separator, count in counts.most_common(1):
        reused = count > SOME * rows and len(pieces[separator]) < len(texts[separator])
        if (count > MOST * rows or reused) and divided <= FEW * rows:
            example, share = excerpt(next(iter(texts[separator]))), f"{count / rows:.0%}"
            what = f"labels such as {example} have {SEPARATORS[separator]} in {share} of the rows"
            note(f"{path}: {what}; if it separates labels, give --label-separator {shlex.quote(separator)}")


def note_repeated(documents, path, note):
    """Yield documents; note whether many have the identifier of an earlier one, and its text or none."""
    # Of many documents, those are compared whose hashes end in zeros, the more the more there are: the number of rows
    # with an identifier, that of repeated ones, and the hash of the first text.
    found, mask, example = {}, 0, None
    for document in documents:
        if document.id not in (None, ""):
            key, text = hash((document.id,)), hash(document.text) if document.text.strip() else None
            if not key & mask:
                count, repeated, first = found.get(key, (0, 0, text))
                same = count > 0 and (text == first or None in (text, first))
                found[key] = count + 1, repeated + same, text if first is None else first
                if example is None and same:
                    example = document.id
                if len(found) > KEPT:
                    mask = 2 * mask + 1
                    found = {key: counts for key, counts in found.items() if not key & mask}
        yield document
    rows, repeated = (sum(counts[place] for counts in found.values()) for place in (0, 1))
    if repeated > FEW * rows:
        what = f"have the identifier (such as {excerpt(example)}) of an earlier row, and its text or none"
        mend = "--merge-ids makes them one document with all labels"
        note(f"{path}: {repeated / rows:.0%} of the rows {what}; {mend}")


def merge_rows(documents, path):
    """Yield a document for each identifier, in the order of their first rows, with the labels of all its rows.

    Texts that differ are joined by spaces. The rows are in a temporary file, so memory is bounded.
    """
    import sqlite3  # which some builds of Python lack

    def rows():
        for document in documents:
            if document.id in (None, ""):
                reason = "there is no identifier, which --merge-ids needs; --id-column names its column"
                raise DataFormatError(path, document.line, reason)
            yield json.dumps(document.id), document.line, document.text, json.dumps(document.labels)

    try:
        with contextlib.closing(sqlite3.connect("", isolation_level=None, check_same_thread=False)) as database:
            database.executescript(
                "PRAGMA journal_mode = OFF; CREATE TABLE row (place INTEGER PRIMARY KEY, id, line, text, labels); BEGIN"
            )
            database.executemany("INSERT INTO row VALUES (NULL, ?, ?, ?, ?)", rows())
            found = database.execute(
                "SELECT min(place) OVER (PARTITION BY id) AS first, id, line, text, labels FROM row "
                "ORDER BY first, place"
            )
            for _, group in groupby(found, itemgetter(0)):
                _, ids, lines, texts, labels = zip(*group, strict=True)
                names = [name for own in labels for name in json.loads(own)]
                yield Document(lines[0], json.loads(ids[0]), " ".join(filter(None, dict.fromkeys(texts))), names)
    except sqlite3.Error as error:
        raise XmlgpError(f"{path}: the rows could not be merged in a temporary file: {error}") from error
