"""Whether predicted and true labels have names in common, and if not, how their names differ."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from xmlgp.runs.identifiers import canonical_identifier
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["describe_difference"]

#: Pairs of quotes around a name, and brackets.
AROUND = re.compile(r"""<(.*)>|"(.*)"|'(.*)'|“(.*)”|„(.*)“|‘(.*)’|«(.*)»|\[(.*)\]""")

#: What separates words in names, and names from one another.
BETWEEN_WORDS = re.compile(r"[\s_-]+")
BETWEEN_NAMES = re.compile(r"[;,|\n\t]")

#: A URI, and a number of a label.
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+|urn:\S+")
NUMBER = re.compile(r"[0-9]+")

#: Most names that are compared, so that millions of them cost seconds at most.
COMPARED = 1 << 17


def _without_quotes(name: str) -> str:
    around = AROUND.fullmatch(name.strip())
    return next(filter(None, around.groups()), "") if around else name


def _with_blanks(name: str) -> str:
    return BETWEEN_WORDS.sub(" ", name).strip()


def _compatible(name: str) -> str:
    return unicodedata.normalize("NFKC", name)


def _without_prefix(name: str) -> str:
    return name.removeprefix("__label__")


#: How names may differ, and what makes them equal if they do.
DIFFERENCES: dict[str, Callable[[str], str]] = {
    "as Unicode composes characters": _compatible,
    "in case": str.casefold,
    "in quotes or brackets around them": _without_quotes,
    "in blanks, underscores and hyphens": _with_blanks,
    "as numbers are written": canonical_identifier,
    "in the prefix __label__": _without_prefix,
}


def describe_difference(ours: Sequence[str], others: Sequence[str]) -> str:
    """Return a typical pair of names of two sources that have none in common, and what seems to be the reason.

    The others may be those of true labels whose separator is another one.
    """
    ours = ours[:COMPARED]
    others = others[:COMPARED]
    for what, change in (*DIFFERENCES.items(), ("in several ways", _in_all_ways)):
        by_form = {change(name): name for name in others}
        pair = next(((name, by_form[change(name)]) for name in ours if change(name) in by_form), None)
        if pair:
            return f"{_pair(*pair)}, which differ {what}"
    pieces = {piece.strip(): name for name in others for piece in BETWEEN_NAMES.split(name)}
    several = next(((name, pieces[name]) for name in ours if name in pieces), None)
    if several:
        return f"{_pair(*several)}, which looks like several; --label-separator separates them"
    kinds = [_kind(ours), _kind(others)]
    if kinds[0] == kinds[1]:
        return f"{_pair(ours[0], others[0])}; is that another language or vocabulary?"
    reason = f"the former are {kinds[0]}, the latter {kinds[1]}"
    if "URIs" in kinds:
        reason += "; `xmlgp learn MODEL --vocabulary FILE` gives a model both"
    return f"{_pair(ours[0], others[0])}: {reason}"


def _in_all_ways(name: str) -> str:
    name = canonical_identifier(_with_blanks(_without_quotes(_without_prefix(_compatible(name)))))
    return name.casefold()


def _pair(name: str, other: str) -> str:
    return f"such as {excerpt(name)} and {excerpt(other)}"


def _kind(names: Sequence[str]) -> str:
    """Return what names are."""
    for kind, pattern in {"URIs": URI, "numbers": NUMBER}.items():
        if all(map(pattern.fullmatch, names)):
            return kind
    return "names"
