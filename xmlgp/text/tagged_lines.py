"""Formats with a document a line: text and labels as Annif, fastText and PECOS have them, and text alone."""

import re

from xmlgp.errors import DataFormatError
from xmlgp.text.documents import Document

__all__ = ["FASTTEXT_LABEL", "PECOS_LABELS", "read_annif", "read_fasttext", "read_pecos", "read_plain"]

#: The prefix of labels in fastText's format.
FASTTEXT_LABEL = "__label__"

#: The first field of a line in PECOS's format.
PECOS_LABELS = re.compile(r"[0-9]+(,[0-9]+)*")


def read_plain(lines, path, columns, labelled):
    """Yield documents, each line the text of one."""
    for number, line in lines:
        yield Document(number, None, line, [])


def read_annif(lines, path, columns, labelled):
    """Yield documents `text<TAB>label label ...`; a label may be in angle brackets."""
    bare = _BareNames().__getitem__
    for number, line in lines:
        text, tab, labels = line.partition("\t")
        if not tab and not line.strip():
            continue
        if labelled and not tab:
            raise DataFormatError(path, number, "there is no tab between a text and its labels")
        names = labels.split() if labelled else []
        if names and "<" in labels:
            names = list(map(bare, names))
        yield Document(number, None, text, names)


def read_fasttext(lines, path, columns, labelled):
    """Yield documents `__label__a __label__b text`."""
    for number, line in lines:
        words = line.split()
        if not words:
            continue
        labels = [word.removeprefix(FASTTEXT_LABEL) for word in words if word.startswith(FASTTEXT_LABEL)]
        text = " ".join(word for word in words if not word.startswith(FASTTEXT_LABEL))
        yield Document(number, None, text, labels)


def read_pecos(lines, path, columns, labelled):
    """Yield documents `label,label,...<TAB>text`, whose labels are numbers."""
    for number, line in lines:
        labels, tab, text = line.partition("\t")
        if not tab:
            if not line.strip():
                continue
            raise DataFormatError(path, number, "there is no tab between the numbers of labels and the text")
        if labels and not PECOS_LABELS.fullmatch(labels):
            reason = "the labels before the tab must be nonnegative integers, separated by commas"
            raise DataFormatError(path, number, reason)
        yield Document(number, None, text, labels.split(",") if labels else [])


class _BareNames(dict):
    """Labels without their brackets, each of which is removed once."""

    def __missing__(self, name):
        self[name] = bare = name[1:-1] if name[0] == "<" and name[-1] == ">" else name
        return bare
