"""What may be doubted of the documents of a format: each looks at them on their way, and notes or refuses at the end.

A doubt is called with the documents and the `Reading`, and yields the documents.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from xmlgp.errors import DataFormatError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import split_at_blanks
from xmlgp.text.documents import Document, Reading

__all__ = [
    "note_odd",
    "note_quoted",
    "note_repeated",
    "note_returns",
    "note_unlikely",
    "refuse_identifiers_as_labels",
    "refuse_text_as_labels",
]

#: What labels of lines have if they were divided, or written, otherwise, and what they have in quotes.
ODD_LABEL = re.compile(r"""^["']|["',;|]$|[;|]|, |__label__""")
QUOTED_LABEL = re.compile(r"""^["']|["']$""")

#: Shares of labels or rows. Repeated identifiers are noted in more than few rows.
MOST = 0.5
SOME = 0.1
FEW = 0.05

#: Most labels, and identifiers, that are kept to compare with others.
KEPT = 1 << 16

#: Documents from which the order of columns is told, and the fewest of which labels that occur once are noted.
SAMPLE = 1000
FEWEST = 5

#: Documents among whose texts some have a word twice.
MANY = 100

#: What to do where labels are not what they seem to be.
COLUMNS = "; if columns are in another order, --columns names them, as in --columns id,labels,text"

#: The words of a label that looks like a text.
LONG = 6


def note_unlikely(documents: Iterable[Document], reading: Reading, advice: str = COLUMNS) -> Iterator[Document]:
    """Yield the documents of a format without a header; note labels that each occur once, or look like texts."""
    labels: Counter[str] = Counter()
    rows = 0
    for document in documents:
        rows += bool(document.labels)
        if len(labels) < KEPT:
            labels.update(document.labels)
        yield document
    long = [label for label in labels if len(label.split()) >= LONG or label.endswith((".", "!", "?"))]
    if rows >= FEWEST and len(long) > MOST * len(labels):
        reading.note(f"{reading.path}: labels such as {excerpt(long[0])} look like texts{advice}")
    elif rows >= FEWEST and len(labels) == labels.total():
        example = excerpt(next(iter(labels)))
        reading.note(f"{reading.path}: each label, such as {example}, occurs once{advice}")


def note_odd(documents: Iterable[Document], reading: Reading, odd_label: re.Pattern = ODD_LABEL) -> Iterator[Document]:
    """Yield documents whose labels are not divided; note labels that look like several, or have quotes around."""
    labels: dict[str, None] = {}
    for document in documents:
        if len(labels) < KEPT:
            labels.update(dict.fromkeys(document.labels))
        yield document
    odd = [label for label in labels if odd_label.search(label)]
    if len(odd) > SOME * len(labels):
        reading.note(f"{reading.path}: labels such as {excerpt(odd[0])} have what separates or quotes labels elsewhere")


def note_quoted(documents: Iterable[Document], reading: Reading) -> Iterator[Document]:
    """Yield documents; note labels that begin or end with quotes."""
    return note_odd(documents, reading, QUOTED_LABEL)


def note_returns(documents: Iterable[Document], reading: Reading) -> Iterator[Document]:
    """Yield the documents of lines; note carriage returns within these, which may have been meant as their ends."""
    first = None
    count = 0
    for document in documents:
        if "\r" in document.text or any("\r" in label for label in document.labels):
            first = first or document.line
            count += 1
        yield document
    if first:
        what = f"{count} lines have" if count > 1 else "1 line has"
        reading.note(
            f"{reading.path}:{first}: {what} a carriage return before the end, which counts as a blank, not as an end"
        )


def refuse_text_as_labels(documents: Iterator[Document], reading: Reading) -> Iterator[Document]:
    """Yield documents whose labels follow a text; DataFormatError if texts seem to follow labels in the first ones.

    They do if what counts as labels has more words than what counts as text, and still repeats fewer of them.
    """
    if not reading.labelled:
        yield from documents
        return
    first = list(islice(documents, SAMPLE))
    texts = Counter(word for document in first for word in split_at_blanks(document.text))
    labels = Counter(word for document in first for word in document.labels)
    uris = sum(count for label, count in labels.items() if "://" in label)
    # Titles may be shorter than their labels, but no text consists of URIs.
    longer = labels.total() > texts.total() and uris <= MOST * labels.total()
    if longer and len(labels) * texts.total() > len(texts) * labels.total():
        label = excerpt(first[0].text)
        reason = (
            f"the labels seem to be before the tab, such as {label}, and the text after it; `--columns labels,text` "
            "reads them so, with --label-separator ' ' if blanks separate labels, and `--corpus-format annif` as text "
            "before labels"
        )
        # Within many texts some words are repeated, and few texts occur again.
        again = len({document.text for document in first}) <= MOST * len(first)
        repeated = any(len(set(document.labels)) < len(document.labels) for document in first)
        if len(first) < MANY or again or repeated:
            raise DataFormatError(reading.path, first[0].line, reason)
        reading.note(
            f"{reading.path}: {label} is read as a text, and the words after the tab as labels; `--columns "
            "labels,text` reads them the other way round"
        )
    yield from chain(first, documents)


def refuse_identifiers_as_labels(documents: Iterator[Document], reading: Reading) -> Iterator[Document]:
    """Yield documents with numbers of labels before a text; DataFormatError if these seem to be identifiers.

    They do if each of the first ones has another number, alone, and a further tab.
    """
    if not reading.labelled:
        yield from documents
        return
    first = list(islice(documents, SAMPLE))
    numbers = {document.labels[0] for document in first if len(document.labels) == 1}
    if len(first) > 1 and len(numbers) == len(first) and all("\t" in document.text for document in first):
        reason = (
            f"each line has another number before its first tab, such as {first[0].labels[0]}, as identifiers are, and "
            "more tabs; `--columns id,labels,text`, in the order of the columns, reads a table without a header, and "
            "`--corpus-format pecos` takes the numbers as labels"
        )
        raise DataFormatError(reading.path, first[0].line, reason)
    yield from chain(first, documents)


def note_repeated(documents: Iterable[Document], reading: Reading) -> Iterator[Document]:
    """Yield documents; note whether many have the identifier of an earlier one, and its text or none."""
    # Of many documents, those are compared whose hashes end in zeros, the more the more there are: the number of rows
    # with an identifier, that of repeated ones, and the hash of the first text.
    found = {}
    mask = 0
    example = None
    for document in documents:
        if reading.labelled and document.id not in (None, ""):
            key = hash((document.id,))
            text = hash(document.text) if document.text.strip() else None
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
        reading.note(f"{reading.path}: {repeated / rows:.0%} of the rows {what}; {mend}")
