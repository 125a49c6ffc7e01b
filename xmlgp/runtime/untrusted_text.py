"""Show untrusted text and values in messages: one short printable line, however large or nested the original."""

from __future__ import annotations

import io
import re
import reprlib
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ForTerminal", "escape", "escape_undecodable", "excerpt", "quote", "show_name", "visible"]

#: Maximum number of characters that `excerpt` returns, and bytes that `quote` shows.
MAX_EXCERPT = 60
MAX_QUOTED_BYTES = 30

#: Default maximum number of characters that `escape` returns.
MAX_TEXT = 200

#: Characters that act on the text around: control characters, and what hides text, ends lines or reverses their order.
#: The joiners U+200C and U+200D, which emoji and some scripts are written with, are not among them.
HIDDEN = re.compile(
    "[\0-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)

#: What no UTF-8 file can have: halves of surrogate pairs. Python decodes a byte that is not UTF-8 as one of the second.
UNDECODABLE = re.compile("[\ud800-\udfff]")

#: What is added to a byte that is not UTF-8.
OF_BYTES = 0xDC00

#: Names that `show_name` returns as they are.
NAME = re.compile(rf"[A-Za-z0-9_.+-]{{1,{MAX_EXCERPT}}}")


class _Shortened(reprlib.Repr):
    """Visits a few elements of a few levels only: YAML aliases can stand for more than fits into memory."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = MAX_EXCERPT

    def repr_int(self, value: int, level: int) -> str:
        # Python refuses to print thousands of digits; from 3.14 on, reprlib shows an address in their place.
        try:
            repr(value)
        except ValueError:
            return f"a number of {value.bit_length()} bits"
        return super().repr_int(value, level)


def excerpt(value: object) -> str:
    """Return the start of the `repr` of a value of types that JSON and YAML have."""
    return _Shortened().repr(value)[:MAX_EXCERPT]


def show_name(name: object) -> str:
    """Return a name as it is if it consists of a few letters, digits and `_.+-`, else its `excerpt`.

    YAML keys can be of many types.
    """
    return name if isinstance(name, str) and NAME.fullmatch(name) else excerpt(name)


def escape(text: str, longest: int | None = MAX_TEXT) -> str:
    """Return text with escape sequences for characters that are not printable, at most `longest` characters or all."""
    start = text if longest is None else text[: longest + 1]
    shown = "".join(character if character.isprintable() else repr(character)[1:-1] for character in start)
    return shown if longest is None or len(shown) <= longest else f"{shown[:longest]}…"


def escape_undecodable(text: str) -> str:
    r"""Return text, such as the name of a file, with `\xNN` for a byte that is not UTF-8, so that it can be written."""
    return UNDECODABLE.sub(_escape_undecodable, text)


def _escape_undecodable(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number - OF_BYTES:02x}" if OF_BYTES + 0x80 <= number <= OF_BYTES + 0xFF else f"\\u{number:04x}"


def visible(text: str, kept: str = "") -> str:
    """Return text with escape sequences, as JSON has them, for characters that act on the text around, if not kept."""
    return HIDDEN.sub(lambda match: match[0] if match[0] in kept else _escape_sequence(match[0]), text)


def _escape_sequence(character: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    number = ord(character)
    return short.get(character) or (f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}")


class ForTerminal(io.BufferedIOBase):
    """Writes UTF-8 to a terminal, with escape sequences for what acts on the text around, but for lines and tabs."""

    def __init__(self, stream: TextIO) -> None:
        # It closes its buffer when nothing refers to it.
        self._text = stream
        self._stream = stream.buffer

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Buffer) -> int:
        """Write bytes, or what has them, and return how many they are."""
        content = bytes(data)
        text = content.decode(errors="surrogateescape")
        self._stream.write(visible(text, "\n\t").encode(errors="surrogateescape"))
        return len(content)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor of the stream."""
        return self._stream.fileno()


def quote(token: bytes) -> str:
    """Return bytes in quotes, shortened if there are too many."""
    text = token[:MAX_QUOTED_BYTES].decode("ascii", "backslashreplace")
    return repr(text + "..." if len(token) > MAX_QUOTED_BYTES else text)
