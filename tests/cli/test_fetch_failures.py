"""`xmlgp fetch` that a failing disk or a signal stops leaves no incomplete files."""

import errno
import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.command import run, said
from tests.cli.disk import everything, failing_disk
from tests.data.loopback import CERTIFICATE, LoopbackServer, serve, stall
from tests.data.test_fetch import TEST, TRAIN


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
    monkeypatch.setattr("xmlgp.data.fetch.RETRIES", 0)
    return tmp_path / "here"


@pytest.fixture
def server(here, monkeypatch):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(CERTIFICATE))
    with LoopbackServer(secure=True) as server:
        server.answers |= {"/train.txt": [serve(TRAIN)], "/test.txt": [serve(TEST)]}
        yield server


def write_catalogue(here, server):
    small = {
        "title": "A small data set",
        "shape": {"N": 3, "N_test": 2, "D": 5, "K": 4},
        "propensity": {"A": 0.55, "B": 1.5},
        "files": {"train": {"checksums": [f"sha256:{hashlib.sha256(TRAIN).hexdigest()}"]}, "test": {}},
        "source": f"{server.url}/{{file}}",
    }
    here.with_name("catalogue.yaml").write_text(json.dumps({"datasets": {"small": small}}))


def test_failing_disk_leaves_no_incomplete_file(server, here, monkeypatch):
    write_catalogue(here, server)
    before = everything(here.parent)
    failed = set()
    for operation in range(1, 200):
        with failing_disk(monkeypatch, here, operation, errno.ENOSPC) as disk:
            result = run("fetch", "small")
        if not disk.failed:
            break
        failed.update(disk.failed)
        for name, content in (("train.txt", TRAIN), ("test.txt", TEST)):
            assert not (here / "data/small" / name).exists() or (here / "data/small" / name).read_bytes() == content
        if result.exit_code != 0:
            assert re.fullmatch("no space left on the disk of .*data(/.*)?", said(result)), disk.done
            # A file that is complete stays.
            if disk.failed[0] not in ("os.remove", "os.rmdir") and not (here / "data/small/train.txt").exists():
                assert everything(here.parent) == before, disk.done
        shutil.rmtree(here / "data", ignore_errors=True)
    assert result.exit_code == 0
    assert failed >= {"os.mkdir", "open", "write", "os.rename"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_leaves_nothing(server, here, number):
    server.answers["/train.txt"] = [stall(TRAIN + bytes(300_000), 200_000)]
    write_catalogue(here, server)
    before = everything(here.parent)
    command = [sys.executable, "-m", "xmlgp", "fetch", "small"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not any(part.stat().st_size > 100_000 for part in here.rglob("*")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (128 + number, "", "Note: interrupted\n")
    assert everything(here.parent) == before
