"""Names of labels and of features: a text file that has the name of number i in line i + 1.

The file is UTF-8, with or without a byte order mark. Each line, including the last one, ends with a newline or with a
carriage return and a newline. The line of a label without a name is empty. Control characters are refused because names
are printed on terminals.
"""

import os
import re
from collections.abc import Iterable, Sequence

from xmlgp.data.files import open_input
from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.runtime.errors import NamesFormatError, SettingsError
from xmlgp.runtime.untrusted_text import excerpt

__all__ = [
    "CONTROL",
    "UNFIT",
    "check_name",
    "check_names",
    "describe_unfit",
    "format_names",
    "parse_names",
    "read_feature_names",
    "read_label_names",
]

#: C0, delete and C1: any of them can start a command to a terminal.
CONTROL = re.compile("[\0-\x1f\x7f-\x9f]")

#: What names cannot have: control characters, and halves of a surrogate pair, which no file can have.
UNFIT = re.compile(f"{CONTROL.pattern}|[\ud800-\udfff]")


def read_label_names(path: str | os.PathLike[str], K: int) -> list[str]:
    """Return the names of K labels, without surrounding whitespace, from a text file, a gzip file or `-`.

    NamesFormatError, or DataFormatError if lines or gzip data are damaged, names the line of a mistake.
    """
    return [name.strip() for name in _read(path, K, "label")]


def read_feature_names(path: str | os.PathLike[str], D: int) -> list[str]:
    """Return the names of D features, such as words, as `read_label_names` does those of labels.

    N-grams of characters may begin or end with a space, which stays.
    """
    return _read(path, D, "feature")


def describe_unfit(name: str) -> str | None:
    """Return what is wrong with a name, to follow the name in a message, or None."""
    unfit = UNFIT.search(name)
    return f"has U+{ord(unfit[0]):04X}, which no name can have" if unfit else None


def check_names(names: Iterable[str], kind: str = "name") -> None:
    """Raise SettingsError if `parse_names` would refuse one of the names; messages call a name by its `kind`."""
    unfit = next(filter(UNFIT.search, names), None)
    if unfit is not None:
        raise SettingsError(f"the {kind} {excerpt(unfit)} {describe_unfit(unfit)}")


def format_names(names: Sequence[str]) -> bytes:
    """Return the content of a file of names as bytes; SettingsError if one could not be read again."""
    check_names(names)
    return "".join([name + "\n" for name in names]).encode()


def parse_names(content: bytes, count: int) -> list[str] | None:
    """Return the names in the untrusted content of a file (bytes), or None if these are not `count` names."""
    try:
        names = content.decode().split("\n")
    except UnicodeDecodeError:
        return None
    last = names.pop()
    return None if last or len(names) != count or any(map(CONTROL.search, names)) else names


def check_name(name: str, path: str, number: int) -> None:
    """Raise NamesFormatError if the name in line `number` of a file has a control character."""
    if unfit := describe_unfit(name):
        raise NamesFormatError(path, number, f"{excerpt(name)} {unfit}")


def _read(path: str | os.PathLike[str], count: int, kind: str) -> list[str]:
    path = os.fspath(path)
    names: list[str] = []
    with open_input(path) as stream:
        for number, name in decoded_lines(LineReader(stream, path), newline_needed=True):
            if len(names) == count:
                raise NamesFormatError(path, number, f"the file has more names than the {count} {kind}s")
            check_name(name, path, number)
            names.append(name)
    if len(names) < count:
        raise NamesFormatError(path, len(names) + 1, f"the file ends after {len(names)} of {count} {kind} names")
    return names
