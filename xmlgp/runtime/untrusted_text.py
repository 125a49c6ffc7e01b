"""Show untrusted text and values in messages: one short printable line, however large or nested the original."""

from __future__ import annotations

import io
import json
import re
import reprlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ForTerminal", "escape", "excerpt", "fitted", "quote", "visible"]

#: Maximum number of characters that `excerpt` returns and `escape` shows, and of bytes that `quote` shows.
MAX_EXCERPT = 60
MAX_TEXT = 200
MAX_QUOTED_BYTES = 30

#: Characters that act on the text around: control characters, and what hides text, ends lines or reverses their order.
#: The joiners U+200C and U+200D, which emoji and some scripts are written with, are not among them.
HIDDEN = re.compile(
    "[\0-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)

#: Visits a few elements of a few levels only: YAML aliases can stand for more than fits into memory.
_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxother = MAX_EXCERPT


def excerpt(value: object) -> str:
    """Return the start of the `repr` of a value of types that JSON and YAML have."""
    try:
        return _shortened.repr(value)[:MAX_EXCERPT]
    except ValueError:
        return "a number of thousands of digits"


def quote(token: bytes) -> str:
    """Return bytes in quotes, shortened if there are too many."""
    text = token[:MAX_QUOTED_BYTES].decode("ascii", "backslashreplace")
    return repr(text + "..." if len(token) > MAX_QUOTED_BYTES else text)


def visible(text: str, kept: str = "") -> str:
    """Return text with escape sequences, as JSON has them, for characters that act on the text around, if not kept."""
    return HIDDEN.sub(lambda match: match[0] if match[0] in kept else json.dumps(match[0])[1:-1], text)


def escape(text: str) -> str:
    """Return the start of a text, such as the error of another program, in one line."""
    return visible(text[:MAX_TEXT])


def fitted(text: str, width: int) -> str:
    """Return a text, or the start of one that takes more columns of a terminal, with an ellipsis."""
    # Most commands write no such texts.
    from tqdm.utils import disp_len, disp_trim  # noqa: PLC0415

    return text if disp_len(text) <= width else disp_trim(text, width - 1) + "…"


class ForTerminal(io.BufferedWriter):
    """Writes UTF-8 to a terminal, with escape sequences for what acts on the text around, but for lines and tabs."""

    def write(self, data: Buffer) -> int:
        """Write bytes, or what has them, and return how many they are."""
        content = bytes(data)
        text = content.decode(errors="surrogateescape")
        super().write(visible(text, "\n\t").encode(errors="surrogateescape"))
        return len(content)
