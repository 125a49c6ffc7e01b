"""A second reader of corpora, slow and strict, that shares nothing with xmlgp.

It takes the whole text at once, with the default columns, in a format that is given.
"""

import json
import re
import unicodedata

from tests.fuzzing.strict_readers import Malformed

__all__ = ["read_corpus"]

BLANKS = r" \t\n\r\v\f"

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def read_corpus(name, content):
    """Return for each document its line, identifier, text and the set of its labels; raise Malformed."""
    documents = []
    for number, identifier, text, labels in READERS[name](content):
        labels = {label_of(label) for label in labels} - {""}
        if any(map(CONTROL.search, labels)):
            raise Malformed(number)
        documents.append((number, identifier, text, labels))
    return documents


def label_of(label):
    """Return the name of a label as it is seen."""
    hidden = "\xad\u034f\u061c\u180e\u200b\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff"
    name = unicodedata.normalize("NFC", label.translate(dict.fromkeys(map(ord, hidden)))).strip()
    return re.sub(r"\A<((?:[A-Za-z][A-Za-z0-9+.-]*://|urn:)[^<>]*)>\Z", r"\1", name)


def names_in(text, separator, number):
    """Return the names in a text of labels in a line of this number."""
    stripped = text.strip()
    if stripped in ("[]", "{}", "()"):
        return []
    if stripped.startswith("[") and stripped.endswith("]"):
        try:
            values = [value for value in json.loads(stripped) if value is not None and value == value]
        except (ValueError, RecursionError):
            values = [None]
        if all(type(value) in (str, int) for value in values):
            return list(map(str, values))
        if separator is not None:
            raise Malformed(number)
        return [text]
    if re.fullmatch(r"\s*<[^<>]+>(\s*[,;|]?\s*<[^<>]+>)*\s*", text):
        return re.findall("<([^<>]+)>", text)
    return [text] if separator is None else re.split(rf"[\n\r\t\v\f]+|{separator}", text)


def lines_of(content):
    """Yield the number and the text of each line."""
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")
    rows = content.split(b"\n")
    if rows[-1] == b"":
        rows.pop()
    for number, row in enumerate(rows, 1):
        # Files with byte order marks may have been joined.
        row = row.removeprefix(b"\xef\xbb\xbf")
        try:
            yield number, re.sub("\r+\\Z", "", row.decode())
        except UnicodeDecodeError:
            raise Malformed(number) from None


def read_annif(content):
    for number, line in lines_of(content):
        match = re.search(r"\t(?:\s*<[^<>]+>)+\s*\Z", line) or re.search(r"\t.*", line, re.DOTALL)
        if match:
            field = match[0][1:]
            if not re.fullmatch(r"(?:\s*<[^<>]+>)+\s*", field) and "\t" in field.strip():
                raise Malformed(number)
            names = re.findall(rf"<[^<>]+>(?![^{BLANKS}<])|[^{BLANKS}]+", field)
            names = [re.sub(r"\A<([^<>]+)>\Z", r"\1", name) for name in names]
            if any(name.startswith("<") or name.endswith(">") for name in names):
                raise Malformed(number)
            yield number, None, line[: match.start()], names
        elif line.strip():
            raise Malformed(number)


def read_pecos(content):
    label = r"[0-9]+(?:::-?[0-9.]+(?:[eE][+-]?[0-9]+)?)?"
    for number, line in lines_of(content):
        match = re.fullmatch(rf"((?:{label}(?:,{label})*)?)\t(.*)", line, re.DOTALL)
        if match:
            pairs = [name.split("::") for name in match[1].split(",")]
            yield number, None, match[2], [pair[0] for pair in pairs if is_relevant(pair[1:])]
        elif line.strip():
            raise Malformed(number)


def is_relevant(relevance):
    try:
        return not relevance or float(relevance[0]) > 0
    except ValueError:
        return True


def read_fasttext(content):
    for number, line in lines_of(content):
        words = re.findall(rf"[^{BLANKS}]+", line)
        labels = [word[9:] for word in words if word[:9] == "__label__"]
        if words:
            yield number, None, " ".join(word for word in words if word[:9] != "__label__"), labels


def read_jsonl(content):
    def strictly(pairs):
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError
        return dict(pairs)

    def refuse(name):
        if name != "NaN":
            raise ValueError

    decoder = json.JSONDecoder(object_pairs_hook=strictly, parse_constant=refuse)
    first = next((line for _, line in lines_of(content) if line.strip()), "")
    is_array = re.match("[ \t\r]*\\[", first)
    for number, line in elements_of(content, decoder) if is_array else lines_of(content):
        if not line.strip():
            continue
        try:
            found = decoder.decode(line)
            text, labels, identifier = found["text"], found["labels"], found.get("id", found.get("document_id"))
            if isinstance(labels, str):
                labels = names_in(labels, None, number)
            elif isinstance(labels, dict) and any(isinstance(value, str) for value in labels.values()):
                labels = [labels]
            elif isinstance(labels, dict) and labels:
                labels = [name for name, value in labels.items() if is_flag(value)]
            elif labels is None:
                labels = []
            if not isinstance(labels, list):
                raise ValueError
            if identifier is not None and type(identifier) not in (int, str):
                raise ValueError
            text = " ".join(map(as_text, flat(text))) if isinstance(text, list) else as_text(text)
            labels = [as_label(value) for value in flat(labels) if value is not None]
            "".join([text, *labels, str(identifier)]).encode()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise Malformed(None if is_array else number) from None
        yield number, identifier, text, labels


def elements_of(content, decoder):
    """Yield the line where each element of an array starts, and the text of the element."""
    try:
        text = "\n".join(line for _, line in lines_of(content))
        elements, place = decoder.decode(text), text.index("[") + 1
    except (ValueError, RecursionError, Malformed):
        raise Malformed(None) from None
    for _ in elements:
        place = re.compile("[ \t\r\n,]*").match(text, place).end()
        end = decoder.raw_decode(text, place)[1]
        yield text.count("\n", 0, place) + 1, text[place:end]
        place = end


def flat(values):
    """Yield what is in a list and in the lists within it."""
    for value in values:
        if isinstance(value, list):
            yield from flat(value)
        else:
            yield value


def is_flag(value):
    if isinstance(value, list | dict):
        raise ValueError
    text = "" if value is None else str(value).strip().lower()
    if text in ("1", "1.0", "true", "yes", "y", "x"):
        return True
    if text not in ("0", "0.0", "false", "no", "n", "", "nan", "<na>", "none", "null"):
        raise ValueError
    return False


def as_label(value):
    if isinstance(value, dict):
        value = next(value[key] for key in ("uri", "label", None) if key is None or value.get(key) is not None)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return as_text(value)


def as_text(value):
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or value in (float("inf"), float("-inf")):
        raise ValueError
    return str(value)


def rows_of(content, delimiter):
    """Yield the line where each row starts, and its fields."""
    field, fields, start, state = "", [], None, "row"
    for number, line in lines_of(content):
        if state == "row":
            field, fields, start, state = "", [], number, "field"
            empty = not line.strip("\r")
        for place, character in enumerate(line + "\n"):
            if state == "field" and character == '"':
                state = "quoted"
            elif state == "quoted":
                if character == '"':
                    state = "closed"
                else:
                    field += character
            elif state == "closed" and character == '"':
                field, state = field + '"', "quoted"
            elif character in (delimiter, "\r", "\n"):
                fields.append(field)
                field, state = "", "field"
                if character != delimiter:
                    if line[place:].strip("\r"):
                        raise Malformed(start)
                    state = "row"
                    break
            elif state == "closed":
                raise Malformed(start)
            else:
                field, state = field + character, "plain"
        if state == "row" and not empty:
            yield start, fields
    if state != "row":
        raise Malformed(start)


def column(name, header):
    """Return the place of a column, or None."""
    if name not in header:
        alike = [other for other in header if other.strip().casefold() == name]
        return header.index(alike[0]) if len(alike) == 1 else None
    return header.index(name) if header.count(name) == 1 else None


def delimiter_of(line):
    for delimiter in ",;\t|":
        try:
            _, header = next(rows_of(line.encode(), delimiter), (1, []))
        except Malformed:
            continue
        if "text" in header or column("text", header) is not None:
            return delimiter
    return ","


def lines_with_tabs(content):
    """Yield the number and the fields of each line, in quotes where these balance within it."""
    width = None
    for number, line in lines_of(content):
        if not line:
            continue
        fields = line.split("\t")
        try:
            rows = list(rows_of(line.encode(), "\t"))
        except Malformed:
            rows = []
        if '"' in line and len(rows) == 1 and (width in (None, len(rows[0][1])) or len(fields) != width):
            fields = rows[0][1]
        width = width or len(fields)
        yield number, fields


def table(content, rows):
    number, header = next(rows, (1, []))
    places = {name: column(name, header) for name in ("text", "labels", "id")}
    if places["text"] is None or places["labels"] is None or header.count("id") > 1:
        if content:
            raise Malformed(number)
        return
    for number, row in rows:
        if not any(row):
            continue
        row = row[: len(header)] + list(filter(None, row[len(header) :]))
        if len(row) != len(header):
            raise Malformed(number)
        if row == header and len(header) > 1:
            continue
        identifier = None if places["id"] is None else row[places["id"]]
        text, labels = (
            "" if row[places[name]] in ("nan", "NaN", "<NA>") else row[places[name]] for name in ("text", "labels")
        )
        yield number, identifier, text, names_in(labels, ";", number)


def read_csv(content):
    first = next((line for _, line in lines_of(content)), "")
    return table(content, rows_of(content, delimiter_of(first)))


READERS = {
    "annif": read_annif,
    "pecos": read_pecos,
    "fasttext": read_fasttext,
    "jsonl": read_jsonl,
    "csv": read_csv,
    "tsv": lambda content: table(content, lines_with_tabs(content)),
}
