"""Kinds of files that are not text: their first bytes, their names, and the commands that make text of them.

Also endings of names: that of a compressed file, such as `.gz`, follows that of the format.
"""

import contextlib
import os
import re
import shlex
import stat
from typing import BinaryIO, NamedTuple

from xmlgp.errors import XmlgpError
from xmlgp.runtime.positioned_reads import read_at

__all__ = [
    "ARFF",
    "COMPRESSED_ENDINGS",
    "KINDS",
    "PARQUET",
    "PEEKED",
    "UNFIT_FOR_TEXT",
    "is_binary",
    "XLSX",
    "FileKind",
    "compressed_ending",
    "format_ending",
    "kind_of",
    "refusal",
]

#: Endings of the names of compressed files.
COMPRESSED_ENDINGS = (".gz", ".bz2", ".xz", ".zst")

#: The number of bytes at the start of a file that are read to recognise its kind.
PEEKED = 4096

#: The same at the end, where a zip archive has the list of its members.
TAIL = 1 << 16

#: Bytes that no text has, as a character class without brackets.
NO_TEXT = rb"\x00-\x08\x0e-\x1a\x1c-\x1f\x7f"

#: Matches content with such a byte, unless it begins with one of the two byte order marks of UTF-16.
UNFIT_FOR_TEXT = re.compile(rb"\A(?!\xff\xfe|\xfe\xff).*?[%b]" % NO_TEXT, re.DOTALL)

#: Advice for a file that a function of pandas reads; `PANDAS.format(function)` still has `{file}` in it.
PANDAS = (
    "`python -c \"import pandas, sys; pandas.{}(sys.argv[1]).to_json('data.jsonl', orient='records', lines=True)\" "
    "{{file}}` writes data.jsonl"
)

#: Advice for files with matrices of other programs.
MATRICES = "`xmlgp.train` in Python takes its matrices, and `xmlgp.data.repository_format.write_dataset` writes them"


class FileKind(NamedTuple):
    """A kind of files: what messages call it, what its bytes match from the start, and how text is made of it.

    In the advice, `{file}` stands for the path of the file, `{member}` for the name of the first member of an archive,
    and `{ending}` for the ending of that name. `endings` are those of the names of such files.
    """

    name: str
    pattern: bytes
    advice: str
    endings: tuple[str, ...] = ()


def _zipped(names: bytes) -> bytes:
    """Return the pattern of a zip archive with a member whose name begins with what `names` matches."""
    # The name follows 26 bytes after the mark of a member, or 42 after the mark of an entry in the list at the end.
    return rb"PK\x03\x04(?:.{26}|.*?PK(?:\x03\x04.{26}|\x01\x02.{42}))(?:%b)" % names


def _open_document(media_type: bytes) -> bytes:
    """Return the pattern of an OpenDocument or e-book: a zip archive that begins with its media type."""
    return rb"PK\x03\x04.{26}mimetypeapplication/%b" % media_type


XLSX = FileKind(
    "an Excel workbook (.xlsx)",
    _zipped(rb"xl/"),
    "in Excel, save it as CSV UTF-8, or " + PANDAS.format("read_excel"),
    (".xlsx", ".xlsm"),
)
PARQUET = FileKind(
    "a Parquet file", rb"PAR1(?:.{,60}[%b]|.*PAR1\Z)" % NO_TEXT, PANDAS.format("read_parquet"), (".parquet",)
)
#: The kinds of documents of Office, told by their members, or else by the name of the file.
OFFICE_KINDS = (
    XLSX,
    FileKind(
        "a Word document (.docx)",
        _zipped(rb"word/"),
        "`pandoc -t plain --wrap=none -o NAME.txt {file}` makes text of it, for a folder of documents",
        (".docx",),
    ),
    FileKind("a presentation (.pptx)", _zipped(rb"ppt/"), "save it as text", (".pptx",)),
)
#: A document of Office of which no member tells the kind.
OFFICE = FileKind(
    "an Office document", _zipped(rb"\[Content_Types\]\.xml"), "save it as text, or a table as CSV in UTF-8"
)
#: Any other zip archive.
ZIP = FileKind(
    "a zip archive",
    rb"PK(?:\x03\x04|\x05\x06|\x07\x08)",
    "`unzip -p {file} {member} > unpacked{ending}` unpacks one of its files, and `unzip {file}` all",
    (".zip",),
)
#: It is text, but of a format of its own; empty lines and comments may come first.
ARFF = FileKind(
    "an ARFF file of Weka",
    rb"(?i:(?:\xef\xbb\xbf)?(?:[ \t\r]*(?:%[^\n]*)?\n)*[ \t]*@relation\s)",
    "`xmlgp vectorize` and `train` read it",
    (".arff",),
)

#: All kinds. A file is of the first that matches.
KINDS = (
    ARFF,
    *OFFICE_KINDS,
    OFFICE,
    FileKind(
        "an OpenDocument spreadsheet (.ods)",
        _open_document(rb"vnd\.oasis\.opendocument\.spreadsheet"),
        "save it as CSV in UTF-8, or `libreoffice --headless --convert-to csv {file}`",
        (".ods",),
    ),
    FileKind(
        "an OpenDocument text (.odt)",
        _open_document(rb"vnd\.oasis\.opendocument"),
        "`pandoc -t plain --wrap=none -o NAME.txt {file}` makes text of it, for a folder of documents",
        (".odt",),
    ),
    FileKind(
        "an e-book (.epub)",
        _open_document(rb"epub\+zip"),
        "`pandoc -t plain --wrap=none -o NAME.txt {file}` makes text of it, for a folder of documents",
        (".epub",),
    ),
    FileKind(
        "a NumPy archive (.npz)",
        rb"PK\x03\x04.{26}[\w. -]{1,99}?\.npy",
        f"`dense=FILE` reads dense features beside other data; {MATRICES}",
        (".npz",),
    ),
    ZIP,
    FileKind(
        "an old Office file, such as .xls, or one with a password",
        rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        "save it as CSV in UTF-8, or `libreoffice --headless --convert-to csv {file}`",
        (".xls", ".doc", ".ppt"),
    ),
    PARQUET,
    FileKind(
        "a Feather or Arrow file", rb"ARROW1\0|FEA1.{,60}[%b]" % NO_TEXT, PANDAS.format("read_feather"), (".feather",)
    ),
    FileKind(
        "a stream of Arrow",
        rb"\xff{4}[^\0].{2}\0",
        '`python -c "import pyarrow, sys; pyarrow.ipc.open_stream(sys.argv[1]).read_pandas().to_json('
        "'data.jsonl', orient='records', lines=True)\" {file}` writes data.jsonl",
        (".arrow",),
    ),
    FileKind(
        "a SQLite database",
        rb"SQLite format 3\0",
        "`sqlite3 -header -csv {file} 'SELECT text, labels FROM documents' > data.csv` writes a table of it, and "
        "`sqlite3 {file} .tables` lists its tables",
        (".sqlite", ".sqlite3", ".db"),
    ),
    FileKind(
        "a pickle of Python",
        rb"\x80[\x02-\x05][\x00-\xff]",
        "a pickle can run any code, so only if you trust who made it, " + PANDAS.format("read_pickle"),
        (".pickle", ".pkl"),
    ),
    FileKind("an HDF5 file", rb"\x89HDF\r\n\x1a\n", f"h5py reads it; {MATRICES}", (".h5", ".hdf5")),
    FileKind("a MATLAB file", rb"MATLAB [57]\.\d MAT-file", f"`scipy.io.loadmat` reads it; {MATRICES}", (".mat",)),
    FileKind(
        "a NumPy array (.npy)",
        rb"\x93NUMPY",
        f"`dense=FILE` reads dense features beside other data; {MATRICES}",
        (".npy",),
    ),
    FileKind(
        "an R object (.rds)",
        rb"[XB]\n\0\0\0[\2\3]",
        "`Rscript -e 'write.csv(readRDS(commandArgs(TRUE)[1]), \"data.csv\", row.names = FALSE)' {file}` writes "
        "data.csv",
        (".rds",),
    ),
    FileKind(
        "a file of R objects (.RData)",
        rb"RD[AXB][23]\n",
        "`Rscript -e 'write.csv(get(load(commandArgs(TRUE)[1])), \"data.csv\", row.names = FALSE)' {file}` writes "
        "data.csv",
        (".rdata", ".rda"),
    ),
    FileKind("a tar archive", rb".{257}ustar", "`tar -xf {file}` unpacks it", (".tar", ".tgz")),
    FileKind("a 7z archive", rb"7z\xbc\xaf\x27\x1c", "`7z x {file}` unpacks it", (".7z",)),
    FileKind("a RAR archive", rb"Rar!\x1a\x07", "`unrar x {file}` unpacks it", (".rar",)),
    FileKind("compressed by lz4", rb"\x04\x22\x4d\x18", "`lz4 -d {file}` unpacks it", (".lz4",)),
    FileKind(
        "compressed by zlib, perhaps a file of joblib",
        rb"x[\x01\x5e\x9c\xda].{,60}[%b]" % NO_TEXT,
        "what joblib wrote, joblib.load reads, but like a pickle only if you trust who made it",
        (".joblib",),
    ),
    FileKind("compressed by compress", rb"\x1f\x9d", "`uncompress {file}` unpacks it", (".z",)),
    FileKind(
        "a PDF document",
        rb"%PDF-\d",
        "`pdftotext {file} NAME.txt` makes text of it, for a folder of documents",
        (".pdf",),
    ),
    FileKind("an RTF document", rb"\{\\rtf\d", "save it as plain text in UTF-8", (".rtf",)),
    FileKind(
        "an image", rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff[\xc0-\xff]|GIF8[79]a", "its text has to be typed or scanned"
    ),
    FileKind(
        "a pointer of Git LFS, not the file itself",
        rb"version https://git-lfs\.github\.com/spec/v1\n",
        "`git lfs pull` in its repository fetches the file",
    ),
)


def kind_of(start: bytes, path: str, stream: BinaryIO | None = None) -> FileKind | None:
    """Return the kind of a file that is not text, given its first bytes, or None.

    If `stream` is a regular file, its last bytes are used too. The ending of the path is used only to tell documents of
    Office apart, and to recognise an ARFF file that begins with long comments.
    """
    kind = _matching(start)
    if kind and stream is not None:
        kind = _matching(start + _tail(stream, len(start))) or kind
    if kind is None and format_ending(path) in ARFF.endings:
        return ARFF
    if kind in (OFFICE, ZIP):
        return next((office for office in OFFICE_KINDS if format_ending(path) in office.endings), kind)
    return kind


def is_binary(content: bytes) -> bool:
    """Return whether content that is not UTF-8 is binary: more than one byte in twenty is one that no text has."""
    return len(re.findall(rb"[%b]" % NO_TEXT, content)) > len(content) // 20


def refusal(kind: FileKind, path: str, start: bytes = b"", what: str = "not text") -> XmlgpError:
    """Return the error of a file that is not text: what is wrong with it (`what`), and how text is made of it."""
    file = "FILE" if path == "-" else shlex.quote(path)
    member = _first_member(start)
    advice = kind.advice.format(file=file, member=shlex.quote(member), ending=os.path.splitext(member)[1])
    return XmlgpError(f"{path}: this is {kind.name}, {what}; {advice}")


def compressed_ending(path: str) -> str:
    """Return the ending that says that a file is compressed, in lower case, or an empty string."""
    ending = os.path.splitext(path)[1].lower()
    return ending if ending in COMPRESSED_ENDINGS else ""


def format_ending(path: str) -> str:
    """Return the ending that tells the format of a file, in lower case: that before `compressed_ending`."""
    return os.path.splitext(path[: len(path) - len(compressed_ending(path))])[1].lower()


def _matching(content: bytes) -> FileKind | None:
    """Return the first kind whose pattern matches at the start of content, or None."""
    return next((kind for kind in KINDS if re.match(kind.pattern, content, re.DOTALL)), None)


def _tail(stream: BinaryIO, skipped: int) -> bytes:
    """Return the last bytes of a regular file, without its first `skipped` bytes; its position stays."""
    with contextlib.suppress(OSError, AttributeError):  # a stream without a file
        status = os.fstat(stream.fileno())
        if stat.S_ISREG(status.st_mode):
            return read_at(stream.fileno(), TAIL, max(skipped, status.st_size - TAIL))
    return b""


def _first_member(start: bytes) -> str:
    """Return the name of the first member of a zip archive, or NAME if there is none or it has unusual characters."""
    # Bytes 26 and 27 have the length of the name, which begins at byte 30.
    name = start[30 : 30 + int.from_bytes(start[26:28], "little")]
    return name.decode() if re.fullmatch(rb"[\w. /-]*[\w-][\w.-]*", name) else "NAME"
