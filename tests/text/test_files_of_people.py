"""Corpora as people have them: read with the right value, or refused with a way out that works."""

import csv
import json
import unicodedata

import numpy as np
import pytest

from tests.cli.command import run
from tests.text.corpora import documents_of, in_every_way
from xmlgp.errors import DataFormatError
from xmlgp.text import written_lists
from xmlgp.text.documents import NO_OPTIONS, Columns, CorpusOptions, Document
from xmlgp.text.headerless import tab_before_brackets
from xmlgp.text.label_rows import divide_labels
from xmlgp.text.vocabulary import read_vocabulary

ROWS = [
    ("cat dog purrs", ["animals"]),
    ("table chair stands", ["home"]),
    ("dog on the chair", ["animals", "home"]),
    ("bread and cheese", ["food"]),
    ("cheese for the cat", ["food", "animals"]),
    ("soup on the table", ["food", "home"]),
]
NAMES = ["animals", "food", "home"]


def read(path, content, options=NO_OPTIONS, **arguments):
    """Return the texts and labels of a corpus, in each way to read it, and its notes."""
    notes = []
    content = content if isinstance(content, bytes) else content.encode()

    def rows(path):
        found = documents_of(path, options, note=notes.append, **arguments)
        return [(document.text, document.labels) for document in found]

    found = in_every_way(path, content, rows)
    # Of each way to read it.
    return found, sorted({note.partition(": ")[2] for note in notes})


def line_of_refusal(path, *arguments, **options):
    """Return the line of a corpus that is refused; `test_messages.py` has the sentences."""
    with pytest.raises(DataFormatError) as caught:
        documents_of(path, *arguments, **options)
    return caught.value.line


def succeed(*arguments, **options):
    """Run a command that succeeds."""
    result = run(*arguments, **options)
    assert result.exit_code == 0, result.stderr
    return result


def lines(shape):
    return "".join(shape(text, labels) + "\n" for text, labels in ROWS)


# Order of columns


def labels_first(text, labels):
    return f"{' '.join(labels)}\t{text}"


def test_labels_before_a_text_are_refused_and_read_as_the_advice_says(tmp_path):
    content = lines(labels_first)
    for copies in 1, 50:
        assert line_of_refusal(write(tmp_path / "a.txt", content * copies)) == 1
    options = CorpusOptions(header="labels,text", separator=" ")
    assert read(tmp_path / "a.txt", content, options)[0] == ROWS
    # As the message says, the other order is possible too.
    found, _ = read(tmp_path / "a.txt", content, CorpusOptions(format="annif"))
    assert found[0] == ("animals", ["cat", "dog", "purrs"])


def test_labels_after_a_title_that_is_shorter_are_read(tmp_path):
    content = lines(lambda text, labels: f"{text.split()[0]}\t{' '.join(labels * 2)}")
    assert [labels[: len(labels) // 2] for _, labels in read(tmp_path / "a.txt", content)[0]] == [
        own for _, own in ROWS
    ]


def test_titles_that_are_shorter_than_their_labels_are_no_labels(tmp_path):
    rows = [("Annual report", [f"http://x/{place % 53}", f"http://x/{place % 50}x"]) for place in range(60)]
    content = "".join(f"{text}\t{' '.join(labels)} {labels[0]}y\n" for text, labels in rows)
    assert [labels[:2] for _, labels in read(tmp_path / "a.txt", content)[0]] == [labels for _, labels in rows]
    # Names in place of URIs may be words of a text, but not one of many repeats one.
    words = ["Annual", "Report", "Study", "Survey", "Notes"]
    texts = [f"{one} {two} {year}" for one in words for two in words for year in range(5)]
    rows = [(text, [f"tag{place * factor % 97}" for factor in (3, 5, 7, 11)]) for place, text in enumerate(texts)]
    rows = [(text, list(dict.fromkeys(labels))) for text, labels in rows]
    content = "".join(f"{text}\t{' '.join(labels)}\n" for text, labels in rows)
    found, notes = read(tmp_path / "a.txt", content)
    assert found == rows
    assert notes == [
        "'Annual Annual 0' is read as a text, and the words after the tab as labels; `--columns labels,text` reads "
        "them the other way round"
    ]


@pytest.mark.parametrize("first", ["id,text,labels", "ID, Text ,Labels", "id,labels,text"])
def test_a_header_that_has_the_given_names_counts(tmp_path, first):
    content = f"{first}\n" + "".join(f"{','.join((own.strip().lower() + '1') for own in first.split(','))}\n" * 2)
    found, notes = read(tmp_path / "a.csv", content, CorpusOptions(header="id,labels,text"))
    assert found == [("text1", ["labels1"])] * 2
    assert len(notes) == (2 if first == "id,labels,text" else 3)


def test_lines_that_may_be_rows_of_a_model_are_noted(tmp_path):
    notes = []
    columns = Columns(header=("id", "labels", "text"))
    path = write(tmp_path / "rows", "1,animals,cat\n")
    found = documents_of(path, usual=columns, labelled=False, note=notes.append)
    assert [document.text for document in found] == ["1,animals,cat"]
    assert notes == [f"{path}: each line is a text; --corpus-format csv reads the columns of the model, at commas"]
    (document,) = documents_of(path, CorpusOptions(format="csv"), usual=columns, labelled=False)
    assert (document.id, document.text) == ("1", "cat")


def test_a_line_of_usual_names_is_a_header_only_with_a_tab(tmp_path):
    path = write(tmp_path / "a.txt", "title\ncat\n")
    assert len(documents_of(path, CorpusOptions(format="annif"), labelled=False)) == 2
    path = write(tmp_path / "a.txt", "title\ttext\tlabels\na\tb\tc\n")
    assert line_of_refusal(path, CorpusOptions(format="annif")) == 1


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_an_identifier_in_front_is_refused_and_read_as_the_advice_says(tmp_path):
    content = "".join(f"{2000 + place}\t{labels_first(*row)}\n" for place, row in enumerate(ROWS))
    assert line_of_refusal(write(tmp_path / "a.txt", content)) == 1
    options = CorpusOptions(header="id,labels,text", separator=" ")
    assert read(tmp_path / "a.txt", content, options)[0] == ROWS
    assert [document.id for document in documents_of(tmp_path / "a.txt", options)] == [f"{2000 + i}" for i in range(6)]
    named = content.replace("200", "d")
    assert line_of_refusal(write(tmp_path / "a.txt", named)) == 1
    assert read(tmp_path / "a.txt", named, options)[0] == ROWS


def test_a_table_without_a_header_is_read_by_names_of_its_columns_which_the_model_remembers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{place},{text},{';'.join(labels)}\n" for place, (text, labels) in enumerate(ROWS * 3))
    write(tmp_path / "a.csv", rows)
    settings = ["-P", "1", "--epochs", "1", "--no-label-weights", "--set", "regression_points=0"]
    succeed("train", "a.csv", "model", "--columns", "id,text,labels", *settings)
    answers = [json.loads(line) for line in succeed("predict", "-q", "model", "a.csv").stdout.splitlines()]
    assert [answer["id"] for answer in answers] == list(map(str, range(18)))
    # Text alone, as it has no such columns.
    (answer,) = succeed("predict", "-q", "model", "-", stdin="a cat\n").stdout.splitlines()
    assert json.loads(answer)["id"] == 1


def test_the_relevance_of_pecos_is_no_part_of_a_label(tmp_path):
    content = "10::2.0\tcat dog\tpurrs\n10::2.0,11::0.5,12::0\tdog\n\tno label\n3,4\tplain\n"
    expected = [("cat dog\tpurrs", ["10"]), ("dog", ["10", "11"]), ("no label", []), ("plain", ["3", "4"])]
    assert read(tmp_path / "a.txt", content)[0] == expected


@pytest.mark.parametrize(
    ("shape", "noted"),
    [
        (lambda place, text: f"{place}\t{text}", True),
        (lambda place, text: f"{place % 3}\t{text}", False),
        (lambda place, text: f"__label__{text.split()[0]}{place} {text}", True),
        (lambda place, text: f"__label__{place % 2} {text}", False),
        (lambda place, text: f"{text}\t<http://a/{place}>", True),
    ],
)
def test_labels_that_each_occur_once_are_noted(tmp_path, shape, noted):
    content = "".join(shape(place, text) + "\n" for place, (text, _) in enumerate(ROWS))
    assert len(read(tmp_path / "a.txt", content)[1]) == noted


def test_labels_that_look_like_texts_are_noted_in_a_folder(tmp_path):
    for place, (text, _) in enumerate(ROWS):
        write(tmp_path / f"{place}.txt", "animals\n")
        write(tmp_path / f"{place}.key", f"{text}, as it was seen by us.\n")
    notes = []
    with_labels = run("vectorize", tmp_path, tmp_path.parent / "out")
    assert "look like texts" in with_labels.stderr, notes


# Ends of lines


@pytest.mark.parametrize("case", ["annif", "fasttext", "pecos", "lines", "csv", "jsonl", "tsv"])
def test_carriage_returns_alone_end_lines(tmp_path, case):
    shapes = {
        "annif": lambda text, labels: f"{text}\t{' '.join(f'<http://x/{name}>' for name in labels)}",
        "fasttext": lambda text, labels: " ".join([*(f"__label__{name}" for name in labels), text]),
        "pecos": lambda text, labels: f"{','.join(str(NAMES.index(name)) for name in labels)}\t{text}",
        "lines": lambda text, labels: text,
        "csv": lambda text, labels: f'"{text}",{";".join(labels)}',
        "tsv": lambda text, labels: f"{text}\t{';'.join(labels)}",
        "jsonl": lambda text, labels: json.dumps({"text": text, "labels": labels}),
    }
    header = {"csv": "text,labels\n", "tsv": "text\tlabels\n"}.get(case, "")
    content = header + lines(shapes[case])
    labelled = case != "lines"
    expected, _ = read(tmp_path / "a", content, labelled=labelled)
    assert len(expected) == len(ROWS)
    for ending in "\r", "\r\r\n", "\r\n":
        assert read(tmp_path / "a", content.replace("\n", ending), labelled=labelled)[0] == expected
    # The last line may lack its end.
    assert read(tmp_path / "a", content.replace("\n", "\r")[:-1], labelled=labelled)[0] == expected


def test_carriage_returns_alone_end_the_lines_of_vocabularies_and_folders(tmp_path):
    vocabulary = "".join(f"<http://x/{name}>\tthe {name}\r" for name in NAMES)
    found = read_vocabulary(write(tmp_path / "words.tsv", vocabulary))
    assert found.concepts["http://x/food"] == ("http://x/food", "the food")
    write(tmp_path / "docs.txt", "")
    folder = tmp_path / "docs"
    folder.mkdir()
    write(folder / "a.txt", "one\rtwo\r")
    write(folder / "a.key", "animals\rhome\r")
    succeed("vectorize", folder, tmp_path / "out")
    assert (tmp_path / "out" / "labels.txt").read_text() == "animals\nhome\n"


def test_a_carriage_return_within_a_line_is_noted(tmp_path):
    found, notes = read(tmp_path / "a.txt", "cat\rdog\n\nbird\n", labelled=False)
    assert [text for text, _ in found] == ["cat\rdog", "", "bird"]
    assert len(notes) == 1


# Quotes


def test_quotes_in_tsv_count_where_they_balance_within_a_line(tmp_path):
    content = (
        'id\ttext\tlabels\n1\tcat dog purrs\tanimals\n2\t"Table chair stands\thome\n3\tbread and cheese\tfood\n'
        '4\tdog sleeps"\tanimals\n5\t"Cats" and dogs\tanimals\n6\t"a ""b""\tc"\thome\n7\t6" plain\tfood\n'
    )
    texts = ["cat dog purrs", '"Table chair stands', "bread and cheese", 'dog sleeps"', '"Cats" and dogs', 'a "b"\tc']
    found, _ = read(tmp_path / "a.tsv", content)
    assert [text for text, _ in found] == [*texts, '6" plain']
    labels = ["animals", "home", "food", "animals", "animals", "home", "food"]
    assert [own for _, own in found] == [[name] for name in labels]


def test_quoted_lines_of_tsv_need_the_option_that_the_message_names(tmp_path):
    content = 'text\tlabels\n"two\nlines"\tx\n'
    assert line_of_refusal(write(tmp_path / "a", content)) == 2
    assert read(tmp_path / "a", content, CorpusOptions(quotes=True))[0] == [("two\nlines", ["x"])]


def test_rows_that_a_quote_made_one_are_noted_and_read_apart_without_quotes(tmp_path):
    content = 'id,text,labels\n1,cat,animals\n2,"chair,home\n3,bread,food\n4,dog",animals\n5,soup,home\n'
    found, notes = read(tmp_path / "a.csv", content)
    assert len(found) == 3
    assert len(notes) == 1
    found, notes = read(tmp_path / "a.csv", content, CorpusOptions(quotes=False))
    assert [labels for _, labels in found] == [["animals"], ["home"], ["food"], ["animals"], ["home"]]
    assert notes == []
    # Texts of several lines are usual.
    plain = 'id,text,labels\n1,"Dear all,\nthe chair, as I said, is broken,\nyours",home\n2,x,food\n'
    assert read(tmp_path / "a.csv", plain)[1] == []
    assert line_of_refusal(write(tmp_path / "a.csv", 'text,labels\n"a,x\nb,y\n')) == 2


def test_long_rows_in_quotes_are_read_as_others(tmp_path):
    previous = csv.field_size_limit(1 << 17)  # as in a new process
    try:
        text = "word " * 30_000
        found, _ = read(tmp_path / "a.tsv", f'"text"\t"labels"\n"{text}"\t"animals;home"\n')
    finally:
        csv.field_size_limit(previous)
    assert found == [(text, ["animals", "home"])]


# What separates labels, and what is around them


@pytest.mark.parametrize(
    "name", ["<http://x/animals>", "http://x/animals", "  <http://x/animals> ", "<urn:x:1>", "http://x/a\u0308b"]
)
def test_a_label_has_one_name_in_all_formats(tmp_path, name):
    plain = unicodedata.normalize("NFC", name.strip().strip("<>"))
    table = tmp_path / "a.csv"
    write(table, f'text,labels\ncat,"{name}"\n')
    write(tmp_path / "a.jsonl", json.dumps({"text": "cat", "labels": [name]}) + "\n")
    write(tmp_path / "a.txt", f"cat\t{name}\n")
    write(tmp_path / "b.txt", f"__label__{name.strip()} cat\n")
    for file in "a.csv", "a.jsonl", "a.txt", "b.txt":
        succeed("vectorize", "-q", tmp_path / file, tmp_path / "out")
        assert (tmp_path / "out" / "labels.txt").read_text() == plain + "\n"


def test_a_text_before_labels_in_brackets_may_have_tabs(tmp_path):
    content = "cat\tdog\t<http://x/a> <http://x/b>\nbird\t<http://x/c>\t<http://x/d>\n<b>\t<http://x/a>\n"
    expected = [("cat\tdog", ["http://x/a", "http://x/b"]), ("bird", ["http://x/c", "http://x/d"])]
    assert read(tmp_path / "a.txt", content)[0] == [*expected, ("<b>", ["http://x/a"])]


@pytest.mark.parametrize(
    ("text", "separator", "expected"),
    [
        ("['animals', 'home']", None, ["animals", "home"]),
        ("('animals',)", None, ["animals"]),
        ("{'animals', \"dog's\"}", None, ["animals", "dog's"]),
        ("['animals' 'home'\n 'food']", None, ["animals", "home", "food"]),
        ("array(['animals', 'home'], dtype=object)", None, ["animals", "home"]),
        ("array(['animals'], dtype='<U7')", None, ["animals"]),
        ('["a", "b, c"]', None, ["a", "b, c"]),
        ("[1, 2]", None, ["1", "2"]),
        ("[None, nan, 'a']", None, ["a"]),
        ("[]", None, []),
        ("set()", None, []),
        ("['animals', 'home']", ",", ["animals", "home"]),
        ("[animals, home]", ",", ["animals", " home"]),
        ("(animals)", None, ["(animals)"]),
        ("{animals}", ",", ["animals"]),
        ("a\nb;c\td", None, ["a", "b", "c", "d"]),
        ("<animals><home>", None, ["animals", "home"]),
        ("<http://x/a>, <http://x/b>", None, ["http://x/a", "http://x/b"]),
        ("<http://x/a> <http://x/b>", " ", ["http://x/a", "http://x/b"]),
        ("a <b>; c", None, ["a <b>", " c"]),
        ("New\u00a0York Rome", " ", ["New\u00a0York", "Rome"]),
        ("[007, 8]", None, ["007", "8"]),
        ("[" + "1" * 5000 + "]", None, ["1" * 5000]),
        (r"['C:\xyz', 'a\\b']", None, [r"C:\xyz", r"a\b"]),
        ("[np.str_('a'), np.str_(\"b's\")]", None, ["a", "b's"]),
        ("<init>;toString", None, ["init", "toString"]),
    ],
)
def test_labels_in_a_cell_are_divided(text, separator, expected):
    assert divide_labels(text, separator, ";") == expected


@pytest.mark.parametrize("text", ["[animals, home]", "['a', ['b']]", "['a' ... 'z']", "[1.5]", "[true]", "['a'"])
def test_what_is_no_list_of_names_is_refused_or_one_name(text):
    if text.endswith("]"):
        with pytest.raises(ValueError, match="it is no|an entry is"):
            divide_labels(text, None, ";")
    else:
        assert divide_labels(text, None, ";") == [text]
    # In JSON a text is one label.
    assert divide_labels(text, None, None) == [text]


@pytest.mark.parametrize(
    ("separator", "what"),
    [
        (",", "a comma"),
        ("|", "a bar"),
        ("；", "a full-width semicolon"),
        ("、", "an ideographic comma"),
        (" / ", "a slash"),
        ("/", "a slash"),
        ("#", "a number sign"),
        (" ", "a blank"),
        ("+", "a plus sign"),
    ],
)
def test_other_separators_are_noted_with_the_option_that_reads_them(tmp_path, separator, what):
    rows = [*ROWS, ("train to the sea", ["travel", "home"]), ("cat in a box", ["animals", "travel"])]
    content = "text,labels\n" + "".join(f'{text},"{separator.join(labels)}"\n' for text, labels in rows * 2)
    found, notes = read(tmp_path / "a.csv", content)
    assert found != rows * 2
    (note,) = notes
    assert f" have {what} in 62% of the rows; if it separates labels, give --label-separator " in note
    assert read(tmp_path / "a.csv", content, CorpusOptions(separator=separator)) == (rows * 2, [])


@pytest.mark.parametrize("names", [["C#", "F#", "C"], ["New York", "New Delhi", "Rome"], ["TCP/IP", "IP", "A/B"]])
def test_names_with_what_separates_others_are_not_noted(tmp_path, names):
    content = "text,labels\n" + "".join(f"word,{name}\n" for name in names * 20)
    assert read(tmp_path / "a.csv", content)[1] == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "<a>" + " " * 10**6 + "x",
        "array(" + ",dtype=x" * 10**5 + "()",
        "['a'" + " " * 10**6 + "x]",
        "<a>" + "<b> , " * 10**5 + "x",
    ],
    ids=["blanks after a bracket", "types", "blanks in a list", "brackets"],
)
def test_malformed_cells_take_linear_time(text):
    if text.endswith("]"):
        with pytest.raises(ValueError, match="it is no list"):
            divide_labels(text, None, None if text.endswith("x") else ";")
    else:
        assert divide_labels(text, None, None) == [text]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", ["<x" + "\t" * 10**6 + "x", "w" + "\t<a>" * 10**5 + "x", "<" * 10**6 + "\t<a"])
def test_tabs_and_brackets_in_a_line_take_linear_time(line):
    assert tab_before_brackets(line) is None


@pytest.mark.parametrize("text", ["[animals, home]", "['a' ... 'z']", "[a] [b]"])
def test_the_advice_for_a_malformed_list_can_be_followed(tmp_path, text):
    content = f'text,labels\ncat,"{text}"\n'
    assert line_of_refusal(write(tmp_path / "a.csv", content)) == 2
    if text == "[animals, home]":
        (document,) = documents_of(tmp_path / "a.csv", CorpusOptions(separator=","))
        assert [name.strip() for name in document.labels] == ["animals", "home"]


# Columns


def test_several_columns_of_labels(tmp_path):
    content = "text,first,second\n" + "".join(f"{text},{','.join([*own, ''][:2])}\n" for text, own in ROWS)
    options = CorpusOptions(labels=("first", "second"))
    found, _ = read(tmp_path / "a.csv", content, options)
    assert [(text, [name for name in labels if name]) for text, labels in found] == ROWS
    objects = "".join(json.dumps({"text": text, "first": own[:1], "second": own[1:]}) + "\n" for text, own in ROWS)
    assert read(tmp_path / "a.jsonl", objects, options)[0] == ROWS


@pytest.mark.parametrize("pattern", ["t_*", "2:4", "t_animals:t_home", "t_animals : 4"])
@pytest.mark.parametrize("values", [("0", "1"), ("0.0", "1.0"), ("False", "True"), ("", "x"), ("nan", "1")])
def test_columns_of_0_and_1_are_labels(tmp_path, pattern, values):
    names = [f"t_{name}" for name in NAMES]
    rows = [[text, *(values[name in own] for name in NAMES)] for text, own in ROWS]
    content = ",".join(["text", *names]) + "\n" + "".join(",".join(row) + "\n" for row in rows)
    expected = [(text, sorted(f"t_{name}" for name in own)) for text, own in ROWS]
    assert read(tmp_path / "a.csv", content, CorpusOptions(flags=(pattern,)))[0] == expected
    objects = [dict(zip(["text", *names], row, strict=True)) for row in rows]
    content = "".join(json.dumps(found) + "\n" for found in objects)
    assert read(tmp_path / "a.jsonl", content, CorpusOptions(flags=(pattern,)))[0] == expected


@pytest.mark.parametrize("pattern", ["role::*", "role::a:role::b", "2:role::b"])
def test_names_of_columns_may_have_colons(tmp_path, pattern):
    path = write(tmp_path / "a.csv", "text,role::a,role::b,x\ncat,1,0,5\ndog,1,1,6\n")
    documents = documents_of(path, CorpusOptions(flags=pattern))
    assert [document.labels for document in documents] == [["role::a"], ["role::a", "role::b"]]


def test_labels_0_and_1_are_noted(tmp_path):
    content = "text,labels\n" + "".join(f"{text},{place % 2}\n" for place, (text, _) in enumerate(ROWS))
    assert len(read(tmp_path / "a.csv", content)[1]) == 1
    content = content.replace(",0", ",no").replace(",1", ",yes")
    assert read(tmp_path / "a.csv", content)[1] == []


def test_what_programs_leave_in_tables(tmp_path):
    content = "sep=;\n Text ;LABELS;\ncat;animals;\nText;nan;\n Text ;LABELS;\nnan;home;\n"
    found, notes = read(tmp_path / "a.csv", content)
    assert found == [("cat", ["animals"]), ("Text", [""]), ("", ["home"])]
    assert len(notes) == 2
    for delimiter in "\t|;":
        table = "text,labels\ncat,animals\n".replace(",", delimiter)
        assert read(tmp_path / "a.csv", table)[0] == [("cat", ["animals"])]


# JSON


@pytest.mark.parametrize(
    ("document", "options", "expected"),
    [
        ({"text": ["cat dog", "purrs"], "labels": ["x"]}, NO_OPTIONS, ("cat dog purrs", ["x"])),
        ({"text": [["cat", "dog"], ["purrs"]], "labels": "x"}, NO_OPTIONS, ("cat dog purrs", ["x"])),
        ({"text": "a", "labels": [["Books", "x"], ["y"]]}, NO_OPTIONS, ("a", ["Books", "x", "y"])),
        ({"text": "a", "labels": {"x": 1, "y": 0, "z": True}}, NO_OPTIONS, ("a", ["x", "z"])),
        ({"text": "a", "labels": [3.0, None, 4]}, NO_OPTIONS, ("a", ["3", "4"])),
        ({"text": "a", "labels": float("nan")}, NO_OPTIONS, ("a", [])),
        ({"text": "a", "labels": "['x', 'y']"}, NO_OPTIONS, ("a", ["x", "y"])),
        ({"text": "a", "labels": [{"id": 9, "name": "x"}]}, CorpusOptions(labels=("labels.name",)), ("a", ["x"])),
        (
            {"data": {"text": "a"}, "annotations": [{"result": [{"value": {"choices": ["x", "y"]}}]}]},
            CorpusOptions(("data.text",), ("annotations.result.value.choices",)),
            ("a", ["x", "y"]),
        ),
    ],
    ids=str,
)
def test_json_as_programs_write_it(tmp_path, document, options, expected):
    content = json.dumps(document)
    assert read(tmp_path / "a.jsonl", content + "\n", options)[0] == [expected]
    assert read(tmp_path / "a.json", f"[{content}]\n", options)[0] == [expected]


def test_annotations_that_were_taken_back_are_left_out(tmp_path):
    results = [{"result": [{"value": {"choices": [name]}}], "was_cancelled": name == "y"} for name in "xy"]
    content = json.dumps({"text": "a", "annotations": results}) + "\n"
    options = CorpusOptions(labels=("annotations.result.value.choices",))
    assert read(tmp_path / "a.jsonl", content, options)[0] == [("a", ["x"])]


def test_the_identifier_of_annif_is_read_from_json(tmp_path):
    write(tmp_path / "a.jsonl", '{"document_id": "d0", "text": "a", "subjects": []}\n')
    assert documents_of(tmp_path / "a.jsonl") == [Document(1, "d0", "a", [])]


# Characters


def test_names_that_look_the_same_are_one_label_of_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [("Züge nach Köln", "Verkehr über Land"), ("Käse und Brötchen", "Ernährung")] * 9
    write(tmp_path / "a.csv", "text,labels\n" + "".join(f"{text},{label}\n" for text, label in rows))
    content = (tmp_path / "a.csv").read_text()
    write(tmp_path / "b.csv", unicodedata.normalize("NFD", content).replace("Verkehr", "Ver\xadkehr\u200b"))
    settings = ["-P", "1", "--epochs", "1", "--no-label-weights", "--set", "regression_points=0"]
    succeed("train", "a.csv", "model", *settings)
    succeed("vectorize", "b.csv", "out")
    assert (tmp_path / "out" / "features.txt").read_text().split() == [
        "brötchen",
        "käse",
        "köln",
        "nach",
        "und",
        "züge",
    ]
    answers = [succeed("predict", "-q", "model", file).stdout for file in ("a.csv", "b.csv")]
    assert answers[0] == answers[1]
    write(tmp_path / "out.jsonl", answers[0])
    scores = [succeed("evaluate", "-q", "out.jsonl", file).stdout for file in ("a.csv", "b.csv")]
    assert scores[0] == scores[1]
    np.testing.assert_equal("100.00" in scores[0], True)


# Other situations of public reports


@pytest.mark.parametrize(
    ("text", "separator", "expected"),
    [
        ("Food &amp; Drink;caf&eacute;", None, ["Food & Drink", "café"]),
        ('"Smith; John";animals', None, ["Smith; John", "animals"]),
        ('6" disk;animals', None, ['6" disk', "animals"]),
        ('[{"id": 28, "name": "Action"}, {"label": "b"}]', None, ["Action", "b"]),
        ("[{'id': 28, 'name': 'Action'}]", None, ["Action"]),
        ("{animals,home}", ",", ["animals", "home"]),
        ('{"New York",home}', None, ['{"New York",home}']),
    ],
)
def test_more_labels_in_a_cell(text, separator, expected):
    assert divide_labels(text, separator, ";") == expected


@pytest.mark.parametrize("entry", ["'a',", "{'name': 'a'},"])
def test_lists_that_are_too_long_for_a_cell_are_refused(monkeypatch, entry):
    monkeypatch.setattr(written_lists, "LONGEST", 1000)
    assert divide_labels(f"[{entry * 50}]", None, ";") == ["a"] * 50
    with pytest.raises(ValueError, match="it is too long for a list of names"):
        divide_labels(f"[{entry * 400}]", None, ";")


@pytest.mark.parametrize(
    "text", ["{animals,home}", "{animals}", '{"a": 1}', "{'a': 0, 'b': 1}", '[{"id": 28}]', "[animals, home]"]
)
def test_other_structures_in_a_cell_are_refused(text):
    with pytest.raises(ValueError, match="it is no list|an entry is no name|it is an object"):
        divide_labels(text, None, ";")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        # Files that were joined.
        ("a.txt", "__label__x cat\n\ufeff__label__y dog\n", [("cat", ["x"]), ("dog", ["y"])]),
        # Labels that do not hold.
        ("a.jsonl", '{"text": "a", "labels": [{"label": "x"}, {"label": "y", "value": 0.0}]}\n', [("a", ["x"])]),
        ("a.jsonl", '{"text": "a", "labels": 2}\n', [("a", ["2"])]),
        ("a.csv", "text,labels\na,\\N\nb,NULL\nc,None\n", [("a", [""]), ("b", [""]), ("c", ["None"])]),
        ("a.csv", "text,labels\ncat,animals,\ndog,home,\n", [("cat", ["animals"]), ("dog", ["home"])]),
    ],
)  # fmt: skip
def test_more_that_is_read(tmp_path, name, content, expected):
    assert read(tmp_path / name, content)[0] == expected


def test_labels_of_lines_are_separated_as_an_option_says(tmp_path):
    content = "cat\tDomestic animals|Kitchen\n"
    assert read(tmp_path / "a.txt", content, CorpusOptions(separator="|"))[0] == [
        ("cat", ["Domestic animals", "Kitchen"])
    ]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("Ein cafÃ© in KÃ¶ln", "look like UTF-8 that was read as another encoding"),
        ("one<br />two and <a href='x'>three</a>", "are tags of HTML, which count as words"),
        ("bread &amp; cheese", "are entities of HTML"),
        ("one line.\\nanother line", "are line ends or tabs that were written as two characters"),
        ("猫和狗在家里睡觉", "most texts have no blanks between words; --analyzer char --ngrams 1-2 counts characters"),
        ("a < b, see C:\\new", None),
    ],
)
def test_texts_that_were_hardly_meant_are_noted(tmp_path, text, note):
    content = "".join(json.dumps({"text": text, "labels": ["x"]}) + "\n" for _ in range(5))
    result = succeed("vectorize", write(tmp_path / "a.jsonl", content), tmp_path / "out")
    assert (note in result.stderr) if note else len(result.stderr.splitlines()) == 1
    if note and "--analyzer char" in note:
        again = succeed("vectorize", tmp_path / "a.jsonl", tmp_path / "out", "--analyzer", "char", "--ngrams", "1-2")
        assert note not in again.stderr


# What a newcomer met


def test_columns_of_0_and_1_may_be_named_one_by_one(tmp_path):
    content = "text,a,b,c\ncat,1,1,0\n"
    assert read(tmp_path / "a.csv", content, CorpusOptions(flags=("a", "c")))[0] == [("cat", ["a"])]


def test_a_table_of_labels_alone_is_the_truth(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "truth.csv", "id,labels\n2,x\n1,y;x\n")
    write(tmp_path / "truth.jsonl", '{"id": 2, "labels": ["x"]}\n{"id": 1, "labels": ["y", "x"]}\n')
    write(tmp_path / "p.jsonl", '{"id": 1, "labels": ["x", "y"]}\n{"id": 2, "labels": ["x"]}\n')
    for name in "truth.csv", "truth.jsonl":
        assert succeed("evaluate", "-q", "p.jsonl", name).stdout.count(" 1.00000 [") == 9


def test_lines_that_a_model_without_a_header_cannot_read_are_refused(tmp_path):
    columns = CorpusOptions(header="id,labels,text").columns()
    write(tmp_path / "a", "1\ta text\n")
    assert line_of_refusal(tmp_path / "a", usual=columns, labelled=False) == 1
    write(tmp_path / "a", "a text alone\n")
    (document,) = documents_of(tmp_path / "a", usual=columns, labelled=False)
    assert document.text == "a text alone"


def test_rows_of_empty_cells_are_left_out_and_a_single_column_needs_no_quotes(tmp_path):
    assert read(tmp_path / "a.csv", "text,labels\ncat,x\n,\n,\n")[0] == [("cat", ["x"])]
    found, _ = read(tmp_path / "a.csv", "text\na cat, a dog\nbird\n", labelled=False)
    assert [text for text, _ in found] == ["a cat, a dog", "bird"]


@pytest.mark.parametrize("separator", [" ", " > ", "#"])
def test_separators_of_labels_that_never_occur_alone_are_noted(tmp_path, separator):
    names = [f"name{i}" for i in range(20)]
    rows = [separator.join([names[i % 20], names[i * 7 % 19], names[i * 3 % 17]]) for i in range(300)]
    content = "text,labels\n" + "".join(f"word,{row}\n" for row in rows)
    assert len(read(tmp_path / "a.csv", content)[1]) == 1


def test_a_separator_that_was_chosen_is_not_doubted_by_commas_in_names(tmp_path):
    content = "text,labels\n" + "".join(f'word,"Last{i}, First{i}"\n' for i in range(30))
    assert read(tmp_path / "a.csv", content, CorpusOptions(separator=";"))[1] == []
    assert len(read(tmp_path / "a.csv", content)[1]) == 1


def test_the_separator_of_a_model_is_that_of_its_columns(tmp_path):
    columns = CorpusOptions(separator=",").columns()
    write(tmp_path / "a.txt", "a\tx y\n")
    write(tmp_path / "a.csv", 'text,labels\na,"x,y"\n')
    assert [documents_of(tmp_path / name, usual=columns)[0].labels for name in ("a.txt", "a.csv")] == [["x", "y"]] * 2
