"""Show untrusted text and values in messages: one short printable line, however large or nested the original."""

import re
import reprlib

__all__ = ["escape", "excerpt", "quote", "show_name"]

#: Maximum number of characters that `excerpt` returns, and bytes that `quote` shows.
MAX_EXCERPT, MAX_QUOTED_BYTES = 60, 30

#: Default maximum number of characters that `escape` returns.
MAX_TEXT = 200

#: Names that `show_name` returns as they are.
NAME = re.compile(rf"[A-Za-z0-9_.+-]{{1,{MAX_EXCERPT}}}")


class _Shortened(reprlib.Repr):
    """Visits a few elements of a few levels only: YAML aliases can stand for more than fits into memory."""

    def __init__(self):
        super().__init__()
        self.maxstring = self.maxother = MAX_EXCERPT

    def repr_int(self, value, level):
        try:
            return super().repr_int(value, level)
        except ValueError:  # Python refuses to print thousands of digits
            return f"a number of {value.bit_length()} bits"


def excerpt(value):
    """Return the start of the `repr` of a value of types that JSON and YAML have."""
    return _Shortened().repr(value)[:MAX_EXCERPT]


def show_name(name):
    """Return a name as it is if it consists of a few letters, digits and `_.+-`, else its `excerpt`.

    YAML keys can be of many types.
    """
    return name if isinstance(name, str) and NAME.fullmatch(name) else excerpt(name)


def escape(text, longest=MAX_TEXT):
    """Return text with escape sequences for characters that are not printable, at most `longest` characters or all."""
    start = text if longest is None else text[: longest + 1]
    shown = "".join(character if character.isprintable() else repr(character)[1:-1] for character in start)
    return shown if longest is None or len(shown) <= longest else f"{shown[:longest]}…"


def quote(token):
    """Return bytes in quotes, shortened if there are too many."""
    text = token[:MAX_QUOTED_BYTES].decode("ascii", "backslashreplace")
    return repr(text + "..." if len(token) > MAX_QUOTED_BYTES else text)
