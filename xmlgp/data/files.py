"""The files that a user names: find the one of a data set in a folder, open it, plain or gzipped, and open outputs.

`-` is a standard stream. The first bytes tell whether an input is gzipped or no text at all, the ending of its name
whether an output is gzipped.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from xmlgp.runtime.atomic_files import atomic_write, report_errors_as
from xmlgp.runtime.errors import UsageError, XmlgpError

__all__ = ["OPTIONS_FILE", "NoSuchFileError", "check_outputs", "documents_in", "format_ending", "locate", "open_input"]
__all__ += ["open_output"]

#: The options with which the corpora in a folder are read, as `xmlgp split` writes them.
OPTIONS_FILE = "corpus.json"

#: Endings of corpora that no other data have.
CORPUS_ENDINGS = "csv|tsv|jsonl|ndjson|xlsx|parquet"

#: Files that show that a folder holds data, not documents.
OF_DATA = re.compile(r"((train|test(-\d+)?)\.txt|.*\.svm)(\.gz)?|vectorizer\.json")

#: Other files that are read: corpora, their options, names and dense features beside data, and files of a model folder.
OTHER_FILES = (
    rf"(train|test)\.({CORPUS_ENDINGS})(\.gz)?|(features|labels)\.txt|(model|corpus)\.json|[^/]*\.np[yz]|arrays/.*"
)

#: The number of bytes at the start of a file that tell whether it is text.
PEEKED = 4096

#: Bytes that no text has.
NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")

#: The share of such bytes up to which a file may be text, and their number.
NO_TEXT_SHARE = 0.05
NO_TEXT_COUNT = 8

#: How UTF-16 is read.
UTF_16 = "--encoding utf-16 reads a corpus, and `iconv -f utf-16 -t utf-8 FILE > NEW` converts any text"

#: The starts of the binary files that are most often given, with what they are and how text is made of them.
BINARY_KINDS = {
    b"PK\3\4": "a zip archive or an Office document; `unzip` unpacks it, and a workbook must be called NAME.xlsx",
    b"PAR1": "a Parquet file, which must be called NAME.parquet",
    b"BZh": "compressed by bzip2; `bunzip2` decompresses it",
    b"\xfd7zXZ\0": "compressed by xz; `unxz` decompresses it",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; `unzstd` decompresses it",
    b"\x1f\x8b": "compressed by gzip twice; `gunzip` decompresses it once",
    b"\xff\xfe": f"UTF-16; {UTF_16}",
    b"\xfe\xff": f"UTF-16; {UTF_16}",
}

#: The first byte of gzip data, which no text has. A slow pipe may have delivered no other one yet.
GZIP_MAGIC = b"\x1f"

#: Bytes that gzip data may expand to however few they are, and times their size that they may expand to beyond. Text
#: of rows expands to about 4 times, a file of empty lines alone to 1000.
FREE_BYTES = 1 << 24
MOST_EXPANDED = 100

#: What reading damaged or truncated gzip data raises.
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


class NoSuchFileError(UsageError, FileNotFoundError):
    """Points are given by a str that names no file.

    `str(error)` says how to give texts in Python. `strerror` is the reason of the operating system, which the command
    line shows.
    """

    def __init__(self, error: OSError, text: str) -> None:
        super().__init__(error.errno, error.strerror, error.filename)
        self.text = text

    def __str__(self) -> str:
        return self.text


def locate(path: str | os.PathLike[str], part: str) -> str:
    """Return the training or test file (`part`: "train" or "test") of a data set.

    A file or `-` is returned as it is. In a folder the file is PART.txt, PART.svm or PART with the ending of a corpus,
    or the only `*.PART.svm`; the training points may also be in the only other `.svm` file. Each may have the ending
    `.gz`. A folder of documents is returned as it is, or else the folder PART if that has documents. XmlgpError is
    raised if a folder has no such file, or several.
    """
    folder = Path(path)
    # An empty name, such as an unset variable in a shell, is not a folder; Path("") is the current one.
    if str(path) == "-" or not os.path.isdir(path):
        return str(path)
    if documents_in(folder, labelled=part != "test"):
        return str(folder)
    rules = [rf"{part}\.(txt|svm|{CORPUS_ENDINGS})", rf".+\.{part}\.svm"]
    if part == "train":
        rules.append(r"(?!(.*\.)?test\.).+\.svm")
    for rule in rules:
        names = sorted(file.name for file in folder.iterdir() if re.fullmatch(rf"({rule})(\.gz)?", file.name))
        if len(names) > 1:
            raise XmlgpError(f"{folder}: the {part} file may be {' or '.join(names)}; name the file")
        if names:
            return str(folder / names[0])
    if os.path.isdir(folder / part) and documents_in(folder / part):
        return str(folder / part)
    documents = "documents NAME.txt" if part == "test" else "documents NAME.txt with labels in NAME.tsv or NAME.key"
    text = f"{folder}: this folder contains no {part} file such as {part}.txt, {part}.svm or {part}.csv, "
    raise XmlgpError(f"{text}and no {documents}; name the file")


def documents_in(folder: str | os.PathLike[str], labelled: bool = False) -> list[str]:
    """Return the sorted NAMEs of the documents NAME.txt in a folder; none if it holds data.

    If `labelled`, none are returned unless at least one has labels, in NAME.tsv or in NAME.key.
    """
    files = {name for name in os.listdir(folder) if not name.startswith(".")}
    texts = {name.removesuffix(".txt") for name in files if name.endswith(".txt")}
    with_labels = {name for name in texts if not files.isdisjoint((f"{name}.tsv", f"{name}.key"))}
    of_data = {name.removesuffix(".txt") for name in filter(OF_DATA.fullmatch, files)}
    # `train.txt` may be a document among others, but not the only one.
    documents = of_data <= with_labels and (with_labels if labelled else texts) - of_data
    return sorted(texts) if documents else []


def format_ending(path: str) -> str:
    """Return the ending that tells the format of a file, in lower case, which may come before `.gz`."""
    return os.path.splitext(path.lower().removesuffix(".gz"))[1]


class _GzipContent(io.RawIOBase):
    """The content of gzip data."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self._content = gzip.GzipFile(fileobj=stream)

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def readinto(self, buffer: Any, /) -> int:
        piece = self._content.read1(len(buffer))
        if self._stream.seekable() and self._content.tell() > max(FREE_BYTES, MOST_EXPANDED * self._stream.tell()):
            advice = "`gunzip` makes a file of all"
            raise gzip.BadGzipFile(f"they expand to more than {MOST_EXPANDED} times their size; {advice}")
        buffer[: len(piece)] = piece
        return len(piece)


@contextlib.contextmanager
def open_input(path: str | os.PathLike[str], encoding: str | None = None) -> Iterator[io.BufferedReader]:
    """Open text for reading, decompressed; `-` is standard input.

    The stream's `read1` returns the available bytes without waiting for more. Damaged compressed data raise XmlgpError
    within the `with` block, and so does a binary file.
    """
    path = os.fspath(path)
    with contextlib.ExitStack() as stack:
        stream = _standard_input(stack) if path == "-" else stack.enter_context(open(path, "rb"))
        try:
            if stream.peek(1).startswith(GZIP_MAGIC):
                stream = stack.enter_context(io.BufferedReader(_GzipContent(stream)))
            _refuse_binary(path, stream.peek(PEEKED)[:PEEKED], encoding)
            yield stream
        except DAMAGED as error:
            raise XmlgpError(f"{path}: the gzip data are damaged ({error})") from error


def _standard_input(stack: contextlib.ExitStack) -> io.BufferedReader:
    """Return the binary stream of sys.stdin."""
    if sys.stdin is None:
        raise XmlgpError("stdin is closed")
    raw: Any = sys.stdin.buffer
    if isinstance(raw, io.BufferedReader):
        return raw
    stream: io.BufferedReader = io.BufferedReader(raw)
    stack.callback(stream.detach)
    return stream


def _refuse_binary(path: str, start: bytes, encoding: str | None = None) -> None:
    """Raise XmlgpError if a file that begins with some bytes is not text in an encoding, UTF-8 if it is None."""
    if encoding and re.match("utf.?(16|32)", encoding, re.IGNORECASE):
        return
    for magic, kind in BINARY_KINDS.items():
        if start.startswith(magic):
            raise XmlgpError(f"{path}: this is not text in UTF-8, but {kind}")
    if len(NO_TEXT.findall(start)) > max(NO_TEXT_COUNT, NO_TEXT_SHARE * len(start)):
        raise XmlgpError(f"{path}: this is a binary file, not text; if it is UTF-16, {UTF_16}")


@contextlib.contextmanager
def open_output(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file for writing that appears under its name when it is complete; `-` is standard output.

    A file named `.gz` is compressed. Devices and pipes are written to directly; symbolic links are followed.
    """
    path = os.fspath(path)
    if path == "-":
        if sys.stdout is None:
            raise XmlgpError("stdout is closed")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    is_device = os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode)
    target = path if is_device else os.path.realpath(path)
    with report_errors_as(path, target), open(target, "wb") if is_device else atomic_write(target) as stream:
        if not path.lower().endswith(".gz"):
            yield stream
            return
        # Without name and time, so that equal data give equal files.
        with gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as packed:
            yield cast(BinaryIO, packed)


def check_outputs(outputs: Iterable[str | os.PathLike[str]], inputs: Iterable[object]) -> None:
    """Raise UsageError if an output is the same file as an input, also under another name; `-` is a standard stream.

    An input may be a folder of data or of documents, or a model folder. Inputs other than paths, pipes and devices are
    ignored.
    """
    paths = [path for path in inputs if isinstance(path, str | os.PathLike)]
    files = [file for path in paths for file in (_files_read(path) if os.path.isdir(path) else [path])]
    read = ["/dev/stdin" if file == "-" else file for file in files]
    written = ["/dev/stdout" if output == "-" else output for output in outputs]
    for output in filter(os.path.isfile, written):
        for file in filter(os.path.isfile, read):
            if os.path.samefile(output, file):
                raise UsageError(f"The output {output} is the same file as the input {file}; choose another output.")


def _files_read(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the files of a folder of data, of documents or of a model that are read; others in it may be results."""
    documents = r"[^/]*\.(txt|tsv|key)" if documents_in(folder) else OF_DATA.pattern
    read = re.compile(f"{OTHER_FILES}|{documents}")
    files = [*Path(folder).glob("*"), *Path(folder).glob("arrays/*")]
    return [file for file in files if read.fullmatch(file.relative_to(folder).as_posix())]
