"""`xmlgp fetch` from untrusted servers and onto failing disks: one sentence each, and no incomplete files."""

import errno
import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.cli.command import run, said
from tests.cli.disk import everything, failing_disk
from tests.data.loopback import (
    CERTIFICATE,
    LoopbackServer,
    raw,
    redirect,
    serve,
    stall,
    truncate,
)
from tests.data.test_archives import PAGE, zipped
from tests.data.test_fetch import TEST, TRAIN

CHECKSUM = hashlib.sha256(TRAIN).hexdigest()
OK = b"HTTP/1.1 200 OK\r\n"
LIMIT = 3_000_000


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder; no other file may appear in it, beside it, at home or among the temporary files."""
    for name in ("here", "home", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("XMLGP_CATALOGUE", str(tmp_path / "catalogue.yaml"))
    # A proxy of the machine cannot reach the loopback interface.
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("xmlgp.data.download.RETRY_DELAYS", ())
    return tmp_path / "here"


@pytest.fixture
def server(here, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with LoopbackServer(secure=True) as server:
        server.answers |= {"/train.txt": [serve(TRAIN)], "/test.txt": [serve(TEST)]}
        yield server


def write_catalogue(here, source):
    small = {
        "title": "A small data set",
        "shape": {"N": 3, "N_test": 2, "D": 5, "K": 4},
        "propensity": {"A": 0.55, "B": 1.5},
        "max_mb": LIMIT / 1e6,
        "files": {"train": {"checksums": [{"sha256": CHECKSUM}]}, "test": {}},
        "sources": [source],
    }
    here.with_name("catalogue.yaml").write_text(json.dumps({"datasets": {"small": small}}))


def files_source(server):
    return {"https": f"{server.url}/{{file}}"}


def archive_source(server):
    return {"archive": f"{server.url}/a.zip", "members": {"train": "Set/train", "test": "Set/test"}}


def failure(here):
    """Return the message of a fetch that fails, into an empty folder and with --force over existing files.

    Neither changes any file.
    """
    before = everything(here.parent)
    message = said(run("fetch", "small"))
    assert everything(here.parent) == before
    (here / "data/small").mkdir(parents=True)
    (here / "data/small/train.txt").write_bytes(TRAIN)
    (here / "data/small/test.txt").write_bytes(TEST)
    before = everything(here.parent)
    assert said(run("fetch", "small", "--force")) == message
    assert everything(here.parent) == before
    assert message.isprintable()
    assert len(message) < 600
    return re.sub(r"https://127\.0\.0\.1:\d+", "URL", message)


FETCHED_FROM = "small could not be fetched from 127.0.0.1: "
TOO_LARGE = "URL/train.txt is larger than the 3000000 bytes that the catalogue allows"
TOO_LARGE_UNPACKED = "train.txt is larger than the 3000000 bytes that the catalogue allows"
WRONG_HEADER = "train.txt has the header {!r}, not '3 5 4'"
WRONG_CHECKSUM = "train.txt has the sha256 checksum "
WEB_PAGE = "the server sent a web page instead of the data "

#: Responses to the request for train.txt, and the start of the message. `tests/data/test_download.py` has more.
RESPONSES = {
    "changed digit": (serve(TRAIN.replace(b"0 1:2", b"0 1:3")), WRONG_CHECKSUM),
    "additional point": (serve(TRAIN + b"0 1:2\n"), WRONG_CHECKSUM),
    "truncated line": (raw(OK, b"\r\n", TRAIN[:-2]), WRONG_CHECKSUM),
    "truncated data": (raw(OK, b"\r\n", TRAIN[:-8]), "train.txt has 2 points, not 3; the end is missing"),
    "no data": (serve(b""), WRONG_HEADER.format("")),
    "other shape": (serve(TRAIN.replace(b"3 5 4", b"3 5 5")), WRONG_HEADER.format("3 5 5")),
    "terminal control sequence": (serve(b"\x1b]0;gotcha\x07\n" + TRAIN), WRONG_HEADER.format("\x1b]0;gotcha\x07")),
    "no line ends": (serve(b"3 5 4 " * 300_000), "train.txt has the header '3 5 4 3 5 4"),
    "truncated gzip": (serve(gzip.compress(TRAIN)[:-3]), "train.txt: the gzip data are truncated"),
    "damaged gzip": (serve(gzip.compress(TRAIN)[:-8] + bytes(8)), "train.txt: the gzip data are damaged (CRC check "),
    "gzip bomb": (serve(gzip.compress(bytes(3 * 10**7))), TOO_LARGE_UNPACKED),
    "web page": (serve(PAGE, Content_Type="text/html"), WEB_PAGE),
    "web page after a comment": (serve(b"\xef\xbb\xbf<!-- -->\n<HTML lang=en>"), WEB_PAGE),
    "gzipped web page": (serve(gzip.compress(PAGE), Content_Encoding="gzip"), WEB_PAGE),
    "body announced too large": (raw(OK, b"Content-Length: 3000001\r\n\r\n1"), TOO_LARGE),
    "truncated body": (truncate(TRAIN, 10), "URL/train.txt: the download failed (received 10 of 30 bytes)"),
    "terminal control sequence in the status": (
        raw(b"HTTP/1.1 403 \x1b[31mNo\r\nContent-Length: 0\r\n\r\n"),
        r"URL/train.txt: the server answered 403 \x1b[31mNo",
    ),
    "long status": (
        raw(b"HTTP/1.1 403 " + b"x" * 60_000 + b"\r\n\r\n"),
        f"URL/train.txt: the server answered 403 {'x' * 200}…",
    ),
    "redirect to a local file": (
        redirect("file:///etc/passwd"),
        "URL/train.txt redirects to file:///etc/passwd, which is not allowed",
    ),
}


@pytest.mark.parametrize("response", RESPONSES)
def test_wrong_response_changes_no_file(server, here, response):
    answer, message = RESPONSES[response]
    server.answers["/train.txt"] = [answer]
    write_catalogue(here, files_source(server))
    assert failure(here).startswith(FETCHED_FROM + message)


def test_only_the_resumable_part_remains(server, here):
    server.answers["/train.txt"] = [truncate(TRAIN, 10, ETag='"v1"'), serve(TRAIN, ETag='"v1"')]
    write_catalogue(here, files_source(server))
    message = said(run("fetch", "small"))
    assert message.endswith("(received 10 of 30 bytes); 10 bytes are kept and the next call resumes from there")
    folder = here / "data/.partial/small/downloads/1"
    assert sorted(path for path in here.rglob("*") if path.is_file()) == [
        folder / "train.txt",
        folder / "train.txt.json",
    ]
    assert run("fetch", "small").exit_code == 0
    assert sorted(everything(here)) == ["data", "data/small", "data/small/test.txt", "data/small/train.txt"]
    assert [headers.get("Range") for _, headers in server.requests] == [None, "bytes=10-", None]


NOT_A_ZIP_FILE = "the zip archive is damaged, or the file is not a zip archive (File is not a zip file)"

#: Archives, and the start of the message. `tests/data/test_archives.py` has more.
ARCHIVES = {
    "web page": (PAGE, WEB_PAGE),
    "not an archive": (TRAIN, NOT_A_ZIP_FILE),
    "truncated archive": (zipped(("Set/train", TRAIN), ("Set/test", TEST))[:-30], NOT_A_ZIP_FILE),
    "members in other folders": (
        zipped(("../Set/train", TRAIN), ("/Set/train", TRAIN), ("C:\\Set\\train", TRAIN)),
        "the zip archive has no Set/train",
    ),
    "bomb": (zipped(("Set/train", bytes(3 * 10**7)), ("Set/test", TEST)), TOO_LARGE_UNPACKED),
    "web page as a member": (zipped(("Set/train", PAGE), ("Set/test", TEST)), WEB_PAGE),
    "changed digit": (zipped(("Set/train", TRAIN.replace(b"2:1", b"2:2")), ("Set/test", TEST)), WRONG_CHECKSUM),
}


@pytest.mark.parametrize("content", ARCHIVES)
def test_wrong_archive_changes_no_file(server, here, content):
    content, message = ARCHIVES[content]
    server.answers["/a.zip"] = [serve(content, ETag='"v1"')]
    write_catalogue(here, archive_source(server))
    assert failure(here).startswith(FETCHED_FROM + message)


def test_archive_members_cannot_escape_the_folder(server, here):
    paths = [f"{here.parent}/evil", "../evil", "Set/../../../evil", "..\\evil", "C:\\evil", "\u202eevil", "evil"]
    link = zipfile.ZipInfo("data")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    members = [*((path, b"evil") for path in paths), (link, b"/etc"), ("Set/train", TRAIN), ("Set/test", TEST)]
    server.answers["/a.zip"] = [serve(zipped(*members))]
    write_catalogue(here, archive_source(server))
    before = everything(here.parent)
    assert run("fetch", "small").exit_code == 0
    new = everything(here.parent).keys() - before.keys()
    assert new == {f"here/{name}" for name in ("data", "data/small", "data/small/train.txt", "data/small/test.txt")}


MIRRORS = {
    "ftp://127.0.0.1/": "'ftp://127.0.0.1/small/train.txt' is not a web address",
    "file://elsewhere/x": "file://elsewhere/x is on another machine; use file:///FOLDER",
    "file:///none%1b%5b2J": r"neither /none\x1b[2J/small/train.txt nor train.txt.gz exists",
    "data:,x": "neither data:,x/small/train.txt nor train.txt.gz exists",
}


@pytest.mark.parametrize("mirror", MIRRORS)
def test_invalid_mirror_is_reported(here, mirror):
    write_catalogue(here, {"mirror": mirror})
    assert failure(here) == f"small could not be fetched from {mirror}: {MIRRORS[mirror]}"


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_endless_files_in_a_mirror_are_not_read(here, kind):
    folder = here.parent / "mirror/small"
    folder.mkdir(parents=True)
    make = {"pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"), "folder": Path.mkdir}[kind]
    make(folder / "train.txt")
    write_catalogue(here, {"mirror": "../mirror"})
    message = "neither ../mirror/small/train.txt nor train.txt.gz exists"
    assert failure(here) == f"small could not be fetched from ../mirror: {message}"


def test_failing_disk_leaves_no_incomplete_file(server, here, monkeypatch):
    for path, content in [("/train.txt", TRAIN), ("/test.txt", TEST)]:
        server.answers[path] = [serve(content, ETag='"v1"')]
    write_catalogue(here, files_source(server))
    before = everything(here.parent)
    failed = set()
    for operation in range(1, 200):
        with failing_disk(monkeypatch, here, operation, errno.ENOSPC) as disk:
            result = run("fetch", "small")
        if not disk.failed:
            break
        failed.update(disk.failed)
        if (here / "data/small").exists():
            assert (here / "data/small/train.txt").read_bytes() == TRAIN
            assert (here / "data/small/test.txt").read_bytes() == TEST
        if result.exit_code != 0:
            assert re.fullmatch("no space left on the disk of data(/.*)?", said(result)), disk.done
            if disk.failed[0] not in ("os.remove", "os.rmdir"):
                assert everything(here.parent) == before, disk.done
        shutil.rmtree(here / "data", ignore_errors=True)
    assert result.exit_code == 0
    assert failed >= {"os.mkdir", "open", "write", "fsync", "os.rename"}


@pytest.mark.parametrize("content", [bytes(1_500_000), gzip.compress(os.urandom(10**4) * 150)], ids=["plain", "gzip"])
def test_full_disk_keeps_no_file(server, here, mounted, content):
    server.answers["/train.txt"] = [serve(content, ETag='"v1"')]
    write_catalogue(here, files_source(server))
    (here / "small-disk").mkdir()
    mounted(here / "small-disk", "size=1m")
    (here / "small-disk/data").mkdir()
    assert said(run("fetch", "small", "--into", "small-disk/data")) == "no space left on the disk of small-disk/data"
    assert everything(here) == dict.fromkeys(("small-disk", "small-disk/data"), (stat.S_IFDIR, None, None))


@pytest.mark.parametrize("headers", [{}, {"ETag": '"v1"'}], ids=["cannot be resumed", "can be resumed"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_keeps_only_the_resumable_part(server, here, number, headers):
    server.answers["/train.txt"] = [stall(TRAIN + bytes(100_000), 50_000, **headers)]
    write_catalogue(here, files_source(server))
    before = everything(here.parent)
    command = [sys.executable, "-m", "xmlgp", "fetch", "small"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        part = here / "data/.partial/small/downloads/1/train.txt"
        while not (part.exists() and part.stat().st_size) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    advice = "; the partial download stays in data/.partial; the next call resumes it" if headers else ""
    assert (process.returncode, out, err) == (128 + number, "", f"interrupted{advice}\n")
    if headers:
        assert {path.name for path in here.rglob("*") if path.is_file()} == {"train.txt", "train.txt.json"}
        server.answers["/train.txt"] = [serve(TRAIN)]
        assert run("fetch", "small").exit_code == 0
        assert sorted(everything(here)) == ["data", "data/small", "data/small/test.txt", "data/small/train.txt"]
    else:
        assert everything(here.parent) == before
