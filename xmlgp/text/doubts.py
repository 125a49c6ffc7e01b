"""What may be doubted of the documents of a format: each `Doubt` looks at them, and notes or refuses something."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice

from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.characters import split_at_blanks
from xmlgp.text.documents import Document, Reading
from xmlgp.text.format import Doubt

__all__ = [
    "doubt_labels",
    "note_repeated",
    "note_returns",
    "odd_labels",
    "quoted_labels",
    "refuse_identifiers_as_labels",
    "refuse_text_as_labels",
    "unlikely_labels",
]

#: What a label has if something else separates labels, or writes them.
ODD_LABEL = re.compile(r"""^["']|["',;|]$|[;|]|, |__label__""")
#: What a label in quotes has.
QUOTED_LABEL = re.compile(r"""^["']|["']$""")

#: The share of labels, or of documents, that counts as most of them.
MOST = 0.5
#: The share of odd labels from which on they are noted.
SOME = 0.1
#: The share of rows with repeated identifiers from which on these are noted.
FEW = 0.05

#: Most labels, and identifiers, that are kept to compare with others.
KEPT = 1 << 16

#: Documents from which the order of columns is told.
SAMPLE = 1000
#: The fewest documents of which labels that occur once are noted.
FEWEST = 5

#: Documents among whose texts some have a word twice.
MANY = 100

#: What to do where labels are not what they seem to be.
COLUMNS = "; if columns are in another order, --columns names them, as in --columns id,labels,text"

#: The words of a label that looks like a text.
LONG = 6


def doubt_labels(*checks: Callable[[Counter[str], int], str | None]) -> Doubt:
    """Return a doubt about all labels: each check returns what to note of them and of the number of their documents."""

    def doubt(documents: Iterator[Document], reading: Reading) -> Iterator[Document]:
        labels: Counter[str] = Counter()
        count = 0
        for document in documents:
            count += bool(document.labels)
            if len(labels) < KEPT:
                labels.update(document.labels)
            yield document
        for check in checks:
            sentence = check(labels, count)
            if sentence:
                reading.tell(sentence)

    return doubt


def unlikely_labels(labels: Counter[str], count: int, advice: str = COLUMNS) -> str | None:
    """Note labels that look like texts, or that each occur once."""
    long = [label for label in labels if len(label.split()) >= LONG or label.endswith((".", "!", "?"))]
    if count < FEWEST:
        return None
    if len(long) > MOST * len(labels):
        return f"labels such as {excerpt(long[0])} look like texts{advice}"
    if len(labels) == labels.total():
        return f"each label, such as {excerpt(next(iter(labels)))}, occurs once{advice}"
    return None


def odd_labels(labels: Counter[str], count: int, pattern: re.Pattern[str] = ODD_LABEL) -> str | None:
    """Note labels that look like several, or have quotes around."""
    odd = [label for label in labels if pattern.search(label)]
    if len(odd) <= SOME * len(labels):
        return None
    return f"labels such as {excerpt(odd[0])} have what separates or quotes labels elsewhere"


#: Notes labels that begin or end with quotes.
quoted_labels = partial(odd_labels, pattern=QUOTED_LABEL)


def note_returns(documents: Iterator[Document], reading: Reading) -> Iterator[Document]:
    """Note carriage returns within lines, which may have been meant as their ends."""
    lines = []
    for document in documents:
        if "\r" in document.text or any("\r" in label for label in document.labels):
            lines.append(document.line)
        yield document
    if lines:
        what = counted(len(lines), "line has", "lines have")
        reading.tell(f"{what} a carriage return before the end, which counts as a blank, not as an end", lines[0])


def note_repeated(documents: Iterator[Document], reading: Reading) -> Iterator[Document]:
    """Note whether many documents have the identifier of an earlier one, and its text or none."""
    texts: dict[int, int | None] = {}  # hashes of the first text of each identifier, by the hash of that
    count = 0
    repeated = 0
    example = None
    for document in documents:
        if reading.labelled and document.id not in (None, ""):
            key = hash((document.id,))
            if key in texts or len(texts) < KEPT:
                count += 1
                text = hash(document.text) if document.text.strip() else None
                first = texts.get(key)
                if key in texts and (text == first or None in (text, first)):
                    repeated += 1
                    example = document.id if example is None else example
                texts[key] = text if first is None else first
        yield document
    if repeated > FEW * count:
        what = f"have the identifier (such as {excerpt(example)}) of an earlier row, and its text or none"
        reading.tell(f"{repeated / count:.0%} of the rows {what}; --merge-ids makes them one document with all labels")


def _of_first_documents(check: Callable[[list[Document], Reading], None]) -> Doubt:
    """Return the doubt that checks the first documents before one is yielded, if labels are read."""

    def doubt(documents: Iterator[Document], reading: Reading) -> Iterator[Document]:
        if reading.labelled:
            first = list(islice(documents, SAMPLE))
            check(first, reading)
            documents = chain(first, documents)
        yield from documents

    return doubt


@_of_first_documents
def refuse_text_as_labels(documents: list[Document], reading: Reading) -> None:
    """Raise DataFormatError if texts seem to follow labels, where labels should follow a text.

    They do if what counts as labels has more words than what counts as text, and still repeats fewer of them.
    """
    texts = Counter(word for document in documents for word in split_at_blanks(document.text))
    labels = Counter(word for document in documents for word in document.labels)
    uris = sum(count for label, count in labels.items() if "://" in label)
    # Titles may be shorter than their labels, but no text consists of URIs.
    longer = labels.total() > texts.total() and uris <= MOST * labels.total()
    if not longer or len(labels) * texts.total() <= len(texts) * labels.total():
        return
    label = excerpt(documents[0].text)
    # Within many texts some words are repeated, and few texts occur again.
    few_texts = len({document.text for document in documents}) <= MOST * len(documents)
    repeats_words = any(len(set(document.labels)) < len(document.labels) for document in documents)
    if len(documents) < MANY or few_texts or repeats_words:
        raise reading.error(
            documents[0].line,
            f"the labels seem to be before the tab, such as {label}, and the text after it; `--columns labels,text` "
            "reads them so, with --label-separator ' ' if blanks separate labels, and `--corpus-format annif` as text "
            "before labels",
        )
    reading.tell(
        f"{label} is read as a text, and the words after the tab as labels; `--columns labels,text` reads them the "
        "other way round"
    )


@_of_first_documents
def refuse_identifiers_as_labels(documents: list[Document], reading: Reading) -> None:
    """Raise DataFormatError if the numbers of labels before a text seem to be identifiers.

    They do if each document has another number, alone, and a further tab.
    """
    numbers = {document.labels[0] for document in documents if len(document.labels) == 1}
    if len(documents) > 1 and len(numbers) == len(documents) and all("\t" in document.text for document in documents):
        raise reading.error(
            documents[0].line,
            f"each line has another number before its first tab, such as {documents[0].labels[0]}, as identifiers are, "
            "and more tabs; `--columns id,labels,text`, in the order of the columns, reads a table without a header, "
            "and `--corpus-format pecos` takes the numbers as labels",
        )
