"""What the first documents of a corpus show to be read otherwise than it was meant, which is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice

from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import PAGE, Document, Reading
from xmlgp.text.label_names import split_at_blanks

__all__ = ["refuse_doubtful"]

#: Documents that are looked at.
SAMPLE = 1000

#: The fewest documents of which labels that never repeat are refused, and the words of a long label.
FEWEST = 5
LONG = 6

#: The share of documents that counts as most of them, the one from which on a separator may be meant, and the one of
#: divided labels up to which the chosen one divides none.
MOST = 0.5
SOME = 0.1
FEW = 0.05

#: What divides names in most texts that have it.
SEPARATORS = re.compile(r"[,;|；，、،•]")
#: What stands between two words, which may be two names.
BETWEEN_WORDS = re.compile(r"(?<=\w)[\W_]+(?=\w)")

#: What says whether a label holds.
FLAGS = {"0", "1", "0.0", "1.0", "true", "false", "True", "False"}


def refuse_doubtful(documents: Iterator[Document], reading: Reading, by_place: bool) -> Iterator[Document]:
    """Yield documents; DataFormatError before the first if their labels are none, or are divided by another separator.

    Texts are compared with labels where no name but their place in a line tells them apart (`by_place`).
    """
    sample = list(islice(documents, SAMPLE))
    labelled = [document for document in sample if document.labels]
    labels = Counter(label for document in labelled for label in document.labels)
    if labels:
        _refuse_flags(labelled, labels, reading)
        _refuse_swapped(labelled, labels, reading, by_place)
        divided = sum(len(document.labels) > 1 for document in labelled)
        if reading.columns.separator is None and divided <= FEW * len(labelled):
            _refuse_other_separator(labelled, labels, reading)
    yield from chain(sample, documents)


def _refuse_flags(documents: list[Document], labels: Counter[str], reading: Reading) -> None:
    """Raise DataFormatError if all labels are 0 and 1, which name none."""
    if FLAGS.issuperset(labels) and len(labels) > 1:
        reason = f"the labels are only {' and '.join(sorted(labels))}, which name none; {PAGE} makes names of them"
        raise reading.error(documents[0].line, reason)


def _refuse_swapped(documents: list[Document], labels: Counter[str], reading: Reading, by_place: bool) -> None:
    """Raise DataFormatError if labels never repeat and are long, or have more words than texts and repeat fewer."""
    words = Counter(word for label in labels.elements() for word in split_at_blanks(label))
    texts = Counter(word for document in documents for word in split_at_blanks(document.text))
    never_repeat = len(labels) == labels.total() >= FEWEST and words.total() >= LONG * len(labels)
    # Titles may be shorter than their labels, but no text consists of URIs.
    by_place = by_place and "://" not in labels.most_common(1)[0][0]
    longer = by_place and words.total() > texts.total() > 0
    if never_repeat or (longer and len(words) * texts.total() > len(texts) * words.total()):
        document = documents[0]
        raise reading.error(
            document.line,
            f"the labels, such as {excerpt(document.labels[0])}, seem to be texts, and the text "
            f"{excerpt(document.text)} labels; --text-column and --label-column name the columns, {PAGE} has files in "
            "another order, and --corpus-format takes them as they are",
        )


def _refuse_other_separator(documents: list[Document], labels: Counter[str], reading: Reading) -> None:
    """Raise DataFormatError if a sign other than the separator seems to divide names, as no labels are divided.

    A sign does if it is one of `SEPARATORS` in most labels, or if most of what it divides some labels into are labels
    elsewhere.
    """
    signs: Counter[str] = Counter()
    for label, count in labels.items():
        signs.update(dict.fromkeys((run.strip() or " " for run in BETWEEN_WORDS.findall(label)), count))
    for sign, count in signs.most_common():
        divided = [label for label in labels if sign in label]
        names = {name.strip() for label in divided for name in label.split(sign)} - {""}
        usual = SEPARATORS.fullmatch(sign) and count > MOST * labels.total()
        elsewhere = count > SOME * labels.total() and MOST * len(names) <= len(names & labels.keys())
        if usual or elsewhere:
            whole = "|" if sign == ";" else ";"
            line = next(document.line for document in documents if divided[0] in document.labels)
            raise reading.error(
                line,
                f"no labels are divided, but {count} of {labels.total()} have {sign!r} as {excerpt(divided[0])} has; "
                f"--label-separator {sign!r} divides them, and --label-separator {whole!r} leaves them whole",
            )
