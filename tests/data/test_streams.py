"""Files, gzip files and the standard streams; output is complete or does not appear."""

import gzip
import io
import os
import random
import stat
import subprocess
import sys
import threading
import time

import pytest

from xmlgp.data.streams import FREE_BYTES, check_outputs, open_input, open_output
from xmlgp.runtime.errors import UsageError, XmlgpError


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
    program = "import sys; from xmlgp.data.streams import check_outputs; check_outputs([sys.argv[1]], [sys.argv[2]])"
    with open("a.txt", "r+b") as stream, open("new", "ab") as other:
        for stdout, status in (stream, 1), (other, int(output == "a.txt")):
            command = [sys.executable, "-c", program, output, read]
            result = subprocess.run(command, stdin=stream, stdout=stdout, stderr=subprocess.PIPE, check=False)
            assert result.returncode == status
            names = f"The output {output} is the same file as the input {read};"
            for name, device in (" - is", " /dev/stdout is"), (" -;", " /dev/stdin;"):
                names = names.replace(name, device)
            assert (names in result.stderr.decode()) == bool(status)
