"""Binary files are refused in a sentence with a way out, and text of any kind is read."""

import bz2
import gzip
import io
import lzma
import zipfile

import numpy as np
import pytest

from xmlgp.data.file_kinds import format_ending
from xmlgp.data.streams import open_input
from xmlgp.runtime.errors import XmlgpError


def zipped():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("train.csv", "text,labels")
    return stream.getvalue()


def saved():
    stream = io.BytesIO()
    np.save(stream, np.arange(99.0))
    return stream.getvalue()


BINARY = {
    "zip": (zipped(), "a zip archive or an Office document; `unzip`"),
    "parquet": (b"PAR1\x15\0\x15", "a Parquet file, which must be called NAME.parquet"),
    "bzip2": (bz2.compress(b"abc"), "`bunzip2` decompresses it"),
    "xz": (lzma.compress(b"abc"), "`unxz` decompresses it"),
    "zstd": (b"\x28\xb5\x2f\xfd\0\0", "`unzstd` decompresses it"),
    "gzip twice": (gzip.compress(gzip.compress(b"abc")), "`gunzip` decompresses it once"),
    "pickle": (b"\x80\x04\x95\0\0\0\0\0\0\0" * 2, "this is a binary file, not text"),
    "npy": (saved(), "this is a binary file, not text; if it is UTF-16, --encoding utf-16 reads"),
    "utf-16": ("text,labels\n".encode("utf-16-le"), "--encoding utf-16 reads a corpus"),
    "with a byte order mark": ("text,labels\n".encode("utf-16"), "UTF-16; --encoding utf-16 reads a corpus"),
    "big endian": ("text,labels\n".encode("utf-16-be"), "--encoding utf-16 reads a corpus"),
}


@pytest.mark.parametrize("name", BINARY)
def test_a_binary_file_is_refused(tmp_path, name):
    content, advice = BINARY[name]
    (tmp_path / "data.txt").write_bytes(content)
    with pytest.raises(XmlgpError, match=r"data\.txt: this is ") as caught, open_input(tmp_path / "data.txt"):
        pass
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        (b"", None),
        (b"text\x07 with a bell\n" * 8, None),
        ("žluťoučký kůň".encode(), None),
        (bytes(range(128, 256)), "latin-1"),
        ("text".encode("utf-16"), "utf-16"),
        ("text".encode("utf-16-le"), "UTF-16LE"),
    ],
)
def test_text_is_read(tmp_path, content, encoding):
    (tmp_path / "data.txt").write_bytes(content)
    with open_input(tmp_path / "data.txt", encoding) as stream:
        assert stream.read() == content


def test_the_endings_of_names():
    assert [format_ending(name) for name in ("a.csv", "a.JSONL.gz", "a", "b.gz")] == [".csv", ".jsonl", "", ""]
