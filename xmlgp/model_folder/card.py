"""The card of a model, `README.md` in its folder: for people, and for the hubs where they share models.

The program writes what is between two marks, and again whenever the model changes. All else belongs to people, and
stays. No name of a label, feature or column is in it: names can be private.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xmlgp.model_folder import words
from xmlgp.models import MODELS, fields_of, settings_in_words
from xmlgp.prediction.tuning import Tuned
from xmlgp.runtime.untrusted_text import escape
from xmlgp.settings.fields import Settings, default_of
from xmlgp.training.trained import HeldOut

__all__ = ["CARD", "card_of", "new_card"]

CARD = "README.md"

#: The documentation that a card refers to.
DOCS = "https://xmlgp.readthedocs.io/en/latest"

BEGIN = "<!-- xmlgp:begin, written by xmlgp; your own words belong above or below, where they stay -->"
END = "<!-- xmlgp:end -->"
#: A mark begins a line. The name of a model, which may be the same text, never does.
MARK = re.compile("^<!-- xmlgp:(begin|end)", re.MULTILINE)
MARKED = re.compile("^<!-- xmlgp:begin[^>]*-->.*^<!-- xmlgp:end[^>]*-->", re.DOTALL | re.MULTILINE)

#: Most bytes of a card; a larger file is none.
LARGEST = 1 << 20

#: What is around the marks in a new card. Hubs read the lines at the top.
BEFORE = """\
---
library_name: xmlgp
tags:
- multi-label-classification
- gaussian-processes
# license: the licence of this model, such as cc-by-4.0
---

# Model card of {name}

"""
AFTER = """

## Intended use and limits

To be filled in by the people who share this model; `xmlgp learn` and `xmlgp tune` keep what is written here.

- What the model is for, and what it must not be used for:
- Where the training data come from, their language and period, and who assigned the labels:
- Labels or groups of people for which it errs more often:
- Licence and contact:
"""


def card_of(file: Path, name: str, description: Mapping[str, Any], settings: Settings) -> bytes | None:
    """Return what the file of a card is to contain for a model, or None if it is to stay as it is.

    It stays if it does not have each of the two marks once, because somebody has removed them or it is another file.
    """
    if not os.path.lexists(file):
        return new_card(name, description, settings)
    status = file.lstat()
    # A link could lead to any file.
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
        return None
    try:
        text = file.read_bytes().decode()
    except UnicodeDecodeError:
        return None
    if len(MARK.findall(text)) != 2 or not MARKED.search(text):
        return None
    written = _marked(name, description, settings)
    return MARKED.sub(lambda match: written, text).encode()


def new_card(name: str, description: Mapping[str, Any], settings: Settings) -> bytes:
    """Return a card that nobody has written to."""
    return (BEFORE.format(name=_code(name)) + _marked(name, description, settings) + AFTER).encode()


def _marked(name: str, description: Mapping[str, Any], settings: Settings) -> str:
    """Return what the program writes, with its marks."""
    sections = []
    for title, lines in _sections(name, description, settings):
        if text := "\n".join(lines):
            sections.append(f"## {title}\n\n{text}")
    return "\n\n".join([BEGIN, *sections, END])


def _sections(name: str, description: Mapping[str, Any], settings: Settings) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield the titles and the lines of sections, which may be empty."""
    yield "Model", _model(description)
    yield "Training data", _data(description)
    yield "Settings", _settings(description, settings)
    yield "Measured on points held out of training", _measures(description)
    yield "Assigned labels", _tuned(description)
    yield "Learned after training", (f"- {text}" for text in words.learned(description))
    yield "What it contains of its training points", _rows(description)
    yield "How to use it", _commands(name, description)


def _model(description: Mapping[str, Any]) -> Iterator[str]:
    record = MODELS[description["model"]]
    papers = f", the model of {record.papers} in the [references]({DOCS}/models/index.html#papers)"
    yield f"- {record.name.upper()}: {record.summary}{papers if record.papers else ''}"
    yield f"- {description['stage']}, written by {_code(description['written_by'])}"
    if text := words.training(description):
        yield f"- {text}"


def _data(description: Mapping[str, Any]) -> Iterator[str]:
    data = description["data"]
    yield f"- {data['N']:,} points, {data['D']:,} features, {data['K']:,} labels"
    vectorizer = description.get("vectorizer", {})
    is_text = bool(vectorizer) or "vectorizer.skops" in description["arrays"]
    yield f"- The features are {'words or other parts of text' if is_text else 'numbers'}"
    if "dense" in data:
        blocks = zip(words.names_of_blocks(data, "encoder" in vectorizer), data["dense"], strict=False)
        yield f"- Dense features: {', '.join(f'{block} of width {width}' for block, width in blocks)}"
    encoder = vectorizer.get("encoder")
    if isinstance(encoder, dict) and isinstance(encoder.get("name"), str):
        # The folder of an encoder may tell the name of a person.
        yield f"- Encoder: {_code(Path(encoder['name']).name)}"
    if "unknown" in data:
        yield f"- Pairs of a point and a label that nobody judged: {data['unknown']:,}"
    names = words.names(description)
    yield f"- Names {names}, in the folder" if names else "- Labels and features without names"
    yield f"- Fingerprint: {_code(data['fingerprint'])}"


def _settings(description: Mapping[str, Any], settings: Settings) -> Iterator[str]:
    texts = settings_in_words(settings, description["data"])
    shape = (description["data"][key] for key in "NDK")
    # Some defaults depend on the sizes of the data.
    usual = type(settings)().for_shape(*shape).mapping()
    unused = settings.unused()
    is_usual = True
    for name, spec in fields_of(settings.model).items():
        if settings.mapping()[name] not in (spec.default, usual[name]) and name not in unused:
            is_usual = False
            yield f"- `{name}`: {_code(texts[name])} (default: {default_of(spec)})"
    if is_usual:
        yield "All settings have their defaults."


def _measures(description: Mapping[str, Any]) -> Iterator[str]:
    held_out = HeldOut.from_untrusted(description.get("held_out"))
    if held_out is None:
        yield "Nothing: no points were held out."
        return
    has_encoder = "encoder" in description.get("vectorizer", {})
    blocks = words.names_of_blocks(description["data"], has_encoder)
    texts = [words.measured(description, held_out)]
    if len(blocks) == len(held_out.dense_gains):
        texts.append(held_out.worth_of_dense(blocks))
    for text in filter(None, [*texts, held_out.reliability()]):
        yield f"- {text[0].upper()}{text[1:]}"


def _tuned(description: Mapping[str, Any]) -> Iterator[str]:
    tuned = Tuned.from_untrusted(description.get("tuned"))
    if tuned:
        yield f"`xmlgp predict` assigns labels of {tuned}: {tuned.metric} {tuned.value:.5f} on {tuned.points:,} points."


def _rows(description: Mapping[str, Any]) -> Iterator[str]:
    topic = f"{DOCS}/learning.html#what-a-model-keeps-of-its-training-points"
    yield f"It contains {words.rows_kept(description)}; see [what a model keeps of its training points]({topic})."


def _commands(name: str, description: Mapping[str, Any]) -> Iterator[str]:
    """Yield commands as a block of code that is indented: no name can end it."""
    has_encoder = "encoder" in description.get("vectorizer", {})
    files = [block for block in words.names_of_blocks(description["data"], has_encoder) if block != "encoder"]
    shown = escape(shlex.quote(name), longest=None)
    yield f"    pip install xmlgp\n    xmlgp show {shown}\n    xmlgp predict {shown} DATA{' --dense FILE' * len(files)}"
    yield "\nIn Python:\n"
    dense = ', dense="FILE"' if len(files) == 1 else f", dense={['FILE'] * len(files)}"
    yield f"    import xmlgp\n    model = xmlgp.load({escape(repr(name), longest=None)})"
    yield f'    for point in xmlgp.predict(model, "DATA"{dense if files else ""}):\n        print(point)'


def _code(text: str) -> str:
    """Return untrusted text as Markdown shows it: in a span of code nothing but its end has a meaning."""
    return f"`{escape(text).replace('`', chr(39))}`"
