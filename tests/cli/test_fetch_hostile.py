"""`xmlgp fetch` against servers, archives and catalogues that mean ill: one sentence each, and nothing left behind."""

import errno
import functools
import gzip
import hashlib
import io
import json
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import run, said
from tests.cli.disk import everything
from tests.data.loopback import CERTIFICATE, Loopback, breaks_off, drips, endless, raw, redirect, stalls, status, whole
from tests.data.test_archives import PAGE, zipped
from tests.data.test_fetch import TEST, TRAIN
from xmlgp.data.download import Patience
from xmlgp.data.fetch import fetch

CHECKSUM = hashlib.sha256(TRAIN).hexdigest()
ONE_TRY = Patience(stall=10, pauses=())
TWO_TRIES = Patience(stall=10, pauses=(0.0,))
IMPATIENT = Patience(stall=0.2, pauses=())

#: Longer than what is asked of a server within the patience above.
LONG = TRAIN + bytes(100_000)

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LIMIT = 3_000_000


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, in which and beside which nothing but the data may appear."""
    for name in ("here", "home", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setenv("XMLGP_CATALOGUE", str(tmp_path / "catalogue.yaml"))
    # A proxy of the machine must not come between the tests and the loopback interface.
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "here"


@pytest.fixture
def server(here, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with Loopback(secure=True) as server:
        server.answers |= {"/train.txt": [whole(TRAIN)], "/test.txt": [whole(TEST)]}
        yield server


def catalogue(here, source):
    small = {
        "title": "A small set",
        "shape": {"N": 3, "N_test": 2, "D": 5, "K": 4},
        "propensity": {"A": 0.55, "B": 1.5},
        "max_mb": LIMIT / 1e6,
        "files": {"train": {"checksums": [{"sha256": CHECKSUM}]}, "test": {}},
        "sources": [source],
    }
    here.with_name("catalogue.yaml").write_text(json.dumps({"datasets": {"small": small}}))


def files(server):
    return {"https": f"{server.url}/{{file}}"}


def archive(server):
    return {"archive": f"{server.url}/a.zip", "members": {"train": "Set/train", "test": "Set/test"}}


def be_patient(monkeypatch, patience):
    monkeypatch.setattr("xmlgp.cli.fetch.fetch_dataset", functools.partial(fetch, patience=patience))


def refused(here, *options):
    """The sentence with which fetching fails: into an empty folder, and in place of an earlier copy.

    Neither leaves anything behind, nor harms the copy.
    """
    before = everything(here.parent)
    sentence = said(run("fetch", "small", *options))
    assert everything(here.parent) == before
    (here / "data/small").mkdir(parents=True)
    (here / "data/small/train.txt").write_bytes(TRAIN)
    (here / "data/small/test.txt").write_bytes(TEST)
    before = everything(here.parent)
    assert said(run("fetch", "small", "--force", *options)) == sentence
    assert everything(here.parent) == before
    assert sentence.isprintable()
    assert len(sentence) < 600
    return sentence


def from_server(sentence):
    return sentence.removeprefix("small could not be fetched from 127.0.0.1: ")


def chunk(content):
    return b"%x\r\n%s\r\n" % (len(content), content)


BROKE_OFF = "{url}/train.txt: the download broke off "
TOO_LARGE = f"{{url}}/train.txt holds more than the {LIMIT} bytes that the catalogue allows"
TOO_LARGE_UNPACKED = f"train.txt has over {LIMIT} bytes, too many for the catalogue or its packed size"
TOO_LARGE_FOR_ITS_SIZE = r"train\.txt has over 1\d{6} bytes, too many for the catalogue or its packed size"
WEB_PAGE = (
    "a web page came in place of the data (Google Drive sends one when a file has been downloaded too often that day); "
    "try again tomorrow or give a copy of the data with --mirror"
)
WRONG_CHECKSUM = r"train\.txt has the sha256 checksum [0-9a-f]{64}, which is none of those in the catalogue"


def literally(text):
    """A pattern for just this text, but for the server's address."""
    return re.escape(text).replace(re.escape("{url}"), r"https://127\.0\.0\.1:\d+")


#: What the server answers when asked for train.txt, and what is said of it.
MISBEHAVIOURS = {
    # other content
    "a changed digit": (whole(TRAIN.replace(b"0 1:2", b"0 1:3")), WRONG_CHECKSUM),
    "more than the data": (whole(TRAIN + b"0 1:2\n"), WRONG_CHECKSUM),
    "the end cut off, without a length": (
        raw(OK, b"\r\n", TRAIN[:-8]),
        literally("train.txt has 2 points, not 3; the end is missing"),
    ),
    "the last number cut off, without a length": (raw(OK, b"\r\n", TRAIN[:-2]), WRONG_CHECKSUM),
    "nothing": (whole(b""), literally("train.txt has the header '', not '3 5 4'")),
    "nothing, on purpose": (status(204), literally("train.txt has the header '', not '3 5 4'")),
    "data of another shape": (
        whole(TRAIN.replace(b"3 5 4", b"3 5 5")),
        literally("train.txt has the header '3 5 5', not '3 5 4'"),
    ),
    "what steers a terminal": (
        whole(b"\x1b]0;gotcha\x07\n" + TRAIN),
        literally(r"train.txt has the header '\x1b]0;gotcha\x07', not '3 5 4'"),
    ),
    "one line without an end": (whole(b"3 5 4 " * 300_000), literally("train.txt has the header ") + ".*"),
    "another encoding": (whole(b"\x0b\x02\x80", Content_Encoding="br"), "train.txt has the header '.*', not '3 5 4'"),
    # Without the time of day, of which one byte in 256 is a quotation mark.
    "gzip within gzip": (
        whole(gzip.compress(gzip.compress(TRAIN, mtime=0))),
        "train.txt has the header '.*', not '3 5 4'",
    ),
    "gzip, cut off": (whole(gzip.compress(TRAIN)[:-3]), literally("train.txt: the gzip data are truncated")),
    "gzip, damaged": (
        whole(gzip.compress(TRAIN)[:-8] + bytes(8), Content_Encoding="gzip"),
        literally("train.txt: the gzip data are damaged (CRC check failed ") + ".*",
    ),
    "a web page": (whole(PAGE, Content_Type="text/html"), literally(WEB_PAGE)),
    "a web page after a comment": (whole(b"\xef\xbb\xbf<!-- -->\n<HTML lang=en>"), literally(WEB_PAGE)),
    "a web page, packed": (whole(gzip.compress(PAGE), Content_Encoding="gzip"), literally(WEB_PAGE)),
    # other lengths
    "bytes without end": (endless(), literally(TOO_LARGE)),
    "bytes without end in chunks": (drips(CHUNKED, chunk(bytes(10**5)), 0), literally(TOO_LARGE)),
    "a chunk of -1 bytes": (drips(CHUNKED + b"-1\r\n", bytes(10**5), 0), literally(TOO_LARGE)),
    "a trailer without end": (drips(CHUNKED + b"0\r\n", b"a: b\r\n" * 10**4, 0), literally(TOO_LARGE)),
    "extensions of chunks without end": (drips(CHUNKED, b"1;%s\r\n1\r\n" % (b"x" * 60_000), 0), literally(TOO_LARGE)),
    "more announced than allowed": (raw(OK, b"Content-Length: 3000001\r\n\r\n1"), literally(TOO_LARGE)),
    "a length of thousands of digits": (raw(OK, b"Content-Length: %s\r\n\r\n" % (b"9" * 5000)), ".* the header '', .*"),
    "a negative length": (
        raw(OK, b"Content-Length: -1\r\n\r\n"),
        literally("train.txt has the header '', not '3 5 4'"),
    ),
    "a bomb": (whole(gzip.compress(bytes(3 * 10**7))), literally(TOO_LARGE_UNPACKED)),
    "a bomb within the limit": (whole(gzip.compress(bytes(2 * 10**6))), TOO_LARGE_FOR_ITS_SIZE),
    # connections that break
    "hangs up at once": (
        raw(),
        literally(BROKE_OFF + "(Remote end closed connection without response)"),
    ),
    "hangs up within the head": (
        raw(OK, b"Content-Le"),
        literally("train.txt has the header '', not '3 5 4'"),
    ),
    "hangs up within the body": (breaks_off(TRAIN, 10), literally(BROKE_OFF + "(10 of 30 bytes had arrived)")),
    "hangs up within a chunk": (raw(CHUNKED, chunk(TRAIN)[:-9]), literally(BROKE_OFF + "(the end is missing)")),
    "hangs up between chunks": (raw(CHUNKED, chunk(TRAIN)), literally(BROKE_OFF + "(the end is missing)")),
    "a chunk of nonsense length": (raw(CHUNKED, b"zz\r\n1\r\n"), literally(BROKE_OFF + "(the end is missing)")),
    # answers that are none
    "nonsense": (raw(b"\x1b[2Jnonsense\r\n\r\n"), literally(BROKE_OFF + r"(\x1b[2Jnonsense)")),
    "nonsense without end": (
        raw(b"x" * 10**5),
        literally(BROKE_OFF + "(got more than 65536 bytes when reading status line)"),
    ),
    "a head of many lines": (drips(OK, b"a: b\r\n" * 10**4, 0), literally(BROKE_OFF + "(got more than 100 headers)")),
    "a head of one long line": (
        drips(OK + b"a: ", b"b" * 10**5, 0),
        literally(BROKE_OFF + "(got more than 65536 bytes when reading header line)"),
    ),
    "not there": (status(404), literally("{url}/train.txt: the server answered 404 Not Found")),
    "forbidden": (status(403), literally("{url}/train.txt: the server answered 403 Forbidden")),
    "forbidden in words that steer a terminal": (
        raw(b"HTTP/1.1 403 \x1b[31mNo\r\nContent-Length: 0\r\n\r\n"),
        literally(r"{url}/train.txt: the server answered 403 \x1b[31mNo"),
    ),
    "forbidden in many words": (
        raw(b"HTTP/1.1 403 " + b"x" * 60_000 + b"\r\n\r\n"),
        literally(f"{{url}}/train.txt: the server answered 403 {'x' * 200}…"),
    ),
    "overloaded": (status(503), literally(BROKE_OFF + "(503 Service Unavailable)")),
    "a part that was not asked for": (
        status(206, Content_Range="bytes 0-9/10"),
        literally(BROKE_OFF + "(the server sent another part of the file than asked for)"),
    ),
    # redirects
    **{
        f"a redirect to {to}": (redirect(to), literally(f"{{url}}/train.txt redirects to {to}, which is not followed"))
        for to in ["file:///etc/passwd", "ftp://127.0.0.1/x", "data:,3%205%204", "gopher://127.0.0.1/", "javascript:1"]
        + ["http://127.0.0.1/train.txt", "https://[::1", "https://a..b/", "https://127.0.0.1:x/", "https://u:p@[::1]/"]
    },
    "a redirect without a place": (status(302), literally("{url}/train.txt: the server answered 302 Found")),
    "a redirect that steers a terminal": (
        raw(b"HTTP/1.1 302 Found\r\nLocation: ftp://\x1b[2J\r\n\r\n"),
        literally(r"{url}/train.txt redirects to ftp://\x1b[2J, which is not followed"),
    ),
    "a redirect in a circle": (redirect("/train.txt"), literally("{url}/train.txt redirects more than 10 times")),
    "a redirect with a body without end": (
        drips(b"HTTP/1.1 302 Found\r\nLocation: /gone\r\n\r\n", bytes(10**5), 0),
        literally("{url}/train.txt: the server answered 404 Not Found"),
    ),
}


@pytest.mark.parametrize("misbehaviour", MISBEHAVIOURS)
def test_a_server_that_misbehaves(server, here, monkeypatch, misbehaviour):
    answer, sentence = MISBEHAVIOURS[misbehaviour]
    server.answers["/train.txt"] = [answer]
    catalogue(here, files(server))
    be_patient(monkeypatch, ONE_TRY)
    assert re.fullmatch(sentence, from_server(refused(here)))


def wait(handler):
    handler.server.finished.wait(20)


#: What takes its time, and what is said of it.
DELAYS = {
    "never answers": (wait, "(no byte came for 0.2 seconds)"),
    "drips the head": (
        drips(OK, b"a"),
        "(the head of the answer did not come to an end within 0.2 seconds)",
    ),
    "promises an answer again and again": (
        drips(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        "(the head of the answer did not come to an end within 0.2 seconds)",
    ),
    "stalls before the body": (stalls(LONG, 0), "(no byte came for 0.2 seconds)"),
    "stalls within the body": (stalls(LONG, 2000), "(no byte came for 0.2 seconds)"),
    "drips the body": (
        drips(OK + b"Content-Length: 10000\r\n\r\n", b"1"),
        "(under 1000 bytes a second came for 0.2 seconds)",
    ),
    "drips the size of a chunk": (
        drips(CHUNKED, b"0"),
        "(under 1000 bytes a second came for 0.2 seconds)",
    ),
    "drips a trailer": (
        drips(CHUNKED + chunk(TRAIN) + b"0\r\n", b"a"),
        "(under 1000 bytes a second came for 0.2 seconds)",
    ),
}


@pytest.mark.parametrize("delay", DELAYS)
def test_a_server_that_takes_its_time_is_given_up(server, here, monkeypatch, delay):
    answer, reason = DELAYS[delay]
    server.answers["/train.txt"] = [answer]
    catalogue(here, files(server))
    be_patient(monkeypatch, IMPATIENT)
    assert re.fullmatch(literally(BROKE_OFF + reason), from_server(refused(here)))


def test_a_server_that_does_not_shake_hands_is_given_up(here, monkeypatch):
    be_patient(monkeypatch, IMPATIENT)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        catalogue(here, {"https": f"https://127.0.0.1:{silent.getsockname()[1]}/{{file}}"})
        reason = (
            "no connection to 127.0.0.1 (no byte came for 0.2 seconds); without a network, give a copy of the data "
        )
        assert from_server(refused(here)) == reason + "with --mirror"


def test_a_host_of_many_addresses_is_given_up(here, monkeypatch):
    tried = []

    def silent(address, *details):
        tried.append(address)
        raise TimeoutError

    places = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"127.0.{i}.1", 443)) for i in range(200)]
    monkeypatch.setattr("socket.getaddrinfo", lambda *details, **more: places)
    monkeypatch.setattr("socket.create_connection", silent)
    be_patient(monkeypatch, IMPATIENT)
    catalogue(here, {"https": "https://many.invalid/{file}"})
    assert "no connection to many.invalid (no byte came for 0.2 seconds)" in refused(here)
    assert tried == [place for *_, place in places[:8]] * 2


def test_a_server_that_cannot_prove_who_it_is(server, here, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    be_patient(monkeypatch, ONE_TRY)
    catalogue(here, files(server))
    assert "CERTIFICATE_VERIFY_FAILED" in refused(here)
    assert server.requests == []


def rest(start, end, total, body, **headers):
    return raw(
        b"HTTP/1.1 206 Partial Content\r\n",
        *(f"{name}: {value}\r\n".encode() for name, value in headers.items()),
        f"Content-Range: bytes {start}-{end}/{total}\r\n\r\n".encode(),
        body,
    )


ANOTHER_PART = "(the server sent another part of the file than asked for)"

#: What the server answers when asked for the rest of train.txt, of which 10 of 30 bytes have come, and what is said.
RESTS = {
    "another part": (rest(0, 29, 30, TRAIN), ANOTHER_PART),
    "a later part": (rest(20, 29, 30, TRAIN[20:]), ANOTHER_PART),
    "the rest of another file": (rest(10, 29, 30, TRAIN[10:], ETag='"v2"'), ANOTHER_PART),
    "a part of numbers of thousands of digits": (rest("1" * 5000, 30, "9" * 5000, b""), ANOTHER_PART),
    "a part in words": (raw(b"HTTP/1.1 206 Partial Content\r\nContent-Range: all\r\n\r\n", TRAIN), ANOTHER_PART),
    "more than announced": (rest(10, 29, 30, TRAIN[10:] + b"1"), "(31 bytes came where 30 were announced)"),
    "that it is shorter now": (status(416, Content_Range="bytes */7"), "(the file has changed on the server)"),
}


@pytest.mark.parametrize("answer", RESTS)
def test_a_rest_that_is_none(server, here, monkeypatch, answer):
    begin = breaks_off(TRAIN, 10, ETag='"v1"')
    answer, reason = RESTS[answer]
    server.answers["/train.txt"] = [begin, answer, begin, answer]
    catalogue(here, files(server))
    be_patient(monkeypatch, TWO_TRIES)
    assert re.fullmatch(literally(BROKE_OFF + reason), from_server(refused(here)))


def test_a_part_that_can_be_resumed_is_all_that_is_kept(server, here, monkeypatch):
    server.answers["/train.txt"] = [breaks_off(TRAIN, 10, ETag='"v1"'), whole(TRAIN, ETag='"v1"')]
    catalogue(here, files(server))
    be_patient(monkeypatch, ONE_TRY)
    reason = "(10 of 30 bytes had arrived); 10 bytes are kept, the next call goes on from there"
    assert re.fullmatch(literally(BROKE_OFF + reason), from_server(said(run("fetch", "small"))))
    place = here / "data/.partial/small/downloads/1"
    assert sorted(path for path in here.rglob("*") if path.is_file()) == [place / "train.txt", place / "train.txt.json"]
    assert run("fetch", "small").exit_code == 0
    assert sorted(everything(here)) == ["data", "data/small", "data/small/test.txt", "data/small/train.txt"]
    assert [headers.get("Range") for _, headers in server.requests] == [None, "bytes=10-", None]


def of_kind(kind, name="Set/train", content=TRAIN):
    """A member that says it is of another kind than a plain file."""
    info = zipfile.ZipInfo(name)
    info.external_attr = (kind | 0o777) << 16
    return info, content


def patched(content, *changes):
    """The archive with 2 bytes or 4 at a place of the list entry of Set/train replaced."""
    content = bytearray(content)
    entry = content.index(b"PK\x01\x02")
    for place, layout, value in changes:
        struct.pack_into(layout, content, entry + place, value)
    return bytes(content)


GOOD = zipped(("Set/train", TRAIN), ("Set/test", TEST))
HUGE = zipped(("Set/train", bytes(3 * 10**7)), ("Set/test", TEST))
# Places of the size and of the flags in an entry of the list, and of where the member starts.
SIZE, FLAGS, START = 24, 8, 42
LAST_ENTRY = GOOD.rindex(b"PK\x01\x02") - GOOD.index(b"PK\x01\x02")

NOT_PLAIN = literally("Set/train in the zip archive is not a plain file")
DAMAGED = literally("the zip archive is damaged or none at all ")

#: What the server gives as the archive, and what is said of it.
ARCHIVES = {
    "a web page": (PAGE, literally(WEB_PAGE)),
    "a web page with an archive behind it": (PAGE + GOOD, literally(WEB_PAGE)),
    "no archive": (TRAIN, DAMAGED + literally("(File is not a zip file)")),
    "nothing": (b"", DAMAGED + literally("(File is not a zip file)")),
    "a cut off archive": (GOOD[:-30], DAMAGED + literally("(File is not a zip file)")),
    "an archive, gzipped": (gzip.compress(GOOD), DAMAGED + literally("(File is not a zip file)")),
    "an archive of something else": (zipped(("x", TRAIN)), literally("the zip archive has no Set/train")),
    "only other folders": (
        zipped(("../Set/train", TRAIN), ("/Set/train", TRAIN), ("C:\\Set\\train", TRAIN)),
        literally("the zip archive has no Set/train"),
    ),
    "a member twice": (
        zipped(("Set/train", TRAIN), ("Set/train", TEST), ("Set/test", TEST)),
        literally("the zip archive has more than one Set/train"),
    ),
    "a member twice, once with more behind a zero": (
        zipped(("Set/trainX.exe", TEST), ("Set/train", TRAIN)).replace(b"trainX", b"train\0"),
        literally("the zip archive has more than one Set/train"),
    ),
    "a name that looks the same": (
        zipped(("Set/tr\u0430in", TRAIN), ("Set/test", TEST)),
        literally("the zip archive has no Set/train"),
    ),
    "a link": (zipped(of_kind(stat.S_IFLNK, content=b"/etc/passwd")), NOT_PLAIN),
    "a device": (zipped(of_kind(stat.S_IFCHR)), NOT_PLAIN),
    "a disk": (zipped(of_kind(stat.S_IFBLK)), NOT_PLAIN),
    "a pipe": (zipped(of_kind(stat.S_IFIFO)), NOT_PLAIN),
    "a socket": (zipped(of_kind(stat.S_IFSOCK)), NOT_PLAIN),
    "a folder": (zipped(of_kind(stat.S_IFDIR)), NOT_PLAIN),
    "an encrypted member": (patched(GOOD, (FLAGS, "<H", 1)), literally("Set/train in the zip archive is encrypted")),
    "unusual packing": (
        zipped(("Set/train", TRAIN), compression=zipfile.ZIP_LZMA),
        literally("Set/train in the zip archive is not packed by the usual method, deflate"),
    ),
    "a bomb": (HUGE, literally(TOO_LARGE_UNPACKED)),
    "a bomb within the limit": (zipped(("Set/train", bytes(2 * 10**6))), TOO_LARGE_FOR_ITS_SIZE),
    "a bomb that says it is small": (
        patched(HUGE, (SIZE, "<L", len(TRAIN))),
        DAMAGED + r"\(Bad CRC-32 for file 'Set/train'\)",
    ),
    "a member that says it is huge": (
        patched(GOOD, (SIZE, "<L", 2**32 - 2)),
        TOO_LARGE_FOR_ITS_SIZE,
    ),
    "members one over the other": (
        patched(GOOD, (LAST_ENTRY + START, "<L", 0)),
        DAMAGED + literally("(") + "(File name in directory 'Set/test' and header b'Set/train' differ|Overlapped).*",
    ),
    "a member that starts elsewhere": (patched(GOOD, (START, "<L", 2**31)), DAMAGED + ".*"),
    "a long list of members": (
        zipped(*((f"{i}{'x' * 120}", b"") for i in range(7_000)), compression=zipfile.ZIP_STORED),
        DAMAGED + literally("(its list of members is too long)"),
    ),
    "a list longer than the archive": (
        GOOD[:-10] + struct.pack("<L", 2**32 - 2) + GOOD[-6:],
        DAMAGED + ".*",
    ),
    "a web page as a member": (zipped(("Set/train", PAGE), ("Set/test", TEST)), literally(WEB_PAGE)),
    "a member with a changed digit": (
        zipped(("Set/train", TRAIN.replace(b"2:1", b"2:2")), ("Set/test", TEST)),
        WRONG_CHECKSUM,
    ),
    "more than allowed": (
        bytes(LIMIT + 1),
        literally(TOO_LARGE).replace("train.txt", "a.zip").replace(r"train\.txt", r"a\.zip"),
    ),
}


@pytest.mark.parametrize("content", ARCHIVES)
def test_an_archive_that_is_not_as_it_should_be(server, here, monkeypatch, content):
    content, sentence = ARCHIVES[content]
    server.answers["/a.zip"] = [whole(content, ETag='"v1"')]
    catalogue(here, archive(server))
    be_patient(monkeypatch, ONE_TRY)
    assert re.fullmatch(sentence, from_server(refused(here)))


def test_nothing_of_an_archive_but_the_data_gets_onto_the_disk(server, here):
    elsewhere = [f"{here.parent}/evil", "../evil", "Set/../../../evil", "..\\evil", "C:\\evil", "\u202eevil", "evil"]
    members = [
        *((name, b"evil") for name in elsewhere),
        of_kind(stat.S_IFLNK, "data", b"/etc"),
        of_kind(stat.S_IFCHR, "x"),
    ]
    server.answers["/a.zip"] = [whole(zipped(*members, ("Set/train", TRAIN), ("Set/test", TEST)))]
    catalogue(here, archive(server))
    before = everything(here.parent)
    assert run("fetch", "small").exit_code == 0
    new = everything(here.parent).keys() - before.keys()
    assert new == {f"here/{name}" for name in ("data", "data/small", "data/small/train.txt", "data/small/test.txt")}


MIRRORS = {
    "ftp://127.0.0.1/": "'ftp://127.0.0.1/small/train.txt' is not a web address",
    "file://elsewhere/x": "file://elsewhere/x names another machine; only file:///FOLDER can be read",
    "file:///none%1b%5b2J": r"neither /none\x1b[2J/small/train.txt nor train.txt.gz is there",
    "data:,x": "neither data:,x/small/train.txt nor train.txt.gz is there",
}


@pytest.mark.parametrize("mirror", MIRRORS)
def test_a_mirror_that_is_none(here, mirror):
    catalogue(here, {"mirror": mirror})
    assert refused(here) == f"small could not be fetched from {mirror}: {MIRRORS[mirror]}"


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_in_a_mirror_is_not_read(here, kind):
    place = here.parent / "mirror/small"
    place.mkdir(parents=True)
    make = {"pipe": os.mkfifo, "device": lambda path: path.symlink_to("/dev/zero"), "folder": Path.mkdir}[kind]
    make(place / "train.txt")
    catalogue(here, {"mirror": "../mirror"})
    complaint = "neither ../mirror/small/train.txt nor train.txt.gz is there"
    assert refused(here) == f"small could not be fetched from ../mirror: {complaint}"


@contextmanager
def failing_disk(monkeypatch, operation, code):
    """Let the operation of that number that writes to the disk fail, whatever it is; yield the names of all."""
    done = []

    def counted(function, name):
        @functools.wraps(function)
        def wrapper(*args, **options):
            done.append(name)
            if len(done) == operation:
                # The name of what is written to through a file or its number is not known to the system.
                raise OSError(code, os.strerror(code), *([str(args[0])] if name not in ("write", "fsync") else []))
            return function(*args, **options)

        return wrapper

    class Written(io.BufferedWriter):
        write = counted(io.BufferedWriter.write, "write")

    def opened(path, mode, opener=None):
        return open(path, mode) if mode == "rb" else counted(lambda path: Written(io.FileIO(path, mode)), "open")(path)

    with monkeypatch.context() as patch:
        for module in ("download", "archives", "fetch"):
            patch.setattr(f"xmlgp.data.{module}.open", opened, raising=False)
        for holder, name in [(Path, "mkdir"), (Path, "touch"), (Path, "write_text"), (os, "fsync"), (os, "rename")]:
            patch.setattr(holder, name, counted(getattr(holder, name), name))
        yield done


@pytest.mark.parametrize(
    ("code", "sentence"),
    [(errno.ENOSPC, "no space left on the disk of data(/.*)?"), (errno.EIO, "data(/.*)?: Input/output error")],
)
def test_a_disk_that_fails_at_any_moment(server, here, monkeypatch, code, sentence):
    for path, content in [("/train.txt", TRAIN), ("/test.txt", TEST)]:
        server.answers[path] = [whole(content, ETag='"v1"')]
    catalogue(here, files(server))
    before = everything(here.parent)
    for operation in range(1, 100):
        with failing_disk(monkeypatch, operation, code) as done:
            result = run("fetch", "small")
        if result.exit_code == 0:
            break
        assert re.fullmatch(sentence, said(result)), done
        assert everything(here.parent) == before, done
    assert set(done) == {"mkdir", "open", "write", "touch", "write_text", "fsync", "rename"}
    assert done.count("write") == 4


@pytest.fixture
def small_disk(here, mounted):
    """Return a function that mounts a file system in memory at `here`/small-disk."""

    def mount(options):
        (here / "small-disk").mkdir()
        mounted(here / "small-disk", options)
        return here / "small-disk"

    return mount


@pytest.mark.parametrize("content", [bytes(1_500_000), gzip.compress(os.urandom(10**4) * 150)], ids=["plain", "packed"])
def test_a_disk_that_is_full(server, here, small_disk, content):
    server.answers["/train.txt"] = [whole(content, ETag='"v1"')]
    catalogue(here, files(server))
    place = small_disk("size=1m")
    (place / "data").mkdir()
    assert said(run("fetch", "small", "--into", "small-disk/data")) == "no space left on the disk of small-disk/data"
    assert everything(here) == dict.fromkeys(("small-disk", "small-disk/data"), (stat.S_IFDIR, None, None))


def test_a_disk_that_cannot_be_written(server, here, small_disk):
    catalogue(here, files(server))
    small_disk("ro")
    assert said(run("fetch", "small", "--into", "small-disk/data")).endswith(": Read-only file system")
    assert sorted(everything(here)) == ["small-disk"]


@pytest.mark.parametrize("headers", [{}, {"ETag": '"v1"'}], ids=["not to be resumed", "to be resumed"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle(server, here, number, headers):
    server.answers["/train.txt"] = [stalls(LONG, 50_000, **headers)]
    catalogue(here, files(server))
    before = everything(here.parent)
    command = [sys.executable, "-m", "xmlgp", "fetch", "small"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        part = here / "data/.partial/small/downloads/1/train.txt"
        while not (part.exists() and part.stat().st_size) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    advice = "; what has arrived stays in data/.partial, the next call goes on from there" if headers else ""
    assert (process.returncode, out, err) == (128 + number, "", f"interrupted{advice}\n")
    if headers:
        assert {path.name for path in here.rglob("*") if path.is_file()} == {"train.txt", "train.txt.json"}
        server.answers["/train.txt"] = [whole(TRAIN)]
        assert run("fetch", "small").exit_code == 0
        assert sorted(everything(here)) == ["data", "data/small", "data/small/test.txt", "data/small/train.txt"]
    else:
        assert everything(here.parent) == before
