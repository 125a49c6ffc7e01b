"""How what a stranger wrote is shown in a message: its start, in one line, however large or deep it is."""

import reprlib

__all__ = ["escape", "excerpt"]

#: Characters shown.
LONGEST = 60


class _Shortened(reprlib.Repr):
    """Looks at a few elements of a few levels only: aliases of YAML can stand for more than memory holds."""

    def __init__(self):
        super().__init__()
        self.maxstring = self.maxother = LONGEST

    def repr_int(self, value, level):
        try:
            return super().repr_int(value, level)
        except ValueError:  # Python writes no number of thousands of digits
            return f"a number of {value.bit_length()} bits"


def excerpt(value):
    """Return the start of how Python writes a value.

    Parameters
    ----------
    value : object
        Made of what JSON and YAML can hold.

    Returns
    -------
    str
    """
    return _Shortened().repr(value)[:LONGEST]


#: Maximum number of characters that `escape` returns.
LONGEST_TEXT = 200


def escape(text):
    """Return a text as a message can show it: printable characters only, on one line, shortened if too long.

    Parameters
    ----------
    text : str

    Returns
    -------
    str
    """
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[: LONGEST_TEXT + 1])
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
