"""What the readers of text say: the whole sentence for each situation, once. Other tests check class and line."""

import sys

import pytest

from tests.text.corpora import documents_of, in_every_way, vectorized
from xmlgp.errors import DataFormatError
from xmlgp.text import delimited, json_objects
from xmlgp.text.documents import CorpusOptions

#: A depth that the decoder of JSON reaches, and Python functions do not. From 3.12 on, the decoder has another limit,
#: and a comprehension is no function any more.
NESTED = 900 if sys.version_info < (3, 12) else 1200

GOOD = b'{"text": "a b", "labels": ["x"]}\n'


def json_with(field):
    return GOOD + b'{"text": "", "labels": [], ' + field + b"}\n"


#: The name and the content of a file, the options, and the line and the sentence of the refusal.
REFUSED = [
    ("a.txt", b"one\tx\ntw\xff\ty\n", {},
     "2: byte 0xff at byte 3 of the line is not UTF-8; --encoding names its encoding, such as cp1252"),
    ("a.txt", b"one\tx\n\n\ntwo\xc3\n", {},
     "4: byte 0xc3 at byte 4 of the line is not UTF-8; --encoding names its encoding, such as cp1252"),
    ("a.txt", "one\tx\n".encode("utf-16"), {},
     "1: the file is UTF-16, not UTF-8; --encoding utf-16 reads it"),
    ("a.csv", "text,labels\na,x\n".encode("utf-16-le"), {},
     "1: the text has NUL bytes, as UTF-16 has; --encoding utf-16-le reads it"),
    ("a.txt", "one\tx\n".encode("utf-16-be"), {},
     "1: the text has NUL bytes, as UTF-16 has; --encoding utf-16-be reads it"),
    ("a.txt", b"one\tx\ntwo y\nbad \xff\n", {},
     "2: there is no tab between a text and its labels"),
    ("a.txt", b"1,2\ta\n3,\tb\n", {},
     "2: the labels before the tab must be nonnegative integers, separated by commas, as the first line has "
     "them; `--corpus-format annif` reads a text before its labels"),
    ("a.txt", b"1,2\ta\nb\n", {},
     "2: there is no tab between the numbers of labels and the text"),
    ("a.csv", b'text,labels\n"a\n\n",x\nb,y,z\n', {},
     "5: this row has 3 fields, but the header has 2"),
    ("a.csv", b"text,tags\na,x\n", {},
     "1: there is no column 'labels'; the columns are 'text', 'tags'; --label-column says which has the "
     "labels, several times if several have, or --label-columns which are labels with 0 and 1"),
    ("a.csv", b"Nummer;Inhalt;Thema\n1;Hallo, Welt;a\n", {"labels": "Thema"},
     "1: there is no column 'text'; the columns are 'Nummer', 'Inhalt', 'Thema'; --text-column says which has the "
     "text; if there is no header, --columns names the columns, as in --columns id,labels,text"),
    ("a.csv", b"\n", {},
     "1: there is no column 'text'; the columns are none; --text-column says which has the text; if there is "
     "no header, --columns names the columns, as in --columns id,labels,text"),
    ("a.csv", b"text,labels,text\na,x,b\n", {},
     "1: there are 2 columns 'text'"),
    ("a.csv", b'text,labels\na,x\n"b,y\nc,z\n', {},
     "3: a quoted field of the row that starts here has no closing quote; --no-quotes takes quotes as any "
     "other character, if no field needs them"),
    ("a.csv", b'text,labels\n"a"b,x\n', {},
     "2: a quote within a quoted field of the row that starts here is not doubled; --no-quotes takes quotes as "
     "any other character, if no field needs them"),
    ("a.csv", b"text,labels\na\rb,x\n", {},
     "2: the row that starts here has a carriage return that is neither quoted nor before a newline; "
     "--no-quotes takes quotes as any other character, if no field needs them"),
    ("a.txt", b"text\tlabels\na b\n", {},
     "2: this row has 1 field, but the header has 2"),
    ("a.jsonl", GOOD + b"nonsense\n", {},
     "2: this line is not JSON: Expecting value at column 1"),
    ("a.jsonl", GOOD + b"[1]\n", {},
     "2: this line is a list, not a JSON object"),
    ("a.jsonl", GOOD + GOOD.replace(b"}", b"} {}"), {},
     "2: this line is not JSON: Extra data at column 34; `jq -c .` writes each of several objects on a line"),
    ("a.jsonl", b'{"text": "a}\n', {},
     "1: this line is not JSON: Unterminated string starting at column 10"),
    ("a.jsonl", GOOD + b"[" * 100_000 + b"\n", {},
     "2: this line is not JSON: it is nested too deeply"),
    ("a.jsonl", json_with(b'"n": ' + b"9" * 5000), {},
     "2: this line is not JSON: a number has too many digits"),
    ("a.jsonl", json_with(b'"n": Infinity'), {},
     "2: this line is not JSON: JSON has no Infinity"),
    ("a.jsonl", GOOD + b'{"text": 1e999, "labels": []}\n', {},
     "2: text is inf, which is not text"),
    ("a.jsonl", GOOD + b'{"text": ["a", true], "labels": []}\n', {},
     "2: a part of text is true, which is not text"),
    ("a.jsonl", json_with(b'"a": {"b": 1, "b": 1}'), {},
     "2: this line is not JSON: an object has 'b' twice"),
    ("a.jsonl", GOOD + b'{"labels": []}\n', {},
     "2: there is no field 'text'; the fields are 'labels'; --text-column says which has the text"),
    ("a.jsonl", GOOD + b'{"text": "", "tags": "x"}\n', {},
     "2: there is no field 'labels'; the fields are 'text', 'tags'; --label-column says which has the labels"),
    ("a.jsonl", GOOD + b"{}\n", {},
     "2: there is no field 'text'; the fields are none; --text-column says which has the text"),
    ("a.jsonl", GOOD + b'{"text": "", "subjects": [[true]]}\n', {},
     "2: a label in subjects is true, which is not text"),
    ("a.jsonl", GOOD + b'{"text": "", "labels": {}}\n', {},
     "2: labels is an object, neither a list of labels nor text"),
    ("a.jsonl", GOOD + b'{"text": "", "labels": {"x": 2}}\n', {},
     "2: label 'x' has 2, which is neither 0 nor 1"),
    ("a.jsonl", GOOD + b"null\n", {},
     "2: this line is null, not a JSON object"),
    ("a.jsonl", GOOD + b'{"text": true, "labels": []}\n', {},
     "2: text is true, which is not text"),
    ("a.jsonl", GOOD + b'{"text": "", "labels": [{"name": "x"}]}\n', {},
     "2: a label in labels is an object without uri and label; --label-column labels.name reads its name"),
    ("a.json", b'{\n  "text": "",\n', {},
     "1: this line is not JSON: Expecting property name enclosed in double quotes at column 2; `jq -c .` "
     "writes each object on one line"),
    ("a.json", b"[" + GOOD + b", 17]\n", {},
     "2: element 2 is 17, not a JSON object"),
    ("a.json", b"[" + GOOD + b",\n\n" + GOOD + b",]\n", {},
     "5: element 3 is not JSON: Expecting value at column 1"),
    ("a.json", b"[" + GOOD + b",\n\n{\n'a': 1}\n]\n", {},
     "5: element 2 is not JSON: Expecting property name enclosed in double quotes at column 1"),
    ("a.json", b"[" + GOOD + b',\n{"text": {}}]\n', {},
     "3: element 2: text is an object, which is not text"),
    ("a.json", b"[" + GOOD + b"," + GOOD, {},
     "2: the JSON array has no end; the file may be truncated"),
    ("a.json", b"[" + GOOD + b',{"te\nxt": ""}]\n', {},
     "2: this line ends within a text in quotes"),
    ("a.json", b"[" + GOOD + b"]\n\n" + GOOD, {},
     "4: the JSON array ends before this"),
    ("a.json", b"[" + GOOD + b"}\n", {},
     "2: a brace closes the JSON array"),
    ("a.jsonl", json_with(b'"id": 1.5'), {},
     "2: id is 1.5, neither text nor an integer"),
    ("a.jsonl", json_with(b'"id": "\\ud800"'), {},
     "2: an escape sequence is half of a surrogate pair"),
    ("a.jsonl", GOOD + b'{"text": "", "labels": ["\\ud800"]}\n', {},
     "2: an escape sequence is half of a surrogate pair"),
    ("a.txt", b"text,labels\nfox,[x]\n", {},
     "2: the labels '[x]' are no list of names in quotes, as JSON and Python write it; --label-separator , "
     "divides a list without quotes"),
    ("a.txt", b"text\tlabels\nfox\t\"x\nhen\ty\n\"dog\n", {},
     "4: this row has 1 field, but the header has 2; --quotes reads fields in quotes that have tabs or line "
     "ends"),
    ("a.txt", b"one\ttwo\tx\n", {},
     "1: there is no column 'text'; the columns are 'one', 'two', 'x'; --text-column says which has the text; "
     "if there is no header, --columns names the columns, as in --columns id,labels,text"),
    ("a.txt", b"one\tx\ntwo\tmore\tx\n", {},
     "2: there are several tabs; a text with tabs needs labels in brackets, `<label> <label>`, and the columns "
     "of a table without a header need --columns"),
    ("a.txt", b"one\t<x> <y\n", {},
     "1: a label has a bracket without the other one, in '<x> <y'"),
    ("a.txt", b"one\t<x> y>\n", {},
     "1: a label has a bracket without the other one, in '<x> y>'"),
    ("a.txt", b"title\tbody\ttags\na\tb\tc\n", {},
     "1: there is no column 'text'; the columns are 'title', 'body', 'tags'; --text-column says which has the "
     "text; if there is no header, --columns names the columns, as in --columns id,labels,text"),
    ("a.txt", b"1 3 2\n0 0:1\n", {},
     "1: these are rows of numbers, not text"),
    ("a.txt", b"some text\n", {},
     "1: the first line must be three nonnegative integers `N D K`, not 'some text', or that of a corpus with "
     "labels: `text<TAB>label label ...`, a JSON object, __label__, or a header with a column for the text"),
    ("a.jsonl", '{"text": "a", "labels": [1.0, 0.0, 1.0]}\n', {},
     "1: the labels are a list of 0 and 1, which names none; write the names, or a column for each label and "
     "give --label-columns"),
    ("a.csv", "text,labels\na,[1 0 1]\n", {},
     "2: the labels are a list of 0 and 1, which names none; write the names, or a column for each label and "
     "give --label-columns"),
    ("a.csv", "text,labels\na,1 0 1\n", {},
     "2: the labels are a list of 0 and 1, which names none; write the names, or a column for each label and "
     "give --label-columns"),
    ("a.txt", '"__label__x cat"\n', {},
     "1: a quote is before __label__; lines of fastText have no quotes around them"),
    ("a.txt", "sentence\tlabel\na\tx\n", {},
     "1: this seems to be the header of a table; `--text-column sentence --label-column label` reads its "
     "columns, and `--columns text,labels` a table without a header"),
    ("a.jsonl", '{"data": [{"text": "a"}]}\n', {},
     "1: there is no field 'text'; the fields are 'data'; --text-column says which has the text; `jq -c "
     "'.data[]'` writes the objects in it, one a line"),
    ("a.json", '[{"text": {"0": "a"}, "labels": {"0": "x"}}]\n', {},
     "1: element 1: text is an object, which is not text; pandas writes documents by to_json(path, "
     "orient='records', lines=True)"),
    ("a.txt", "__labelA__x __LABEL__y cat\n", {},
     "1: a label begins with __label__, unlike '__labelA__x'; `sed` can replace the prefix"),
    ("a.json", '{"text": {"0": "a"}}\n', {},
     "1: text is an object, which is not text; pandas writes documents by to_json(path, orient='records', "
     "lines=True)"),
    ("a.json", '{"text": "a"}{"text": "b"}\n', {},
     "1: this line is not JSON: Extra data at column 14; `jq -c .` writes each of several objects on a line"),
    ("a.txt", "1984\tnovel\nDune\tnovel\n", {},
     "2: the labels before the tab must be nonnegative integers, separated by commas, as the first line has "
     "them; `--corpus-format annif` reads a text before its labels"),
    ("a.jsonl", "{'text': 'a'}\n", {},
     "1: this line is not JSON: Expecting property name enclosed in double quotes at column 2; this is how "
     "Python shows a dict, json.dumps writes JSON"),
    ("a.xml", '<?xml version="1.0"?>\n<a>cat</a>\n', {"labelled": False},
     "1: this is markup, not lines of text; extract the texts from it first"),
    ("a.txt", "one x\n", {"format": "annif"},
     "1: there is no tab between a text and its labels"),
    ("a", "x\n", {"format": "jsonl"},
     "1: this line is not JSON: Expecting value at column 1"),
    ("a.csv", "title,tags\na,b\n", {"text": ("title", "body")},
     "1: there is no column 'body'; the columns are 'title', 'tags'; --text-column says which has the text"),
    ("a.csv", "title,tags\na,b\n", {"text": "title", "labels": "topics"},
     "1: there is no column 'topics'; the columns are 'title', 'tags'; --label-column says which has the "
     "labels, several times if several have, or --label-columns which are labels with 0 and 1"),
    ("a.csv", "title,tags\na,b\n", {"text": "title", "labels": "tags", "id": "key"},
     "1: there is no column 'key'; the columns are 'title', 'tags'; --id-column says which has the identifiers"),
    ("a.jsonl", '{"text": {"a": "x"}}\n', {"text": "text.a.c"},
     "1: there is no field 'text.a.c'; the fields are 'text'; --text-column says which has the text"),
    ("a.jsonl", '{"text": {"a": "x"}}\n', {"text": "."},
     "1: there is no field '.'; the fields are 'text'; --text-column says which has the text"),
    ("a.txt", "animals\tcat purrs\nhome\tchair and table\nhome\ta chair\n", {},
     "1: the labels seem to be before the tab, such as 'animals', and the text after it; `--columns "
     "labels,text` reads them so, with --label-separator ' ' if blanks separate labels, and `--corpus-format "
     "annif` as text before labels"),
    ("a.txt", "2000\tanimals\tcat\n2001\thome\tchair\n", {},
     "1: each line has another number before its first tab, such as 2000, as identifiers are, and more tabs; "
     "`--columns id,labels,text`, in the order of the columns, reads a table without a header, and "
     "`--corpus-format pecos` takes the numbers as labels"),
    ("a.txt", "d0\tanimals\tcat\n", {},
     "1: there is no column 'text'; the columns are 'd0', 'animals', 'cat'; --text-column says which has the "
     "text; if there is no header, --columns names the columns, as in --columns id,labels,text"),
    ("a.txt", "title\ttext\tlabels\na\tb\tc\n", {"format": "annif"},
     "1: this seems to be the header of a table; `--text-column title --label-column labels` reads its "
     "columns, and `--columns text,labels` a table without a header"),
    ("a.tsv", 'text\tlabels\n"two\nlines"\tx\n', {},
     "2: this row has 1 field, but the header has 2; --quotes reads fields in quotes that have tabs or line "
     "ends"),
    ("a.csv", 'text,labels\n"a,x\nb,y\n', {},
     "2: a quoted field of the row that starts here has no closing quote; --no-quotes takes quotes as any "
     "other character, if no field needs them"),
    ("a.csv", 'text,labels\ncat,"[animals, home]"\n', {},
     "2: the labels '[animals, home]' are no list of names in quotes, as JSON and Python write it; "
     "--label-separator , divides a list without quotes"),
    ("a.csv", 'text,labels\ncat,"[\'a\' ... \'z\']"\n', {},
     '2: the labels "[\'a\' ... \'z\']" are no list of names in quotes, as JSON and Python write it; '
     "json.dumps of Python writes lists"),
    ("a.jsonl", '{"text": "a", "x": "[b \'c\']", "y": "d"}\n', {"labels": ("x", "y"), "separator": ","},
     '1: the labels "[b \'c\']" are no list of names in quotes, as JSON and Python write it; json.dumps of '
     "Python writes lists"),
    ("a.csv", "text,a,b\ncat,1,2\n", {"flags": "a:b"},
     "2: column 'b' has '2', which is neither 0 nor 1"),
    ("a.csv", "text,a,b\ncat,1,2\n", {"flags": "x_*"},
     "1: no column is 'x_*', as --label-columns says; the columns are 'text', 'a', 'b'; --label-column names a "
     "column of labels in their place"),
    ("a.jsonl", '{"text": "", "a": 2}\n', {"flags": "a"},
     "1: label 'a' has 2, which is neither 0 nor 1"),
    ("a.jsonl", '{"text": "", "a": 2}\n', {"flags": "b"},
     "1: no field is 'b', as --label-columns says; the fields are 'text', 'a'; --label-column names a field of "
     "labels in their place"),
    ("a.jsonl", '{"text": "a", "labels": [{"id": 9, "name": "x"}]}\n', {},
     "1: a label in labels is an object without uri and label; --label-column labels.name reads its name"),
    ("a.jsonl", '{"text": ' + "[" * NESTED + "]" * NESTED + ', "labels": ["a"]}\n', {},
     "1: this line is nested too deeply"),
    ("a.jsonl", '{"text": "a", "labels": {"name": "x"}}\n', {},
     "1: a label in labels is an object without uri and label; --label-column labels.name reads its name"),
    ("a", "1\ta text\n", {"header": "id,labels,text", "labelled": False},
     "1: this row has 2 fields, but --columns names 3"),
    ("a.csv", "text,labels\na,x\n", {"merge_ids": True},
     "2: there is no identifier, which --merge-ids needs; --id-column names its column"),
    ("a.csv", "id,text,labels\n1,a,x\n,b,x\n", {"merge_ids": True},
     "3: there is no identifier, which --merge-ids needs; --id-column names its column"),
    ("a.txt", "a\tx\n", {"merge_ids": True},
     "1: there is no identifier, which --merge-ids needs; --id-column names its column"),
    ("a", b"one\tx\ntw\xff\ty\n", {"format": "annif", "encoding": "ascii"},
     "2: this line is not ascii"),
    ("a", b"one\tx\n", {"format": "annif", "encoding": "utf-16"},
     "1: this is not utf-16: it does not start with a byte order mark"),
]  # fmt: skip

#: The same with the notes, those about a line after its number.
NOTED = [
    ("a.csv", "text,labels,labels.1\na,x,y\n", {},
     ["column 'labels.1' is not read; another --label-column reads it too"]),
    ("a.csv", "text,labels\na,True\nb,False\n", {},
     ["the labels in 'labels' are False and True; if columns are labels that the rows with 1 have, "
      "--label-columns names them, as in --label-columns 'topic_*' or FIRST:LAST"]),
    ("a.txt", "__label__a, __label__b cat\n", {},
     ["labels such as 'a,' have what separates or quotes labels elsewhere"]),
    ("a.csv", 'text,labels\na,"Smith, John|Doe, Jane"\n', {},
     ["labels such as 'Smith, John|Doe, Jane' have a bar in 100% of the rows; if it separates labels, give "
      "--label-separator '|'"]),
    ("a.txt", 'cat\t"a"\n', {},
     ['labels such as \'"a"\' have what separates or quotes labels elsewhere']),
    ("a.jsonl", '{"text": "a", "labels": [{"label": "x", "score": 0.02}]}\n', {},
     ["labels have scores such as 0.02; each counts as a label unless its score is 0"]),
    ("a.jsonl", '{"text": "a", "labels": ["x"], "answer": "reject"}\n', {},
     ["1: 1 object has the answer reject or ignore, which count as others do; jq -c 'select(.answer == "
      '"accept")\' leaves them out']),
    ("a.txt", "__label__Domestic animals\tcat dog\n", {},
     ["names before a tab have blanks, such as 'Domestic animals'; what follows a blank counts as text, unless "
      "another character takes its place"]),
    ("a.txt", "cat\ta,b\n", {},
     ["labels such as 'a,b' have a comma in 100% of the rows; if it separates labels, give --label-separator ,"]),
    ("a.csv", "id,text,labels\nid,text,labels\n1,nan,animals\n", {},
     ["1 row is the header again; left out",
      "1 cell counts as empty, with nan or another mark of no value"]),
    ("a.csv", 'id,text,labels\n1,cat,animals\n2,"chair,home\n3,bread,food\n4,dog",animals\n5,soup,home\n', {},
     ["3: 1 row has other rows within quotes; if quotes are characters there, --no-quotes"]),
    ("a.csv", "text,labels\n" + "cat,0\ndog,1\n" * 3, {},
     ["the labels in 'labels' are 0 and 1; if columns are labels that the rows with 1 have, --label-columns "
      "names them, as in --label-columns 'topic_*' or FIRST:LAST"]),
    ("a.csv", "id, Text ,Labels\n1,cat,animals\n", {"header": "id,labels,text"},
     ["the first line has the names of --columns as id,  Text , Labels, which count here",
      "1 row is the header again; left out"]),
    ("a.txt", "".join(f"cat\t<http://a/{number}>\n" for number in range(6)), {},
     ["each label, such as 'http://a/0', occurs once; if columns are in another order, --columns names them, "
      "as in --columns id,labels,text"]),
    ("a.txt", "".join(f"__label__{number} cat\n" for number in range(6)), {},
     ["each label, such as '0', occurs once; if columns are in another order, --columns names them, as in "
      "--columns id,labels,text"]),
    ("a.txt", "cat\rdog\n\nbird\n", {"labelled": False},
     ["1: 1 line has a carriage return before the end, which counts as a blank, not as an end"]),
    ("a.txt", "id,Body\n1,a cat\n", {"labelled": False},
     ["each line is read as a text; if it is a table, --text-column says which column has the text"]),
    ("a.csv", "id,text,labels\n" + "1,cat,x\n1,,y\n" * 3, {},
     ["83% of the rows have the identifier (such as '1') of an earlier row, and its text or none; --merge-ids "
      "makes them one document with all labels"]),
]  # fmt: skip


def read(path, options, note=lambda text: None):
    options = dict(options)
    labelled = options.pop("labelled", True)
    return documents_of(path, CorpusOptions(**options), labelled=labelled, note=note)


def encoded(content):
    return content if isinstance(content, bytes) else content.encode()


@pytest.mark.parametrize(("name", "content", "options", "sentence"), REFUSED, ids=lambda value: repr(value)[:50])
def test_a_file_is_refused_with_its_line(tmp_path, monkeypatch, name, content, options, sentence):
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)

    def refusal(path):
        with pytest.raises(DataFormatError) as caught:
            read(path, options)
        return str(caught.value).removeprefix(f"{path}:")

    assert in_every_way(tmp_path / name, encoded(content), refusal) == sentence
    assert sentence.isprintable()


@pytest.mark.parametrize(("name", "content", "options", "sentences"), NOTED, ids=lambda value: repr(value)[:50])
def test_what_was_hardly_meant_is_noted(tmp_path, name, content, options, sentences):
    def notes(path):
        notes = []
        read(path, options, notes.append)
        return [note.removeprefix(f"{path}:").strip() for note in notes]

    assert in_every_way(tmp_path / name, encoded(content), notes) == sentences


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (GOOD + b'{"text": "", "labels": ["a\\tb"]}\n', 2, r"label 'a\tb' has a control character, U+0009"),
        (b"words\tx\nmore\ty a\x1b[2J\n", 2, r"label 'a\x1b[2J' has a control character, U+001B"),
        (b"text,labels\na,x\n\nb,\"y\x7f\"\n", 4, r"label 'y\x7f' has a control character, U+007F"),
    ],
)  # fmt: skip
def test_labels_with_control_characters_are_refused(tmp_path, content, line, reason):
    path = tmp_path / "corpus"
    with pytest.raises(DataFormatError) as caught:
        vectorized(path, content)
    assert str(caught.value) == f"{path}:{line}: {reason}"


def test_a_field_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited, "LONGEST_FIELD", 1000)
    path = tmp_path / "a.csv"
    for field in (b'"' + b"x\n" * 600, b"x" * 1200):
        path.write_bytes(b"text,labels\nb,y\n" + field + b"\n" * 9)
        with pytest.raises(DataFormatError) as caught:
            documents_of(path)
        reason = "a field of the row that starts here has more than 1000 characters; is a quote not closed?"
        assert str(caught.value) == f"{path}:3: {reason}"


def test_an_element_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json_objects, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "a.json"
    path.write_bytes(b"[" + (GOOD + b",\n") * 99 + b"\n{\n" + b'"a": [1,\n' * 200)
    with pytest.raises(DataFormatError, match="a.json:200: the element that starts here is longer than 0 MiB"):
        documents_of(path)
