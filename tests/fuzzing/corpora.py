"""Corpora: every way to read them agrees with the strict reader, and what is written of them with scikit-learn."""

import json
import re
import shutil
import unicodedata
from decimal import Decimal
from unittest import mock

import numpy as np
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from tests.cli.command import run
from tests.fuzzing.data_files import standard_input
from tests.fuzzing.mangling import mangled
from tests.fuzzing.strict_corpus_reader import read_corpus
from tests.fuzzing.strict_readers import read_data
from tests.fuzzing.text_files import TextFiles, ends_well, maybe_compressed
from tests.text.corpora import vectorized_by
from xmlgp.data import lines
from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input
from xmlgp.text.analysis import Analysis
from xmlgp.text.characters import normalized_name, normalized_text
from xmlgp.text.corpus import read_documents
from xmlgp.text.documents import CorpusOptions
from xmlgp.text.word_counts import WordCounts

__all__ = ["Corpora"]

WHOLE = {
    "annif": [
        b"The cat sat\t<http://a/x> <http://b/y>\n\ndog dog\tpets\n\tlonely\nno labels here\t\n",
        "Zürich 機械学習 e\u0301te\u0301\tcity 街\nIstanbul İıß 🎉\t<a> b <c\n".encode(),
    ],
    "pecos": [b"3,17\tthe cat sat\n\tnothing here\n\n0\t\n17,17,3\tdog\tcat dog\n", b"10\tword more\n9\tmore\n"],
    "fasttext": [
        b"__label__a __label__b-c the cat sat\nword __label__d word\n\n__label__\n__label__a\n",
        "__label__街 機械 学習 Zürich\nno labels here\n".encode(),
    ],
    "jsonl": [
        b'{"text": "The cat sat", "labels": ["x y", 3, null, ""], "id": 17}\n\n{"labels": null, "text": null}\r\n'
        b'{"text": 1.5, "labels": "one; label", "id": "k", "more": [{"a": {"b": [1, true, -2e5]}}]}\n',
        '{"id": "机", "text": "\\u0301 \\ud83c\\udf89 dog\\ttab\\n", "labels": ["\\u00e9t\\u00e9", "街"]}\n'.encode(),
        b'[{"text": "The cat, \\"sat\\" [", "labels": ["x y"], "id": 17},\n\n {\n"text": "a dog}",\n"labels": "a,b" }'
        b' , {"text": null, "labels": [], "more": [[{}], {"]": [1, "["]}]}\n]\n',
    ],
    "csv": [
        b'id,text,labels\n7,"a ""cat"", dog",x;y z\n\n8,"two\r\nlines here",\n,plain,;x; ;\n',
        "labels,text\na;b,Zürich 機械学習\n\"c\n\",dog dog\n".encode(),
    ],
    "tsv": [
        b'id\ttext\tlabels\n7\t"a ""cat""\tdog"\tx;y z\n\n8\t"two\nlines here"\t\n\t6" plain\t;x; ;\n',
        "labels\ttext\na;b\tZürich 機械学習\nc\tdog, dog\n".encode(),
    ],
}  # fmt: skip

TOKENS = [
    b"\t", b",", b'"', b'""', b'"\n', b";", b"<", b">", b"<>", b"__label__", b"__label__ ", b"{", b"}", b"{}", b"[]",
    b"[", b"]", b"null", b"NaN", b"-Infinity", b"1e999", b'"\\ud800"', b'"\\u0000"', b'"\\t"', b'"\\u009b"', b"\\",
    b'"text": ', b'"labels": ["a\\tb"], ', b'"id": 1.5, ', b'"id": null, ', b'{"text": "ab", "labels": []}\n', b"text",
    b"labels", b"id", b"text\tlabels\n", b"text,labels\n", b"\r\r", b"\ra", b"3 4 5\n", b"1 1:1\n", b"#", b"1,2",
    b"\xc2\x9b", b"\x1b[2J", "\u2028".encode(), "\u00a0".encode(), "\u0130".encode(), b"\xf0\x9f", b"9" * 5000 + b"\t",
    b"true",
]  # fmt: skip


class Corpora(TextFiles):
    """Corpora of text; a file has the name of its format."""

    samples = st.one_of(*(maybe_compressed(name, mangled(whole, TOKENS), whole) for name, whole in WHOLE.items()))

    def __init__(self, folder):
        super().__init__(folder)
        (folder / "train.jsonl").write_text(
            "".join(json.dumps({"text": f"the {word}", "labels": [word]}) + "\n" for word in ["cat", "dog"] * 9)
        )
        options = ["-P", "1", "--epochs", "1", "--no-label-weights"]
        result = run("train", "-q", folder / "train.jsonl", folder / "model", *options, "--set", "regression_points=0")
        assert result.exit_code == 0, result.stderr

    def strictly(self, name, content):
        return read_corpus(name, content)

    def readings(self, path, content):
        name = path.name.removesuffix(".gz")
        readings = {"as a file": lambda: read_file(path, name)}
        # Only its first bytes tell that a stream is compressed.
        if path.suffix != ".gz" or content.startswith(b"\x1f\x8b"):
            readings["from a stream in small pieces"] = lambda: read_stream(content, name)
        return readings

    def use(self, path, content, expected):
        """Vectorize the corpus, and predict from it."""
        name, out = path.name.removesuffix(".gz"), self.folder / "out"
        # What a failure left would be taken for what this sample wrote.
        shutil.rmtree(out, ignore_errors=True)
        paths = ends_well("vectorize", "-q", path, out, "--corpus-format", name, "--test", path)
        if paths is None:
            assert not out.exists()
            assert expected is None or not all(vocabulary(expected))
        else:
            assert len(paths.splitlines()) == 5
            compare_with_scikit_learn(out, expected)
            shutil.rmtree(out)
        for options in [], ["--corpus-format", name], ["--format", "csv"]:
            answers = ends_well("predict", "-q", self.folder / "model", path, *options)
            if answers is not None and "csv" not in options:
                # Characters such as U+2028 do not end a line.
                assert all(json.loads(answer)["labels"] for answer in answers.split("\n")[:-1])


def read_file(path, name):
    """Read a file as `read_corpus` does."""
    with open_input(path) as stream:
        vectorized_labels(LineReader(stream, str(path)), name)
    with open_input(path) as stream:
        return documents_of(LineReader(stream, str(path)), name)


def read_stream(content, name):
    """Read a text as standard input, in blocks of another size."""
    with mock.patch.object(lines, "BLOCK_BYTES", 48), mock.patch.object(lines, "LINES", 3):
        with standard_input(content), open_input("-") as stream:
            vectorized_labels(LineReader(stream, "-"), name)
        with standard_input(content), open_input("-") as stream:
            return documents_of(LineReader(stream, "-"), name)


def vectorized_labels(reader, name):
    """Raise the errors of a corpus, those of labels included."""
    try:
        vectorized_by(reader, WordCounts(Analysis(), []), options=CorpusOptions(format=name))
    except Exception as error:
        if not re.search(r": (there are no documents|no document has a (label|word))$", str(error)):
            raise


def documents_of(reader, name):
    return [
        (document.line, document.id, document.text, {normalized_name(label) for label in document.labels} - {""})
        for document in read_documents(reader, CorpusOptions(format=name))
    ]


def vocabulary(documents):
    """Return the words and the labels of documents, in order."""
    counter = CountVectorizer()
    analyse = counter.build_analyzer()
    words = sorted({word for _, _, text, _ in documents for word in analyse(normalized_text(text))})
    labels = {label for *_, own in documents for label in own}
    numeric = all(re.fullmatch("[0-9]+", label) for label in labels)
    return words, sorted(labels, key=lambda label: (Decimal(label), label) if numeric else label)


def compare_with_scikit_learn(out, documents):
    """Compare the files of a data set with the counts of scikit-learn."""
    # scikit-learn divides words at accents and vowel signs; İ in lower case has one.
    if any(
        unicodedata.category(letter)[0] == "M"
        for _, _, text, _ in documents
        for letter in normalized_text(text.lower())
    ):
        return
    words, labels = vocabulary(documents)
    assert (out / "features.txt").read_bytes().decode("utf-8-sig").split("\n") == [*words, ""]
    assert (out / "labels.txt").read_bytes().decode("utf-8-sig").split("\n") == [*labels, ""]
    counted = CountVectorizer(vocabulary=words).transform([normalized_text(text) for _, _, text, _ in documents])
    N, D, K, points = read_data((out / "train.txt").read_bytes())
    assert (len(documents), len(words), len(labels)) == (N, D, K)
    assert [{labels[label] for label in own} for own, _ in points] == [own for *_, own in documents]
    for row, (_, features) in zip(counted, points, strict=True):
        assert dict(zip(row.indices.tolist(), row.data.astype(np.float64).tolist(), strict=True)) == features
    assert (out / "test.txt").read_bytes() == (out / "train.txt").read_bytes()
