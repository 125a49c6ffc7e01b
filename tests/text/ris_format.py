"""One more text format, in one file: RIS, in which reference managers write titles, abstracts and keywords."""

from __future__ import annotations

from collections.abc import Iterator

from xmlgp.errors import DataFormatError
from xmlgp.text.documents import Document, Reading
from xmlgp.text.doubts import doubt_labels, unlikely_labels
from xmlgp.text.format import Format, Start

__all__ = ["RIS"]

#: The tags of a line that hold a text, a label, and an identifier.
TEXTS = ("TI", "AB")
LABEL = "KW"
IDENTIFIER = "ID"


def _is_ris(start: Start) -> bool:
    return start.line.startswith("TY  - ")


def _read_ris(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document | DataFormatError]:
    """Yield documents, the lines `TAG  - value` from TY to ER."""
    first = 0
    fields: list[tuple[str, str]] = []
    for number, line in lines:
        if not line.strip():
            continue
        tag, dash, value = line.partition("  - ")
        if not dash and line.strip() != "ER  -":
            yield reading.error(number, "this line of RIS has no tag")
        elif line.startswith("ER"):
            identifier = next((text for name, text in fields if name == IDENTIFIER), None)
            text = " ".join(text for name, text in fields if name in TEXTS)
            labels = [text for name, text in fields if name == LABEL] if reading.labelled else []
            yield Document(first, identifier, text, labels)
        else:
            if tag == "TY":
                first = number
                fields = []
            fields.append((tag, value.strip()))


RIS = Format("ris", _is_ris, _read_ris, endings=(".ris",), doubts=(doubt_labels(unlikely_labels),))
