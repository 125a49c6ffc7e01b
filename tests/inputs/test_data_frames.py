"""What is given in a wrong form is refused in one sentence, and what that says is right."""

import ast
import re

import numpy as np
import pandas as pd
import pytest

import xmlgp
from tests.cli.command import run
from tests.problems import small_dataset
from xmlgp.errors import NoSuchFileError, SettingsError, UsageError
from xmlgp.estimators import TextTagger

SETTINGS = {"factors": 2, "epochs": 2}
TEXTS = ["a dog barks", "the cat sleeps", "a cow eats", "what is this"] * 5
NAMES = [["dog", "pet"], ["cat", "pet"], ["cow"], []] * 5
KNOWN = ["cat", "cow", "dog", "pet"]
INDICATORS = pd.DataFrame([[int(name in names) for name in KNOWN] for names in NAMES], columns=KNOWN)


def frame(labels, name="tags", **columns):
    return pd.DataFrame({"id": range(20), "text": TEXTS, **columns, name: labels})


def joined(separator, empty=""):
    return [separator.join(names) or empty for names in NAMES]


#: DataFrames of texts and labels, and what their labels are in code.
TABLES = {
    "lists": (frame(NAMES), "df['tags']"),
    "arrays": (frame([np.array(names, object) for names in NAMES]), "df['tags']"),
    "semicolons": (
        frame(joined(";")),
        "[names.split(';') if isinstance(names, str) and names else [] for names in df['tags']]",
    ),
    "missing": (
        frame(joined("|", None), "Category"),
        "[names.split('|') if isinstance(names, str) and names else [] for names in df['Category']]",
    ),
    "Python": (
        frame([str(names) for names in NAMES[:3] * 6 + NAMES[:2]]),
        "[ast.literal_eval(names) for names in df['tags']]",
    ),
    "NumPy": (
        frame([str(np.array(names, object)) for names in NAMES[:3] * 6 + NAMES[:2]]),
        """[re.findall("'(.*?)'", names) for names in df['tags']]""",
    ),
    "single": (frame(["dog", "cat", "cow", "pet"] * 5, "label"), "[[names] for names in df['label']]"),
    "numbers": (frame([3, 1, 2, 7] * 5, "label"), "[[str(name)] for name in df['label']]"),
    "indicators": (pd.concat([frame(TEXTS)[["id", "text"]], INDICATORS], axis=1), "df.loc[:, 'cat':'pet']"),
    "Boolean": (pd.concat([INDICATORS[KNOWN[:2]] > 0, frame(TEXTS)[["text"]]], axis=1), "df[['cat', 'cow']]"),
    "apart": (
        pd.concat([INDICATORS[KNOWN[:2]], frame(TEXTS)[["text", "id"]], INDICATORS[KNOWN[2:]]], axis=1),
        "df.drop(columns=['text', 'id'])",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_texts_and_labels_is_refused_with_its_columns(name):
    df, labels = TABLES[name]
    with pytest.raises(UsageError) as raised:
        xmlgp.train(df, settings=SETTINGS)
    advice = f"df['text'], labels={labels}"
    assert str(raised.value) == f"points in memory need labels: of this DataFrame, give {advice}"
    model = eval(f"xmlgp.train({advice}, settings=SETTINGS)", {**globals(), "df": df, "ast": ast, "re": re})  # noqa: S307
    given = {"single": KNOWN, "numbers": ["1", "2", "3", "7"], "Boolean": ["cat", "cow"]}
    assert model.names.labels == given.get(name, KNOWN)
    if name not in ("single", "numbers", "Boolean", "Python", "NumPy"):
        expected = xmlgp.train(TEXTS, labels=NAMES, settings=SETTINGS)
        assert model.data == expected.data


@pytest.fixture(scope="module")
def model():
    return xmlgp.train(TEXTS, labels=NAMES, settings=SETTINGS)


def test_all_functions_say_which_columns_they_need(model):
    df, labels = TABLES["semicolons"]
    needs = "^points in memory need labels: of this DataFrame, give .*, labels="
    for call in (
        lambda: xmlgp.learn(model, df),
        lambda: xmlgp.report(model, df),
        lambda: xmlgp.train(df, labels="tags"),
        lambda: xmlgp.train(df, labels=["tags"]),
        lambda: xmlgp.train(df, labels=df.columns[2:]),
    ):
        with pytest.raises(UsageError, match=needs + re.escape(labels)):
            call()
    for call in (lambda: xmlgp.train(df[["text"]]), lambda: xmlgp.train((TEXTS, NAMES))):
        with pytest.raises(UsageError, match="^points in memory need labels: give `labels=Y`, a matrix or lists of na"):
            call()
    ranked = xmlgp.predict(model, TEXTS, k="all")
    with pytest.raises(SettingsError, match=r"^a DataFrame must have numbers; .* such as " + re.escape(labels)):
        xmlgp.evaluate(ranked, df)
    for scores, message in [
        (df["tags"], "prediction 1: labels is 'dog;pet', not a list of names"),
        (np.arange(20) / 20, "numbers in one dimension are no labels; one label is a column, .*"),
        (df, "a DataFrame must have numbers; .*"),
    ]:
        with pytest.raises(SettingsError, match=f"^{message}$"):
            xmlgp.evaluate(scores, NAMES)
    one = xmlgp.evaluate(np.reshape(np.arange(1, 21) / 20, (-1, 1)), INDICATORS[["cat"]].to_numpy())
    with pytest.raises(SettingsError, match="^numbers in one dimension are no labels; one label is a column, "):
        xmlgp.evaluate(np.reshape(np.arange(1, 21) / 20, (-1, 1)), INDICATORS["cat"])
    assert one.kind == "binary"
    with pytest.raises(SettingsError, match=r"^a DataFrame must have numbers; .* such as df\['text'\]$"):
        xmlgp.predict(model, df).matrix()
    with pytest.raises(UsageError, match="^The third argument is the path of the page; give labels as labels="):
        xmlgp.report(model, TEXTS, NAMES)
    with pytest.raises(UsageError, match="^The labels are those of the data set; leave out `labels`"):
        xmlgp.train(small_dataset(), labels=NAMES)


@pytest.mark.parametrize("text", ["a text", "text", "", "a.txt/b", "x" * 5000, "a\0b"])
def test_a_text_that_is_no_path_must_be_in_a_list(model, text):
    with pytest.raises(UsageError, match=r'; a text must be in a list: predict\(model, \["a text"\]\)$'):
        xmlgp.predict(model, text)
    for call in (
        lambda: xmlgp.train(text, labels=NAMES),
        lambda: xmlgp.learn(model, text, labels=NAMES),
        lambda: xmlgp.report(model, text),
    ):
        with pytest.raises(
            NoSuchFileError, match=r'^there is no file or folder .*; a text must be in a list: \["a text"\]$'
        ):
            call()
    with pytest.raises(FileNotFoundError):
        xmlgp.predict(model, text)
    assert xmlgp.predict(model, [text]).matrix().shape == (1, 4)


def test_the_command_says_what_the_system_says(tmp_path, model):
    model.save(tmp_path / "model")
    found = run("predict", tmp_path / "model", tmp_path / "no.txt")
    assert (found.exit_code, found.stderr) == (1, f"Error: {tmp_path}/no.txt: No such file or directory\n")


def test_labels_of_a_file_are_not_given_twice(tmp_path):
    path = tmp_path / "corpus.csv"
    pd.DataFrame({"text": TEXTS, "labels": joined(";")}).to_csv(path, index=False)
    with pytest.raises(UsageError, match=rf"^The labels are those of {path}; leave out `labels`\.$"):
        xmlgp.train(path, labels=NAMES)
    assert xmlgp.train(xmlgp.Source(str(path), cache=False), settings=SETTINGS).names.labels == KNOWN


def test_labels_that_are_texts_are_refused_with_how_they_are_divided():
    expected = "^labels must be a list of names for each document, "
    for labels, advice in [
        (joined(";"), r"\[names.split\(';'\) if isinstance\(names, str\) and names else \[\] for names in labels\]$"),
        (pd.Series(joined(",", None)), r"\[names.split\(','\) if .* for names in labels\]$"),
        (pd.Series(map(str, NAMES[:2] * 10)), r"\[ast.literal_eval\(names\) for names in labels\]$"),
        (dict(enumerate(NAMES)), "in the order of these, not a dict$"),
        (set(map(tuple, NAMES)), "in the order of these, not a set$"),
        ([*NAMES[:19], [np.nan]], r"but labels\[19\] has nan, which is no text$"),
        (["dog", "cat"] * 10, r"but labels\[0\] is 'dog'; write a single name as \[name\]$"),
        ([*NAMES[:19], None], r"but labels\[19\] is None; write no names as \[\]$"),
        (np.arange(20) % 3, r"not numbers; a number is a name as a text: \[\[str\(label\)\] for label in labels\]$"),
        (INDICATORS.to_numpy().tolist(), r".* as pd.DataFrame\(labels, columns=names\)$"),
        (INDICATORS.to_numpy(), r".*: pd.DataFrame\(labels, columns=names\)$"),
    ]:
        with pytest.raises(SettingsError, match=f"{expected}.*{advice}"):
            xmlgp.train(TEXTS, labels=labels, settings=SETTINGS)
        with pytest.raises(SettingsError, match=f"{expected}.*{advice}"):
            TextTagger().fit(TEXTS, labels)
    for labels in INDICATORS, INDICATORS.astype(bool), INDICATORS.astype(object), INDICATORS.astype(str):
        assert xmlgp.train(TEXTS, labels=labels, settings=SETTINGS).names.labels == KNOWN
    # Names apart from their type: tuples, sets, arrays.
    for kind in tuple, set, np.array:
        made = xmlgp.train(TEXTS, labels=[kind(names) for names in NAMES], settings=SETTINGS)
        assert made.names.labels == KNOWN


def test_texts_and_matrices_of_other_types_are_taken_or_refused(model):
    texts = pd.Series(TEXTS)
    expected = xmlgp.predict(model, TEXTS, k="all").matrix().toarray()
    for given in texts.astype("string"), texts.astype("category"), texts.astype(object), np.array(TEXTS), tuple(TEXTS):
        np.testing.assert_array_equal(xmlgp.predict(model, given, k="all").matrix().toarray(), expected)
    X = np.eye(20, 5)
    numbers = xmlgp.train(X, labels=INDICATORS.to_numpy().astype(object), settings=SETTINGS)
    assert numbers.data == xmlgp.train(X, labels=INDICATORS.to_numpy(), settings=SETTINGS).data
    for known, given, message in [
        (model, texts.where(texts.index != 3), r"X must be a list of texts, but X\[3\] is nan; a missing text is ''"),
        (model, texts.astype("string").where(texts.index != 3), r".* X\[3\] is <NA>; a missing text is ''"),
        (model, 3, "X must be a list of texts, not 3$"),
        (model, {"text": "a dog"}, "X must be a list of texts, not {'text': 'a dog'}$"),
        (model, set(TEXTS), "X must be a list of texts, not {"),
        (model, np.array("a text"), "X must be a list of texts, not array"),
        (model, b"a text", r"X must be a list of texts, not one text; write it as \[text\]$"),
        (numbers, X[0], r"X has numbers in one dimension. .*X.reshape\(1, -1\) is one point$"),
        (numbers, X.tolist(), r"X must be a list of texts, but X\[0\] is .*; features are a matrix, np.array\(X\)$"),
        (numbers, X * 1j, "Complex data not supported"),
        (numbers, X * np.nan, "a feature is NaN or inf, not a finite number$"),
    ]:
        with pytest.raises(SettingsError, match=f"^{message}"):
            xmlgp.predict(known, given).matrix()
    assert xmlgp.predict(model, texts.where(texts.index != 3).fillna("")).matrix().shape == (20, 4)
    with pytest.raises(SettingsError, match="^there are 20 points, but the labels of 19 points$"):
        xmlgp.train(X, labels=INDICATORS[:19])
