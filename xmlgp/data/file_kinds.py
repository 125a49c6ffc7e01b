"""Endings of the names of files, and binary files that are given in place of text."""

from __future__ import annotations

import os
import re

from xmlgp.runtime.errors import XmlgpError

__all__ = ["PEEKED", "format_ending", "refuse_binary"]

#: The number of bytes at the start of a file that tell whether it is text.
PEEKED = 4096

#: Bytes that no text has.
NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")

#: The share of such bytes up to which a file may be text, and their number.
SOME = 0.05
FEW = 8

#: How UTF-16 is read.
UTF_16 = "--encoding utf-16 reads a corpus, and `iconv -f utf-16 -t utf-8 FILE > NEW` converts any text"

#: The starts of the binary files that are most often given, with what they are and how text is made of them.
KINDS = {
    b"PK\3\4": "a zip archive or an Office document; `unzip` unpacks it, and a workbook must be called NAME.xlsx",
    b"PAR1": "a Parquet file, which must be called NAME.parquet",
    b"BZh": "compressed by bzip2; `bunzip2` decompresses it",
    b"\xfd7zXZ\0": "compressed by xz; `unxz` decompresses it",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; `unzstd` decompresses it",
    b"\x1f\x8b": "compressed by gzip twice; `gunzip` decompresses it once",
    b"\xff\xfe": f"UTF-16; {UTF_16}",
    b"\xfe\xff": f"UTF-16; {UTF_16}",
}


def refuse_binary(path: str, start: bytes, encoding: str | None = None) -> None:
    """Raise XmlgpError if a file that begins with some bytes is not text in an encoding, UTF-8 if it is None."""
    if encoding and re.match("utf.?(16|32)", encoding, re.IGNORECASE):
        return
    for magic, kind in KINDS.items():
        if start.startswith(magic):
            raise XmlgpError(f"{path}: this is not text in UTF-8, but {kind}")
    if len(NO_TEXT.findall(start)) > max(FEW, SOME * len(start)):
        raise XmlgpError(f"{path}: this is a binary file, not text; if it is UTF-16, {UTF_16}")


def format_ending(path: str) -> str:
    """Return the ending that tells the format of a file, in lower case, which may come before `.gz`."""
    return os.path.splitext(path.lower().removesuffix(".gz"))[1]
