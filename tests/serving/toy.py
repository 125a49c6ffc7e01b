"""A small model of tickets, and servers of it for tests."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.parse

import numpy as np

import xmlgp
from xmlgp.models.mlgpf.settings import MLGPFSettings

__all__ = ["LABELS", "Server", "make_model", "texts_and_labels"]

#: The words that speak for each label, of which a ticket has some.
LABELS = {
    "hardware": "screen keyboard mouse cable battery dark broken",
    "network": "wifi router cable slow internet vpn disconnected",
    "printing": "printer paper toner jam ink page cable",
    "account": "password login locked reset user expired",
    "software / Büro": "install update crash licence excel slow",
}

#: Seconds within which a server must start, answer and end, also on a machine that does other things.
PATIENCE = 100


def texts_and_labels(count=120, seed=0):
    """Return texts, and the names of the labels of each."""
    random, texts, labels = np.random.default_rng(seed), [], []
    for _ in range(count):
        own = [name for name in LABELS if random.random() < 0.35] or ["hardware"]
        words = [word for name in own for word in random.choice(LABELS[name].split(), 4)]
        random.shuffle(words)
        texts.append(f"my {' '.join(words)} please help {random.integers(9)}")
        labels.append(own)
    return texts, labels


def make_model(path, seed=0, **settings):
    """Write a model of text into a folder; return it."""
    texts, labels = texts_and_labels(seed=seed)
    settings = MLGPFSettings(inducing="features", epochs=2, seed=seed, **settings)
    return xmlgp.train(texts, path, labels=labels, settings=settings)


class Server:
    """`xmlgp serve` in processes of its own, on a free port of the loopback interface; `lines` are those of its log."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "xmlgp", "serve", *map(str, arguments), "--port", "0"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.lines, self._listening, self.port = [], threading.Event(), None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._listening.wait(PATIENCE) or self.port is None:
            self.kill()
            raise AssertionError(f"the server did not start: {self.lines}")

    def _read(self):
        for line in self._process.stderr:
            self.lines.append(line.rstrip("\n"))
            found = re.search(r"listening on http://[^ ]*:(\d+) ", line)
            if found:
                self.port = int(found[1])
                self._listening.set()
        self._listening.set()

    @property
    def pid(self):
        """The process that looks after the workers."""
        return self._process.pid

    def request(self, method, path, body=None, headers=None):
        """Return the status, the headers and the body (bytes) of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()

    def suggest(self, project, text):
        """Return the suggestions for a text."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        form = urllib.parse.urlencode({"text": text})
        status, _, found = self.request("POST", f"/v1/projects/{project}/suggest", form, kind)
        assert status == 200, found
        return json.loads(found)["results"]

    def end(self):
        """End the server by SIGTERM; return its exit status."""
        self._process.terminate()
        status = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return status

    def kill(self):
        """End all processes of the server at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        self._process.stderr.close()
