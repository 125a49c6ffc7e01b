"""JSON: an object a line, or an array of objects."""

import contextlib
import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from itertools import chain

from xmlgp.data.lines import MAX_LINE_BYTES
from xmlgp.errors import DataFormatError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.documents import Columns, Document, Reading, absent, unmatched
from xmlgp.text.label_flags import flag_places, is_set
from xmlgp.text.label_rows import describe_malformed, divide_labels

__all__ = ["SUBJECT", "Malformed", "read_json_lines", "read_objects"]


#: The fields of an object that is a label, the first of which counts: two subjects may have the same label.
SUBJECT = ("uri", "label")

#: The usual field of the name in an object of another program.
NAME = "name"

#: What Prodigy writes into the field `answer` of an annotation that does not hold.
NO_ANSWERS = ("reject", "ignore")

#: The fields that say how much a label holds.
WEIGHTS = ("value", "score", "probability")

#: The field of the identifier as Annif has it, which is read where there is no `id`.
DOCUMENT_ID = "document_id"

#: The field of labels as Annif has it, which is read in place of the default where this is not there.
SUBJECTS = "subjects"

#: Whitespace between the values of JSON.
BLANK = " \t\r\n"

#: What to do with an object of rows or columns.
BY_PANDAS = "; pandas writes documents by to_json(path, orient='records', lines=True)"

#: What divides an array into elements, and what hides it: quotes and escapes.
MARKS = re.compile(r'\\.|["\[\]{},]')


def read_json_lines(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document | DataFormatError]:
    """Yield the documents of objects, one a line or in an array, or the errors of objects.

    An object has a text, a list of labels, and perhaps an identifier. Numbers count as texts. A text or a list that is
    null is empty; a list of paragraphs is a text, and lists within a list of labels are part of it.
    """
    scores: list[float] = []
    rejected: list[int] = []

    def parse(number: int, found: dict) -> tuple[Document, list[str]]:
        if reading.labelled and not scores:
            scores.extend(_scores(found, reading.columns))
        if found.get("answer") in NO_ANSWERS:
            rejected.append(number)
        try:
            document = _document(number, found, reading)
        except Malformed as error:
            with contextlib.suppress(Malformed):
                error.id = _identifier(found, reading.columns)
            raise
        return document, [document.text, *document.labels, str(document.id)]

    yield from read_objects(lines, reading.path, parse, keep_errors=True)
    if scores:
        what = f"labels have scores such as {scores[0]:g}; each counts as a label unless its score is 0"
        reading.note(f"{reading.path}: {what}")
    if rejected and reading.labelled:
        count = "1 object has" if len(rejected) == 1 else f"{len(rejected)} objects have"
        advice = "jq -c 'select(.answer == \"accept\")' leaves them out"
        reading.note(
            f"{reading.path}:{rejected[0]}: {count} the answer reject or ignore, which count as others do; {advice}"
        )


def _scores(found: dict, columns: Columns) -> list[float]:
    """Return the scores of labels that are neither 0 nor 1, as those of predictions are."""
    lists = [found[name] for name in columns.labels if isinstance(found.get(name), list)]
    entries = [entry for own in lists if own and isinstance(own[0], dict) for entry in own]
    values = [entry[name] for entry in entries if isinstance(entry, dict) for name in WEIGHTS if name in entry]
    return [value for value in values if isinstance(value, float) and 0 < value < 1]


def read_objects(lines, path, parse, keep_errors=False):
    """Yield what `parse` makes of each object and the number of its line; objects are one a line or in an array.

    `parse` also returns the texts in the object, and raises `Malformed`. DataFormatError names a malformed line; that
    of an object is yielded in its place with `keep_errors`.
    """
    number, line = next(((number, line) for number, line in lines if line and not line.isspace()), (1, ""))
    lines = chain([(number, line)], lines)
    is_array = line.lstrip(BLANK).startswith("[")
    for place, (number, text) in enumerate(_elements(lines, path) if is_array else lines, 1):
        if not (is_array or text.strip()):
            continue
        try:
            parsed = _object(text, number, path, parse, f"element {place}" if is_array else None)
        except DataFormatError as error:
            if not keep_errors:
                raise
            parsed = error
        yield parsed


def _object(text, number, path, parse, element):
    """Return what `parse` makes of the text of an object, a line or an `element` of an array."""
    what = element or "this line"
    parsed = None
    try:
        found = JSON.decode(text)
    except (ValueError, RecursionError) as error:
        advice = ""
        if text.rstrip() == "{":
            # The first line of an object that has several.
            advice = "; `jq -c .` writes each object on one line"
        elif "Extra data" in str(error):
            advice = "; `jq -c .` writes each of several objects on a line"
        elif text.lstrip().startswith("{'"):
            advice = "; this is how Python shows a dict, json.dumps writes JSON"
        number += getattr(error, "lineno", 1) - 1
        raise DataFormatError(path, number, f"{what} is not JSON: {_reason(error)}{advice}") from None
    if not isinstance(found, dict):
        raise DataFormatError(path, number, f"{what} is {_shown(found)}, not a JSON object")
    try:
        parsed, texts = parse(number, found)
        # JSON can have halves of characters, which no UTF-8 file can.
        if "\\u" in text:
            "".join(texts).encode()
    except Malformed as error:
        raise DataFormatError(path, number, f"{element}: {error}" if element else str(error), error.id) from None
    except RecursionError:
        raise DataFormatError(path, number, f"{what} is nested too deeply") from None
    except UnicodeEncodeError:
        own = getattr(parsed, "id", None)
        reason = "an escape sequence is half of a surrogate pair"
        raise DataFormatError(path, number, reason, own) from None
    return parsed


def _elements(lines, path):
    """Yield the line where each element of an array starts, and its text."""
    depth = 0
    parts = []
    size = 0
    start = 1
    found = 0
    ended = False
    for number, line in lines:
        begin = 0
        quoted = False
        for mark in () if ended else MARKS.finditer(line):
            character = mark[0]
            quoted ^= character == '"'
            if quoted:
                continue
            depth += (character in ("[", "{")) - (character in ("]", "}"))
            if depth == 1 and character == "[":  # the first of all
                begin = mark.end()
            elif depth == 0 or (depth == 1 and character == ","):
                if character == "}":
                    raise DataFormatError(path, number, "a brace closes the JSON array")
                parts.append(line[begin : mark.start()])
                text = "\n".join(parts)
                begin = mark.end()
                ended = depth == 0
                if found or not ended or text.strip(BLANK):
                    yield start if len(parts) > 1 else number, text
                found = found + 1
                parts = []
                size = 0
                if ended:
                    break
        rest = line[begin:]
        if ended and rest.strip(BLANK):
            raise DataFormatError(path, number, "the JSON array ends before this")
        if quoted:
            raise DataFormatError(path, number, "this line ends within a text in quotes")
        if parts or rest.strip(BLANK):
            start = start if parts else number
            parts.append(rest)
            size += len(rest)
        if size > MAX_LINE_BYTES:
            reason = f"the element that starts here is longer than {MAX_LINE_BYTES >> 20} MiB; is it not closed?"
            raise DataFormatError(path, start, reason)
    if not ended:
        raise DataFormatError(path, start, "the JSON array has no end; the file may be truncated")


class Malformed(ValueError):
    """An object is not what it should be; the text says why. `id` is its identifier, if it is known."""

    id = None


def _unique(pairs):
    """Return an object; a name that occurs twice is refused, because readers disagree about which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise Malformed(f"an object has {excerpt(twice)} twice")
    return found


def _constant(name: str) -> None:
    """Return what a constant is that JSON has not, but Python writes: NaN is no value."""
    if name != "NaN":
        raise Malformed(f"JSON has no {name}")


JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant)


def _reason(error):
    if isinstance(error, json.JSONDecodeError):
        # Some end with "at".
        return f"{error.msg.removesuffix(' at')} at column {error.colno}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error) if isinstance(error, Malformed) else "a number has too many digits"


def _document(number: int, found: dict, reading: Reading) -> Document:
    columns = reading.columns
    if columns.labels == Columns().labels and columns.labels[0] not in found and SUBJECTS in found:
        columns = columns._replace(labels=(SUBJECTS,))
    names = columns.text if reading.with_texts else [name for name in columns.text if name in found]
    text = " ".join([_text(_field(found, name, "--text-column"), name) for name in names])
    labels = _all_labels(found, columns) if reading.labelled else []
    identifier = _identifier(found, columns)
    if isinstance(identifier, float) and identifier.is_integer():
        # What pandas makes of a number where others are missing.
        identifier = int(identifier)
    if identifier is not None and type(identifier) not in (str, int):
        raise Malformed(f"{columns.id or 'id'} is {_shown(identifier)}, neither text nor an integer")
    return Document(number, identifier, text, labels)


def _all_labels(found: dict, columns: Columns) -> list[str] | str:
    """Return the labels of all fields; a single field may have a text, which is divided later."""
    values = [(_field(found, name, "--label-column"), name) for name in columns.labels]
    parts = [_labels(value, name) for value, name in values]
    if len(parts) == 1 and not columns.flags:
        return parts[0]
    names = []
    for part in parts:
        try:
            names += divide_labels(part, columns.separator, None) if isinstance(part, str) else part
        except ValueError:
            raise Malformed(describe_malformed(part)) from None
    if columns.flags:
        others = [*columns.text, *columns.labels, columns.id or "id"]
        own = []
        for pattern in columns.flags:
            places = flag_places(pattern, list(found), others)
            if not places:
                raise Malformed(unmatched("field", pattern, found))
            own += [list(found)[place] for place in places]
        names += _flagged({name: found[name] for name in own})
    return names


def _flagged(values: dict) -> list[str]:
    """Return the names whose value is 1 or true."""
    for name, value in values.items():
        if isinstance(value, list | dict) or is_set(value) is None:
            raise Malformed(f"label {excerpt(name)} has {_shown(value)}, which is neither 0 nor 1")
    return [name for name, value in values.items() if is_set(value)]


def _identifier(found: dict, columns: Columns) -> object:
    """Return the identifier of an object, which is in `document_id` as Annif has it if there is no other field."""
    if columns.id is not None:
        try:
            return _field(found, columns.id, "--id-column")
        except Malformed:
            if columns.id_needed:
                raise
    return found.get("id", found.get(DOCUMENT_ID))


def _field(found, name, option):
    """Return a field by its name, or by the names on the way to it; an option can give another name."""
    if name in found:
        return found[name]
    try:
        return _within(found, name.split("."))
    except KeyError:
        raise Malformed(absent("field", name, found, option) + _array_within(found)) from None


def _array_within(found: object) -> str:
    """Return what to do with an object that has the documents in one of its fields, or is a column of a table."""
    if not isinstance(found, dict):
        return ""
    if found and (all(key.isdigit() for key in found) or found.keys() == {"columns", "index", "data"}):
        return BY_PANDAS
    for name, value in found.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return f"; `jq -c {shlex.quote(f'.{name}[]')}` writes the objects in it, one a line"
    return ""


def _within(value, path):
    """Return what a value has at the end of a path of names; of a list, what each entry has. KeyError if it has not."""
    for place, part in enumerate(path):
        if isinstance(value, list):
            return [_within(entry, path[place:]) for entry in value if not _is_cancelled(entry)]
        if not isinstance(value, dict):
            raise KeyError(part)
        value = value[part]
    return value


def _is_cancelled(entry: object) -> bool:
    """Return whether an annotation is one that its author took back, as Label Studio marks it."""
    return isinstance(entry, dict) and entry.get("was_cancelled") is True


def _shown(value):
    """Return what messages call a value, as JSON calls it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return {dict: "an object", list: "a list"}.get(type(value)) or excerpt(value)


def _text(value: object, name: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join([_text(part, f"a part of {name}") for part in value])
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return str(value)
    raise Malformed(f"{name} is {_shown(value)}, which is not text{_array_within(value)}")


def _labels(value: object, name: str) -> list[str] | str:
    if value is None:
        return []
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        if all(type(label) is str for label in value):
            # As most are.
            return value
        return [_label(label, name) for label in _flattened(value) if label is not None and not _is_rejected(label)]
    if isinstance(value, dict) and value:
        # With texts it is a label, not an object of names and 0 or 1.
        return [_label(value, name)] if any(isinstance(own, str) for own in value.values()) else _flagged(value)
    if type(value) is int:
        return [str(value)]
    raise Malformed(f"{name} is {_shown(value)}, neither a list of labels nor text")


def _is_rejected(label: object) -> bool:
    """Return whether a label is an object whose value or score says that the document has not the label."""
    return isinstance(label, dict) and any(label[field] in (0, False) for field in WEIGHTS if field in label)


def _flattened(values: list) -> Iterator[object]:
    """Yield what is in a list and in lists within it, which are those of another field or of a hierarchy."""
    for value in values:
        if isinstance(value, list):
            yield from _flattened(value)
        else:
            yield value


def _label(value: object, field: str) -> str:
    """Return the name of a label: a text, or the URI or else the label in an object, as Annif has subjects."""
    if isinstance(value, dict):
        names = [value[key] for key in SUBJECT if value.get(key) is not None]
        if not names:
            texts = [key for key, other in value.items() if isinstance(other, str)]
            key = NAME if NAME in texts else next(iter(texts), None)
            advice = f"; --label-column {shlex.quote(f'{field}.{key}')} reads its {key}" if key else ""
            raise Malformed(f"a label in {field} is an object without {' and '.join(SUBJECT)}{advice}")
        value = names[0]
    if isinstance(value, float) and value.is_integer():
        # What pandas makes of a number where others are missing.
        value = int(value)
    return _text(value, f"a label in {field}")
