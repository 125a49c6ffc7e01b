"""The file of a data set, files, gzip files and standard streams; binary files are refused with a way out.

Output is complete or does not appear.
"""

import bz2
import gzip
import io
import lzma
import os
import random
import stat
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest

from xmlgp.data.files import FREE_BYTES, check_outputs, format_ending, locate, open_input, open_output
from xmlgp.runtime.errors import UsageError, XmlgpError


def test_path_that_is_not_a_folder_is_returned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "points.txt").write_text("")
    (tmp_path / "train.txt").write_text("")
    (tmp_path / "-").mkdir()
    (tmp_path / "-" / "train.txt").write_text("")
    for name in ("-", "points.txt", "no/such/file", "missing", ""):
        assert locate(name, "train") == name
    assert locate("./-", "train") == "-/train.txt"
    assert locate(".", "train") == "train.txt"


def test_folder_without_the_file_is_reported(tmp_path):
    (tmp_path / "a.test.svm").write_text("")
    with pytest.raises(XmlgpError) as caught:
        locate(str(tmp_path), "train")
    assert str(caught.value) == (
        f"{tmp_path}: this folder contains no train file such as train.txt, train.svm or train.csv, "
        "and no documents NAME.txt with labels in NAME.tsv or NAME.key; name the file"
    )


#: The files of a folder, and the expected training and test file.
FOLDERS = [
    ("train.txt test.txt other.txt", "train.txt", "test.txt"),
    ("train.txt.gz", "train.txt.gz", None),
    ("german.svm", "german.svm", None),
    ("magic.train.svm magic.test.svm", "magic.train.svm", "magic.test.svm"),
    ("train.svm test.svm", "train.svm", "test.svm"),
    ("train.svm.gz test.svm.gz magic.train.svm magic.test.svm", "train.svm.gz", "test.svm.gz"),
    ("some.svm magic.train.svm magic.test.svm", "magic.train.svm", "magic.test.svm"),
    ("some.svm some.test.svm", "some.svm", "some.test.svm"),
    ("latest.svm test.svm", "latest.svm", "test.svm"),
    ("test.svm", None, "test.svm"),
    ("notes.md svm some.svm.zip .some.txt", None, None),
    ("train.txt.gz test.txt", "train.txt.gz", "test.txt"),
    ("a8a.svm.gz a8a.test.svm", "a8a.svm.gz", "a8a.test.svm"),
    ("some.txt train.txt.gz", "train.txt.gz", None),
    ("articles.txt articles.tsv train.txt labels.txt", "train.txt", None),
    ("articles.txt articles.key vectorizer.json", None, None),
    ("a.txt b.txt", None, "."),
    ("train.txt train.json notes.json", "train.txt", None),
    ("some.svm notes.json", "some.svm", None),
    ("vectorizer.json notes.json", None, None),
    ("model.json notes.json", None, None),
    ("a.txt b.txt b.tsv train.txt train.key labels.txt", ".", "."),
]


@pytest.mark.parametrize(("names", "train", "test"), FOLDERS, ids=[names for names, *_ in FOLDERS])
def test_files_of_binary_data_sets(tmp_path, names, train, test):
    for name in names.split():
        (tmp_path / name).write_text("")
    for part, expected in ("train", train), ("test", test):
        if expected is None:
            with pytest.raises(XmlgpError, match="this folder contains no "):
                locate(str(tmp_path), part)
        else:
            assert locate(str(tmp_path), part) == str(tmp_path / expected)


SEVERAL = ["b.svm a.svm.gz", "b.train.svm a.train.svm", "a.train.svm.gz b.train.svm c.svm"]
SEVERAL += ["train.txt train.txt.gz", "train.svm train.txt", "train.txt train.tsv"]


@pytest.mark.parametrize("names", SEVERAL)
def test_several_candidates_are_reported(tmp_path, names):
    for name in names.split():
        (tmp_path / name).write_text("")
    with pytest.raises(XmlgpError) as caught:
        locate(str(tmp_path), "train")
    found = " or ".join(sorted(name for name in names.split() if name != "c.svm"))
    assert str(caught.value) == f"{tmp_path}: the train file may be {found}; name the file"


def read(path):
    with open_input(path) as stream:
        return stream.read()


def write(path, content):
    with open_output(path) as stream:
        stream.write(content)


@pytest.fixture
def stdin(monkeypatch):
    """Return a function that sets the content of standard input."""
    return lambda content: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("name", ["data.txt", "data.txt.gz", "DATA.TXT.GZ"])
def test_round_trip(tmp_path, name):
    write(tmp_path / name, b"abc" * 1000)
    assert read(tmp_path / name) == b"abc" * 1000
    assert (name != "data.txt") == (os.path.getsize(tmp_path / name) < 3000)
    # Neither name nor time is in it.
    write(tmp_path / f"other-{name}", b"abc" * 1000)
    assert (tmp_path / f"other-{name}").read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("content", [b"", b"a", b"abc", gzip.compress(b"abc"), gzip.compress(b"")])
def test_gzip_on_standard_input_is_decompressed(stdin, content):
    stdin(content)
    assert read("-") == (gzip.decompress(content) if len(content) > 3 else content)
    assert not sys.stdin.closed


def test_compression_is_detected_if_a_pipe_delivers_one_byte_first(monkeypatch):
    source, sink = os.pipe()
    packed = gzip.compress(b"abc")

    def write_slowly():
        with open(sink, "wb", buffering=0) as writer:
            for start in 0, 1, 2, 3:
                writer.write(packed[start : start + 1])
                time.sleep(0.01)
            writer.write(packed[4:])

    thread = threading.Thread(target=write_slowly)
    thread.start()
    with open(source, "rb") as piped:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(piped))
        assert read("-") == b"abc"
    thread.join()


@pytest.mark.parametrize("line", [b"B\n", b"text\n"])
def test_a_line_of_a_pipe_is_there_before_the_next_one_comes(monkeypatch, line):
    source, sink = os.pipe()
    with open(source, "rb") as piped, open(sink, "wb", buffering=0) as writer:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(piped))
        writer.write(line)
        with open_input("-") as stream:
            assert stream.read1(100) == line
            assert stream.fileno() == source


def test_standard_output(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written))
    write("-", b"abc")
    assert written.getvalue() == b"abc"


#: Bytes that do not compress, the same in each run: whether damage is noticed may depend on them.
CONTENT = random.Random(0).randbytes(100).hex().encode()


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_closed_standard_stream_is_reported(monkeypatch, name):
    monkeypatch.setattr(f"sys.{name}", None)
    with pytest.raises(XmlgpError, match=f"{name} is closed"):
        read("-") if name == "stdin" else write("-", b"")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: content[:-4], "damaged"),
        (lambda content: content[:12], "damaged"),
        (lambda content: content[:3], "damaged"),
        (lambda content: content[:1], "damaged"),
        (lambda content: content[: len(content) // 2] + b"\0" * 9 + content[len(content) // 2 + 9 :], "damaged"),
        (lambda content: content + b"more" * 9, "damaged"),
    ],
)
def test_damaged_compressed_file_is_reported(tmp_path, damage, reason):
    path = tmp_path / "data.gz"
    path.write_bytes(damage(gzip.compress(CONTENT)))
    with pytest.raises(XmlgpError, match=f"^{path}: the gzip data are {reason}"):
        read(path)


def test_small_file_of_many_empty_points_is_refused(tmp_path):
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(b"\n" * (FREE_BYTES + (1 << 20))))
    with pytest.raises(XmlgpError, match=f"^{path}: the gzip data are damaged .they expand to more than 100 times"):
        read(path)


def test_output_follows_a_symbolic_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write(tmp_path / "link", b"abc")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"abc"


def test_pipes_are_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write(pipe, b"abc")
    reader.join()
    assert got == [b"abc"]
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


def test_errors_name_the_given_path(tmp_path):
    for path in tmp_path / "none" / "out.txt", tmp_path:
        with pytest.raises(OSError, match="No such file|Is a directory") as caught:
            write(path, b"")
        assert caught.value.filename == str(path)


@pytest.fixture
def linked(tmp_path, monkeypatch):
    """Change to a folder with files of data and of a model, and other names for one of them."""
    monkeypatch.chdir(tmp_path)
    model = ("model/model.json", "model/arrays/x.npy", "model/page.html")
    documents = ("documents/b.txt", "documents/b.key", "documents/b.jsonl")
    for name in ("a.txt", "set/train.txt", "set/mine.txt", *model, *documents):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    os.symlink("a.txt", "link")
    os.symlink("link", "link to link")
    os.symlink(".", "folder")
    os.link("a.txt", "hard link")
    os.mkfifo("pipe")


@pytest.mark.parametrize(
    ("output", "read", "named"),
    [
        *((name, "a.txt", "a.txt") for name in ("./set/../a.txt", "link to link", "hard link", "folder/a.txt")),
        ("a.txt", "link", "link"),
        ("set/train.txt", "set", "set/train.txt"),
        ("model/model.json", "folder/model", "folder/model/model.json"),
        ("model/arrays/x.npy", "model", "model/arrays/x.npy"),
        ("documents/b.key", "documents", "documents/b.key"),
    ],
)
def test_an_output_is_not_an_input_also_under_another_name(linked, output, read, named):
    with pytest.raises(UsageError) as caught:
        check_outputs(["new", output], ["set", None, read])
    assert str(caught.value) == f"The output {output} is the same file as the input {named}; choose another output."


def test_results_beside_inputs_devices_pipes_and_new_files_are_outputs(linked):
    inputs = ["model", "set", "documents", "a.txt", "pipe", "/dev/null", "nowhere", "bad\0name", [["texts"]]]
    results = ["set/mine.txt", "model/page.html", "documents/b.jsonl"]
    check_outputs([*results, "new", "pipe", "/dev/null", "nowhere", "bad\0name"], inputs)


@pytest.mark.parametrize("output", ["-", "/dev/stdout", "a.txt"])
@pytest.mark.parametrize("read", ["-", "a.txt"])
def test_an_output_is_not_an_input_through_standard_streams(linked, output, read):
    program = "import sys; from xmlgp.data.files import check_outputs; check_outputs([sys.argv[1]], [sys.argv[2]])"
    with open("a.txt", "r+b") as stream, open("new", "ab") as other:
        for stdout, status in (stream, 1), (other, int(output == "a.txt")):
            command = [sys.executable, "-c", program, output, read]
            result = subprocess.run(command, stdin=stream, stdout=stdout, stderr=subprocess.PIPE, check=False)
            assert result.returncode == status
            names = f"The output {output} is the same file as the input {read};"
            for name, device in (" - is", " /dev/stdout is"), (" -;", " /dev/stdin;"):
                names = names.replace(name, device)
            assert (names in result.stderr.decode()) == bool(status)


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
