"""Files that are not text are named for what they are, by every way in, and the advice works."""

import contextlib
import gzip
import io
import os
import pickle
import shlex
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import zipfile
import zlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse as sp

from tests.cli.command import run
from xmlgp.data.file_kinds import KINDS, UNFIT_FOR_TEXT, format_ending
from xmlgp.data.streams import open_input
from xmlgp.errors import XmlgpError

TABLE = pd.DataFrame({"text": ["cats purr", "tables stand"], "labels": ["animals", "home"]})


def zipped(**members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in members.items():
            archive.writestr(name.replace("__", "/"), text)
    return content.getvalue()


def written(write):
    """Return what a function writes into a binary file."""
    content = io.BytesIO()
    write(content)
    return content.getvalue()


def office(folder):
    types = {"[Content_Types].xml": "<Types/>" * 999, "docProps__thumbnail.jpeg": np.random.default_rng(0).bytes(9999)}
    return zipped(**types, **{f"{folder}__a.xml": "<a/>"})


def database():
    with tempfile.NamedTemporaryFile() as file, contextlib.closing(sqlite3.connect(file.name)) as connection:
        connection.execute("CREATE TABLE documents (text, labels)")
        connection.executemany("INSERT INTO documents VALUES (?, ?)", TABLE.values.tolist())
        connection.commit()
        return file.read()


def arrow(stream):
    table = pa.Table.from_pandas(TABLE)
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)


def tar():
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("data.csv"))
    return content.getvalue()


#: The content of a file of each kind, and what messages call it.
CONTENTS = {
    "a.xlsx": (office("xl"), "an Excel workbook (.xlsx)"),
    "a.arff": (b"\n% long\n@RELATION x\n", "an ARFF file of Weka"),
    "a.docx": (office("word"), "a Word document (.docx)"),
    "a.pptx": (office("ppt"), "a presentation (.pptx)"),
    "only types.xlsx": (zipped(**{"[Content_Types].xml": ""}), "an Excel workbook (.xlsx)"),
    "only types": (zipped(**{"[Content_Types].xml": ""}), "an Office document"),
    "a.ods": (zipped(mimetype="application/vnd.oasis.opendocument.spreadsheet"), "an OpenDocument spreadsheet (.ods)"),
    "a.odt": (zipped(mimetype="application/vnd.oasis.opendocument.text"), "an OpenDocument text (.odt)"),
    "a.epub": (zipped(mimetype="application/epub+zip"), "an e-book (.epub)"),
    "a.npz": (written(lambda stream: np.savez(stream, a=np.ones(3))), "a NumPy archive (.npz)"),
    "sparse.npz": (written(lambda stream: sp.save_npz(stream, sp.eye_array(3))), "a NumPy archive (.npz)"),
    "a.zip": (zipped(**{"set__train.csv": "text,labels\n"}), "a zip archive"),
    "empty.zip": (zipped(), "a zip archive"),
    "a.xls": (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
        "an old Office file, such as .xls, or one with a password",
    ),
    "a.parquet": (written(TABLE.to_parquet), "a Parquet file"),
    "a.feather": (written(TABLE.to_feather), "a Feather or Arrow file"),
    "a.arrow": (written(arrow), "a stream of Arrow"),
    "a.sqlite": (database(), "a SQLite database"),
    "a.pkl": (pickle.dumps(TABLE), "a pickle of Python"),
    "protocol 2": (pickle.dumps([1], protocol=2), "a pickle of Python"),
    "protocol 5": (pickle.dumps([1], protocol=5), "a pickle of Python"),
    "a.h5": (b"\x89HDF\r\n\x1a\n" + bytes(99), "an HDF5 file"),
    "a.mat": (written(lambda stream: scipy.io.savemat(stream, {"X": np.ones((2, 2))})), "a MATLAB file"),
    "a.npy": (written(lambda stream: np.save(stream, np.ones(3))), "a NumPy array (.npy)"),
    "a.rds": (gzip.compress(b"X\n\0\0\0\3\0\4\2\0"), "an R object (.rds)"),
    "a.RData": (gzip.compress(b"RDX3\nX\n\0\0\0\3"), "a file of R objects (.RData)"),
    "a.tar": (tar(), "a tar archive"),
    "a.tar.gz": (gzip.compress(tar()), "a tar archive"),
    "a.7z": (b"7z\xbc\xaf\x27\x1c\0\4", "a 7z archive"),
    "a.rar": (b"Rar!\x1a\x07\1\0", "a RAR archive"),
    "a.lz4": (b"\x04\x22\x4d\x18\x64", "compressed by lz4"),
    "a.joblib": (zlib.compress(pickle.dumps([1])), "compressed by zlib"),
    "a.Z": (b"\x1f\x9d\x90abc", "compressed by compress"),
    "a.pdf": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF document"),
    "a.rtf": (rb"{\rtf1\ansi text}", "an RTF document"),
    "a.png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "an image"),
    "a.jpg": (b"\xff\xd8\xff\xe0\0\x10JFIF", "an image"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS"),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Return a model of text."""
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "train.csv").write_text("text,labels\n" + "cats purr,animals\ntables stand,home\n" * 9)
    options = ["-P", "1", "--epochs", "1", "--no-label-weights"]
    result = run("train", "-q", folder / "train.csv", folder / "model", *options)
    assert result.exit_code == 0, result.stderr
    return folder / "model"


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_is_named_for_what_it_is(tmp_path, name):
    content, kind = CONTENTS[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(XmlgpError) as caught, open_input(path):
        pass
    assert str(caught.value).startswith(f"{path}: this is {kind}")
    assert "encoding" not in str(caught.value)
    assert "N D K" not in str(caught.value)
    # Neither the name nor, mostly, the end of the file is needed.
    if name != "only types.xlsx":
        path.rename(tmp_path / "data.csv")
        with pytest.raises(XmlgpError, match="this is "), open_input(tmp_path / "data.csv"):
            pass


def test_every_kind_has_an_example():
    named = tuple({kind for _, kind in CONTENTS.values()})
    assert [kind.name for kind in KINDS if not kind.name.startswith(named)] == []


@pytest.mark.parametrize("name", ["a.xls", "a.zip", "a.sqlite", "a.pkl", "a.tar.gz", "a.pdf", "a.npy"])
def test_every_command_that_reads_data_says_what_it_is(tmp_path, model, name):
    content, kind = CONTENTS[name]
    path, good = tmp_path / name, model.parent / "train.csv"
    path.write_bytes(content)
    (tmp_path / "a.scores").write_text("18 2\n" + "0:1\n" * 18)
    out = tmp_path / "out"
    for arguments in (
        ["train", path, out],
        ["train", path, out, "--encoding", "latin-1", "--corpus-format", "csv"],
        ["train", good, out, "--vocabulary", path],
        ["vectorize", path, out],
        ["vectorize", good, out, "--test", path],
        ["preprocess", path, out],
        ["predict", model, path],
        ["predict", model, path, "--encoding", "latin-1"],
        # An array may be scores.
        *([["evaluate", path, good]] if name != "a.npy" else []),
        ["evaluate", tmp_path / "a.scores", path],
        ["evaluate", tmp_path / "a.scores", good, "--train", path],
        ["learn", model, path],
        ["report", model, path, "-o", tmp_path / "page.html"],
    ):
        result = run(*arguments)
        assert result.exit_code == 1, arguments
        assert f"{path}: this is {kind}" in result.stderr, arguments
        assert not out.exists()
    result = run("predict", model, "-", stdin=content)
    assert result.stderr.startswith(f"Error: -: this is {kind}, not text; ")


@pytest.mark.parametrize(
    "text",
    [
        "PAR1 is a receptor\tgenes\n", "PAR1\tgenes\n", "ARROW1 flies\n", "MATLAB 5.0 is old\n", "RAR! it said\n",
        "7zip unpacks\n", "PK is a name\n", "X\nY\n", "RDX\n", "%PDF\n", "version 1\n", "SQLite format 3 is stable\n",
        "\u20ac 5\n", "{\"text\": \"rtf\"}\n", "Obj\n", "x^2\n", "FEA1 and more\n", "GIF89\n",
    ],
)  # fmt: skip
def test_text_that_begins_like_a_kind_is_text(tmp_path, text):
    (tmp_path / "a").write_text(text + "more text\n" * 999)
    with open_input(tmp_path / "a") as stream:
        assert stream.read() == (text + "more text\n" * 999).encode()
    assert not UNFIT_FOR_TEXT.search(text.encode("utf-16"))


def advised(tmp_path, name):
    """Run the command in the advice about a file, whose name has a blank; return the files that it makes."""
    (tmp_path / f"my {name}").write_bytes(CONTENTS[name][0])
    with pytest.raises(XmlgpError) as caught, open_input(f"my {name}"):
        pass
    command = str(caught.value).split("`")[1]
    subprocess.run(command, shell=True, check=True)  # noqa: S602 it is what a user would paste
    return sorted(file.name for file in tmp_path.iterdir() if file.name != f"my {name}")


@pytest.mark.parametrize(
    ("name", "made", "program"),
    [
        ("a.zip", "unpacked.csv", "unzip"),
        ("a.tar.gz", "data.csv", "tar"),
        ("a.parquet", "data.jsonl", "python"),
        ("a.feather", "data.jsonl", "python"),
        ("a.arrow", "data.jsonl", "python"),
        ("a.pkl", "data.jsonl", "python"),
        ("a.sqlite", "data.csv", "sqlite3"),
    ],
)
def test_the_advice_works(tmp_path, monkeypatch, name, made, program):
    monkeypatch.chdir(tmp_path)
    # The tests may run in an environment that no shell has activated.
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
    if subprocess.run(["sh", "-c", f"command -v {shlex.quote(program)}"], capture_output=True, check=False).returncode:
        pytest.skip(f"this system has no {program}")
    assert advised(tmp_path, name) == [made]
    if name not in ("a.zip", "a.tar.gz"):
        result = run("vectorize", made, "out")
        assert "2 documents, 4 features, 2 labels" in result.stderr


def test_the_endings_of_names():
    assert format_ending("TRAIN.CSV.GZ") == ".csv"
    assert format_ending("a.b/train.JSONL.xz") == ".jsonl"
    assert format_ending("train.gz") == format_ending("-") == ""
    assert format_ending("train.tsv") == ".tsv"


def test_binary_data_of_an_unknown_kind_get_no_advice_about_encodings(tmp_path, model):
    path = tmp_path / "a.bin"
    path.write_bytes(b"text\n" + np.random.default_rng(0).bytes(9999))
    for arguments in ["vectorize", path, tmp_path / "out", "--corpus-format", "fasttext"], ["predict", model, path]:
        result = run(*arguments)
        assert result.exit_code == 1
        assert "is not UTF-8; this looks like binary data, not text" in result.stderr
        assert "--encoding" not in result.stderr
    path.write_bytes("text,labels\nfür Ärzte – groß,x\n".encode("cp1252"))
    assert "--encoding" in run("vectorize", path, tmp_path / "out").stderr
