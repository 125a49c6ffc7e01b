"""Each example of the page on other tools makes a file that is read right of a tiny one."""

import bz2
import shutil
import sqlite3
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from tests.docs.pages import DOCS, blocks_of
from tests.text.corpora import documents_of
from xmlgp import evaluate
from xmlgp.data.repository_format import write_dataset
from xmlgp.data.toy import toy_dataset
from xmlgp.text.vocabulary import read_vocabulary

#: The parts of the page on tools and on files.
TOOLS, FILES_OF_OTHERS = (DOCS / "other-tools.md").read_text(encoding="utf-8").split("\n## From your file ")

BLOCKS = blocks_of(FILES_OF_OTHERS)

EXPECTED = [("cats purr", ["animals", "home"]), ("a chair", ["home"])]

CSV = "text,labels\ncats purr,animals;home\na chair,home\n"

FILES = {
    "semicolons.csv": "1;animals,home;cats purr\n2;home;a chair\n",
    "before.txt": "animals home\tcats purr\nhome\ta chair\n",
    "tags.csv": "text,tags\ncats purr,<animals><home>\na chair,<home>\n",
    "escaped.csv": 'text,labels\ncats purr,"animals,home"\na chair,home\n',
    "lists.csv": "text,labels\ncats purr,\"['animals', 'home']\"\na chair,\"('home',)\"\n",
    "json.csv": 'text,labels\ncats purr,"[""animals"", ""home""]"\na chair,"[""home""]"\n',
    "columns.csv": "text,animals,home\ncats purr,1,1\na chair,0,1\n",
    "binary.csv": "text,spam\ncats purr,0\na chair,1\n",
    "rows.csv": "id,text,labels\n1,cats purr,animals\n1,cats purr,home\n2,a chair,home\n",
    "old.csv": CSV,
    "unlabelled.csv": CSV + "unread,\n",
    "macintosh.csv": CSV.replace("\n", "\r"),
    "array.json": '[{"text": "cats purr", "labels": ["animals", "home"]},\n{"text": "a chair", "labels": ["home"]}]',
    "folder/1.json": '{"text": "cats purr",\n"labels": ["animals", "home"]}',
    "folder/2.json": '{"text": "a chair", "labels": ["home"]}',
    "studio.jsonl": "".join(
        f'{{"data": {{"text": "{text}"}}, "annotations": [{{"result": [{{"value": {{"choices": {names}}}}}]}}]}}\n'
        for text, names in (("cats purr", '["animals", "home"]'), ("a chair", '["home"]'))
    ),
    "objects.jsonl": '{"text": "cats purr", "labels": [{"name": "animals"}, {"name": "home"}]}\n'
    '{"text": "a chair", "labels": [{"name": "home"}]}\n',
    "unlabelled.jsonl": '{"text": "cats purr", "labels": ["animals", "home"]}\n{"text": "a chair", "labels": ["home"]}'
    '\n{"text": "unread", "labels": []}\n{"text": "unread"}\n',
    "texts.arff": "@relation r\n@attribute text string\n@attribute labels string\n@data\n"
    "'cats purr','animals,home'\n'a chair','home'\n",
    "vocabulary.csv": "uri,label_en\nhttp://a/1,animals\nhttp://a/2,home\n",
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files of all examples, in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name, content in FILES.items():
        Path(name).write_text(content, encoding="utf-8", newline="")
    pd.DataFrame(EXPECTED, columns=["text", "labels"]).to_parquet("lists.parquet")
    with zipfile.ZipFile("train.zip", "w") as archive:
        archive.writestr("train.csv", CSV)
    Path("packed.csv.bz2").write_bytes(bz2.compress(CSV.encode()))
    with sqlite3.connect("data.db") as database:
        pd.read_csv("old.csv").to_sql("documents", database, index=False)
    database.close()
    return tmp_path


def read(path):
    return [(document.text, document.labels) for document in documents_of(path)]


PYTHON = [block.code for block in BLOCKS if block.language == "python"]
SHELL = [line for block in BLOCKS if block.language == "sh" for line in block.code.splitlines()]


@pytest.mark.parametrize("code", PYTHON[1:], ids=lambda code: next(name for name in code.split('"') if "." in name))
@pytest.mark.usefixtures("files")
def test_pandas_makes_a_corpus(code):
    names = {}
    exec(PYTHON[0], names)
    exec(code, names)
    if "vocabulary" in code:
        assert read_vocabulary("vocabulary.tsv").labels == {"http://a/1": "animals", "http://a/2": "home"}
        return
    expected = [("cats purr", ["ham"]), ("a chair", ["spam"])] if "spam" in code else EXPECTED
    assert read("documents.jsonl") == expected


@pytest.mark.parametrize("line", SHELL, ids=lambda line: line.split()[0])
@pytest.mark.usefixtures("files")
def test_a_tool_makes_a_corpus(line):
    if not shutil.which(line.split()[0]):
        pytest.skip(f"{line.split()[0]} is not installed")
    subprocess.run(line, shell=True, check=True)
    assert read(line.split()[-1].removesuffix(".bz2")) == EXPECTED


def code_of_tools(language):
    (block,) = (block for block in blocks_of(TOOLS) if block.language == language)
    return block.code


def test_matrices_for_pecos_are_csr_matrix_of_float32(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data/toy").mkdir(parents=True)
    points, _ = toy_dataset()
    write_dataset("data/toy/train.txt", points)
    exec(code_of_tools("python"), {})
    for name, expected in (("X.npz", points.features.sparse), ("Y.npz", points.labels)):
        matrix = sp.load_npz(name)
        assert (type(matrix), matrix.dtype) == (sp.csr_matrix, np.float32)
        assert (matrix != expected).nnz == 0


def test_a_table_of_suggestions_of_annif_is_evaluated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("documents").mkdir()
    suggested = {"a": "<http://a/1>\tcats\t0.9\n<http://a/2>\tdogs\t0.2\n", "b": "<http://a/1>\tcats\t0.6\n"}
    for number, (name, lines) in enumerate(suggested.items(), 1):
        Path(f"documents/{name}.annif").write_text(lines, encoding="utf-8")
        Path(f"documents/{name}.txt").write_text("text", encoding="utf-8")
        Path(f"documents/{name}.tsv").write_text(f"<http://a/{number}>\tname\n", encoding="utf-8")
    subprocess.run(code_of_tools("sh"), shell=True, check=True)
    assert evaluate("annif.tsv", "documents", ks=[1]).measures["P@1"] == 50
