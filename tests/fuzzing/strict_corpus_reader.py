"""A second reader of corpora, slow and strict, that shares nothing with xmlgp.

It takes the whole text at once, with the default columns, in a format that is given.
"""

import json
import re

from tests.fuzzing.strict_readers import Malformed

__all__ = ["read_corpus"]

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def read_corpus(name, content):
    """Return for each document its line, identifier, text and the set of its labels; raise Malformed."""
    documents = []
    for number, identifier, text, labels in READERS[name](content):
        labels = {label.strip() for label in labels} - {""}
        if any(map(CONTROL.search, labels)):
            raise Malformed(number)
        documents.append((number, identifier, text, labels))
    return documents


def lines_of(content):
    """Yield the number and the text of each line."""
    rows = content.split(b"\n")
    if rows[-1] == b"":
        rows.pop()
    for number, row in enumerate(rows, 1):
        if number == 1 and row.startswith(b"\xef\xbb\xbf"):
            row = row[3:]
        try:
            yield number, re.sub("\r\\Z", "", row.decode())
        except UnicodeDecodeError:
            raise Malformed(number) from None


def read_annif(content):
    for number, line in lines_of(content):
        match = re.fullmatch(r"([^\t]*)\t(.*)", line, re.DOTALL)
        if match:
            names = re.findall(r"\S+", match[2])
            yield number, None, match[1], [re.sub(r"\A<(.*)>\Z", r"\1", name) for name in names]
        elif line.strip():
            raise Malformed(number)


def read_pecos(content):
    for number, line in lines_of(content):
        match = re.fullmatch(r"((?:[0-9]+(?:,[0-9]+)*)?)\t(.*)", line, re.DOTALL)
        if match:
            yield number, None, match[2], match[1].split(",")
        elif line.strip():
            raise Malformed(number)


def read_fasttext(content):
    for number, line in lines_of(content):
        words = re.findall(r"\S+", line)
        labels = [word[9:] for word in words if word[:9] == "__label__"]
        if words:
            yield number, None, " ".join(word for word in words if word[:9] != "__label__"), labels


def read_jsonl(content):
    def strictly(pairs):
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError
        return dict(pairs)

    def refuse(name):
        raise ValueError

    decoder = json.JSONDecoder(object_pairs_hook=strictly, parse_constant=refuse)
    first = next((line for _, line in lines_of(content) if line.strip()), "")
    is_array = re.match("[ \t\r]*\\[", first)
    for number, line in elements_of(content, decoder) if is_array else lines_of(content):
        if not line.strip():
            continue
        try:
            found = decoder.decode(line)
            text, labels, identifier = found["text"], found["labels"], found.get("id")
            labels = [labels] if isinstance(labels, str) else labels or []
            if not isinstance(labels, list) or found["labels"] in (False, 0, {}):
                raise ValueError
            if identifier is not None and type(identifier) not in (int, str):
                raise ValueError
            text, *labels = [as_text(value) for value in (text, *labels)]
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


def table(content, delimiter):
    rows = rows_of(content, delimiter)
    number, header = next(rows, (1, []))
    if header.count("text") != 1 or header.count("labels") != 1 or header.count("id") > 1:
        if content:
            raise Malformed(number)
        return
    for number, row in rows:
        if len(row) != len(header):
            raise Malformed(number)
        found = dict(zip(header, row, strict=True))
        yield number, found.get("id"), found["text"], found["labels"].split(";")


READERS = {
    "annif": read_annif,
    "pecos": read_pecos,
    "fasttext": read_fasttext,
    "jsonl": read_jsonl,
    "csv": lambda content: table(content, ","),
    "tsv": lambda content: table(content, "\t"),
}
