"""`corpus.json` beside the parts of a corpus: the options that `xmlgp split` was given, which other commands follow."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from xmlgp.data.files import OPTIONS_FILE
from xmlgp.runtime.errors import XmlgpError
from xmlgp.runtime.untrusted_json import read_json
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.corpus import FORMATS
from xmlgp.text.documents import CorpusOptions

__all__ = ["followed", "options_text"]

#: The files that the options are about.
PARTS = re.compile(r"(train|test)\..*")

#: Options that may name several columns.
LISTS = {"text", "labels"}


def options_text(options: CorpusOptions) -> str:
    """Return the content of the file for options; empty if none is given."""
    told = {name: value for name, value in options._asdict().items() if value}
    return json.dumps(told, indent=1, ensure_ascii=False) + "\n" if told else ""


def followed(options: CorpusOptions, path: str) -> CorpusOptions:
    """Return the options for a corpus; those that are not given are in the file beside the parts of one.

    XmlgpError if there is such a file that `options_text` cannot have written.
    """
    file = os.path.join(os.path.dirname(path), OPTIONS_FILE)
    if not PARTS.fullmatch(os.path.basename(path)) or not os.path.isfile(file):
        return options
    try:
        with open(file, "rb") as stream:
            told = read_json(stream)
        if not isinstance(told, dict):
            raise TypeError(f"it is {excerpt(told)}")
        for name, value in told.items():
            _check(name, value)
    except (ValueError, TypeError) as error:
        advice = "remove it, and give the options of the corpus"
        raise XmlgpError(f"{file}: this is not what `xmlgp split` writes ({error}); {advice}") from None
    return options._replace(**{name: value for name, value in told.items() if not getattr(options, name)})


def _check(name: str, value: Any) -> None:
    """Raise ValueError for an entry that no option has."""
    texts = value if name in LISTS and isinstance(value, list) else [value]
    are_texts = all(isinstance(text, str) and text and text.isprintable() for text in texts)
    if name not in CorpusOptions._fields or not are_texts or (name == "format" and value not in FORMATS):
        raise ValueError(f"{excerpt(name)} is {excerpt(value)}")
