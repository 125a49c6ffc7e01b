"""Notes on texts: what another program left in them, and scripts without blanks between words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Document

__all__ = ["note_texts"]

#: The first documents, which are sampled.
SAMPLE = 1000

#: The share of documents with a sign from which on it is noted.
SOME = 0.05

#: The share of documents without blanks from which on another analyzer is advised.
MOST = 0.5

#: Characters that a message shows of a text.
SHOWN = 20

#: What texts have, and what that means.
SIGNS = (
    (
        re.compile("Ã[\x80-\xbf]|â(?:\x80|€)"),
        "look like UTF-8 that was read as another encoding; ftfy mends such texts",
    ),
    (
        re.compile(
            r"</?(?:(?:br|div|span|em|strong|li|ul|td|tr|h[1-6])(?:\s[^<>]{,200})?|[ap]\s[^<>]{,200})/?>", re.IGNORECASE
        ),
        "are tags of HTML, which count as words; take them out first",
    ),
    (re.compile(r"&(?:amp|nbsp|lt|gt|quot|#[0-9]+);"), "are entities of HTML; html.unescape of Python replaces them"),
    (re.compile(r"[a-z.,;]\\[nt](?=[A-Za-z])"), "are line ends or tabs that were written as two characters"),
)

#: A run of characters of scripts without blanks between words.
WITHOUT_BLANKS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]{6}")


def note_texts(
    documents: Iterable[Document], path: str, analyzer: str, note: Callable[[str], object]
) -> Iterator[Document]:
    """Yield documents; note what many of the first ones have that is no text, or needs another analyzer."""
    texts: list[str] = []
    for document in documents:
        if len(texts) < SAMPLE:
            texts.append(document.text)
        yield document
    for sign, meaning in SIGNS:
        matches = [match for match in map(sign.search, texts) if match]
        if len(matches) > SOME * len(texts):
            start = max(0, matches[0].start() - SHOWN // 2)
            example = excerpt(matches[0].string[start : start + SHOWN])
            note(f"{path}: parts of texts such as {example} {meaning}")
    if analyzer == "word" and sum(map(bool, map(WITHOUT_BLANKS.search, texts))) > MOST * len(texts):
        note(f"{path}: most texts have no blanks between words; --analyzer char --ngrams 1-2 counts characters")
