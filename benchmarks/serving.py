"""The server: requests a second and times of answers, beside another server, and answers while the model is replaced.

    python benchmarks/serving.py load MODEL TEXTS [--clients 1 --clients 8 --clients 64] [--seconds 20] [--repeats 1]
        [--peer URL] [--peer-process PID] [--client ab|own] [--options OPTIONS] [--json FILE]
    python benchmarks/serving.py soak MODEL MORE [--minutes 10] [--every 5] [--kill 10] [--clients 8]
        [--options OPTIONS] [--json FILE]

MODEL is a model of text, TEXTS and MORE are files of JSON Lines with `text` and, for MORE, `labels`; .gz is read too.
Without them, a command is skipped with a message. Both start `xmlgp serve MODEL` on a free port of the loopback
interface, with --options if given, and end it by SIGTERM; if its exit status is not 0, theirs is 1.

`load` sends the text of median length in TEXTS as a form, again and again, and asks for ten labels. A number of clients
sends at a time, each its next request when it has the answer to the one before. --peer is the address of another server
that takes the same form, such as http://127.0.0.1:5000/v1/projects/tags/suggest of Annif; the two take turns. Rates and
times are those of the repeat with most requests a second, and `repeats` has the least and the most: if these are far
apart, other programs took the processor, and the best of one server may be of a quieter moment than that of the other.
Processor milliseconds a request, the median of the repeats, depend less on that: of all processes of the server, and of
those of --peer-process and its children. The client is ApacheBench (`ab`) if it is installed, which speaks HTTP/1.0 and
opens a connection for each request where the server does not keep one; `own` is one in Python that speaks HTTP/1.1,
keeps connections and takes more time of the processor itself. Times are in milliseconds. `refused` counts, in all
repeats, answers that are not of status 200 and requests without an answer.

`soak` has a copy of the model, and one that has learned 50 documents of MORE. Every few seconds, the model that is
served is replaced by the other one of the two, as any program may do it: `xmlgp.load(other).save(folder)`. Meanwhile
clients send texts of MORE, singly and in batches, ask for projects, and send requests that must be refused. An answer
is wrong if it does not have the status that it must have, or if the labels, probabilities and standard deviations are
not those of one of the two models by `xmlgp.predict`, to the last digit, for all documents of a request. It is lost if
the connection ends or nothing comes for a minute. `learned` and `first` count requests that the one model or the other
has answered, where their answers differ. A second project, a copy of the model, is sent a document of MORE to learn
every few seconds (--kill), and the process that learns is killed at a random moment: the answer must be 503 and the
model as it was, or 204 and the model another one. `killed` counts the former, `taught` the latter. Megabytes are of all
processes of the server together: PSS divides what they share, RSS counts it for each; page cache of a model's files is
in both. The exit status is 1 if an answer is lost or wrong.
"""

import asyncio
import contextlib
import csv
import http.client
import itertools
import json
import os
import random
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import click
import harness  # before NumPy
import psutil

import xmlgp
from xmlgp.data.streams import open_input

FORM, JSON = "application/x-www-form-urlencoded", "application/json"

#: Labels that are asked for.
TOP = 10

#: Seconds within which a server starts or ends, and within which an answer comes.
PATIENCE = 60

#: Seconds of load before a measurement.
WARM_UP = 2

#: Documents that the second model of `soak` learns, and that clients send.
LEARNED, SENT = 50, 200

#: Most documents in a batch of `soak`.
BATCH = 8

#: Most seconds from a request to learn until the process that learns is killed.
KILLED_WITHIN = 12.0

#: Seconds from one line of `soak` to the next.
MINUTE = 60

#: Wrong and lost answers that are shown.
SHOWN = 20


# ---- Servers


class Server:
    """`xmlgp serve` on a free port of the loopback interface."""

    def __init__(self, model, options, log):
        command = [sys.executable, "-m", "xmlgp", "serve", str(model), "--host", "127.0.0.1", "--port", "0"]
        self._log = log
        with open(log, "wb") as stream:
            # A session of its own: Ctrl-C reaches the benchmark, which ends it.
            self._process = subprocess.Popen(
                command + shlex.split(options), stdout=subprocess.DEVNULL, stderr=stream, start_new_session=True
            )
        self.project = Path(model).resolve().name
        try:
            self.port = self._wait_for_port()
            wait_until_healthy(self.port)
        except BaseException:
            self._kill()
            raise

    @property
    def pid(self):
        """The process that looks after the workers."""
        return self._process.pid

    @property
    def path(self):
        """The path of the project."""
        return f"/v1/projects/{self.project}"

    def _wait_for_port(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self._process.poll() is None:
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.said())
            if found:
                return int(found[1])
            time.sleep(0.1)
        raise click.ClickException(f"the server did not start: {self.said()}")

    def said(self):
        """Return the last lines that the server wrote to standard error, not more than some kilobytes."""
        with open(self._log, "rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - 4096))
            return stream.read().decode(errors="replace")

    def megabytes(self):
        """Return PSS, 0 where the system does not tell it, and RSS of all processes of the server."""
        sums = Counter()
        for process in processes_of(self.pid):
            with contextlib.suppress(psutil.Error):
                memory = process.memory_full_info()
                sums += Counter(pss=getattr(memory, "pss", 0), rss=memory.rss)
        return sums["pss"] / 1e6, sums["rss"] / 1e6

    def end(self):
        """End the server by SIGTERM; return whether its exit status is 0."""
        self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            status = "none after SIGTERM"
            self._kill()
        if status != 0:
            click.echo(f"exit status of the server: {status}; it said: {self.said()}", err=True)
        return status == 0

    def _kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)


def processes_of(pid):
    """Return a process and those that it started."""
    try:
        own = psutil.Process(pid)
        return [own, *own.children(recursive=True)]
    except psutil.Error:
        return []


def processor_seconds(pid):
    """Return the processor time of a process and those that it started, so far."""
    seconds = 0.0
    for process in processes_of(pid):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            seconds += times.user + times.system
    return seconds


@contextlib.contextmanager
def serving(model, options, log):
    """Yield a `Server`; exit with status 1 at the end of the block if it does not end well."""
    server, ended = Server(model, options, log), False
    try:
        yield server
    finally:
        ended = server.end()
    if not ended:
        raise SystemExit(1)


def wait_until_healthy(port):
    """Wait until the workers of a server answer."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            with contextlib.closing(connection):
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    return
        except (OSError, http.client.HTTPException):
            pass
        if time.monotonic() > end:
            raise click.ClickException("the server does not answer")
        time.sleep(0.1)


def read_documents(path, most=None):
    """Return the first documents of a file of JSON Lines, or all."""
    with open_input(str(path)) as stream:
        return [json.loads(line) for line in itertools.islice(stream, most)]


# ---- Load


class Rate(NamedTuple):
    """What a server did under load; times in milliseconds."""

    requests: int
    requests_a_second: float
    median: float
    percentile_99: float
    refused: int


def ab(url, body, clients, seconds, folder):
    """Return the `Rate` that ApacheBench measures."""
    file, percentiles = folder / "body", folder / "percentiles.csv"
    file.write_bytes(body)
    # -n after -t: the time is the limit.
    limits = ["-t", str(seconds), "-n", "1000000", "-c", str(clients), "-s", str(PATIENCE)]
    command = ["ab", "-q", "-l", "-k", *limits, "-e", str(percentiles), "-p", str(file), "-T", FORM, url]
    found = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120)
    if found.returncode:
        raise click.ClickException(f"ab: {found.stderr.strip()}")

    def number(name):
        line = re.search(rf"^{name}: *([0-9.]+)", found.stdout, re.MULTILINE)
        return float(line[1]) if line else 0.0

    with open(percentiles, encoding="ascii", newline="") as stream:
        times = {row[0]: float(row[1]) for row in csv.reader(stream) if row[0].isdigit()}
    refused = int(number("Failed requests") + number("Non-2xx responses"))
    return Rate(int(number("Complete requests")), number("Requests per second"), times["50"], times["99"], refused)


def own(url, body, clients, seconds, folder):
    """Return the `Rate` that clients in this process measure."""
    return asyncio.run(_own(urlsplit(url), body, clients, seconds))


async def _own(url, body, clients, seconds):
    head = f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: {FORM}\r\nContent-Length: {len(body)}\r\n"
    request, times, refused = f"{head}\r\n".encode() + body, [], 0
    began = time.perf_counter()

    async def send():
        nonlocal refused
        reader = writer = None
        while time.perf_counter() - began < seconds:
            start = time.perf_counter()
            try:
                if not writer:
                    reader, writer = await asyncio.open_connection(url.hostname, url.port)
                writer.write(request)
                status, keep = await asyncio.wait_for(_answer(reader), PATIENCE)
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                status, keep = 0, False
            times.append(time.perf_counter() - start)
            refused += status != 200
            if writer and not keep:
                writer.close()
                writer = None
        if writer:
            writer.close()

    await asyncio.gather(*(send() for _ in range(clients)))
    taken = time.perf_counter() - began
    times.sort()
    at_99 = times[min(len(times) - 1, int(0.99 * len(times)))]
    return Rate(len(times), len(times) / taken, 1e3 * statistics.median(times), 1e3 * at_99, refused)


async def _answer(reader):
    """Read an answer with a Content-Length; return its status, and whether the connection stays."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: *(\d+)", head)
    if not length:
        return 0, False
    await reader.readexactly(int(length[1]))
    return int(head.split(b" ", 2)[1]), b"connection: close" not in head


CLIENTS = {"ab": ab, "own": own}


def clients_option(default):
    """Return the option for numbers of clients, one or several."""
    several = isinstance(default, list)
    return click.option("--clients", type=click.IntRange(1, 1000), multiple=several, default=default, show_default=True)


options_option = click.option("--options", default="", metavar="TEXT", help="Further options of `xmlgp serve`.")


def points_argument(name):
    """Return the argument for a file of documents."""
    return click.argument(name, type=click.Path(dir_okay=False, path_type=Path))


def has_all(model, texts):
    """Return whether a model and a file of documents are there; print a message if not."""
    return harness.has_data(model, ("model.json",)) and harness.has_data(texts.parent, (texts.name,))


@click.group()
def main():
    """Measure and try the server."""


@main.command()
@click.argument("model", type=click.Path(file_okay=False, path_type=Path))
@points_argument("texts")
@clients_option([1, 8, 64])
@click.option("--seconds", type=click.IntRange(1, 600), default=20, show_default=True)
@click.option("--repeats", type=click.IntRange(1), default=1, show_default=True)
@click.option("--peer", metavar="URL", help="Where another server suggests.")
@click.option("--peer-process", type=click.IntRange(1), metavar="PID", help="Process of the other server.")
@click.option("--client", type=click.Choice([*CLIENTS]), help="[default: ab if it is installed]")
@options_option
@harness.json_option
def load(model, texts, clients, seconds, repeats, peer, peer_process, client, options, as_json):
    """Measure requests a second and times of answers."""
    if not has_all(model, texts):
        return
    client = client or ("ab" if shutil.which("ab") else "own")
    text = sorted((document["text"] for document in read_documents(texts)), key=len)
    text = text[len(text) // 2]
    body = urlencode({"text": text, "limit": TOP}).encode()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        with serving(model, options, folder / "log") as server:
            addresses = {"xmlgp": f"http://127.0.0.1:{server.port}{server.path}/suggest"}
            addresses |= {"peer": peer} if peer else {}
            print(f"a text of {len(text)} characters, {seconds} s, by {client}\n")
            columns = "server", "clients", "requests/s", "repeats", "median ms", "99th percentile ms", "processor ms"
            table = harness.Table(*columns, "refused")
            processes = {"xmlgp": server.pid, "peer": peer_process}
            for count in clients:
                found = {name: [] for name in addresses}
                for repeat, (name, url) in itertools.product(range(repeats), addresses.items()):
                    where = f"{name}, {count} clients, repeat {repeat + 1}"
                    click.echo(f"{where}; load average {os.getloadavg()[0]:.1f}", err=True)
                    CLIENTS[client](url, body, count, min(WARM_UP, seconds), folder)
                    found[name].append(measured(client, url, body, count, seconds, folder, processes[name]))
                for name, runs in found.items():
                    table.row(name, count, *cells(runs))
                    rows.append({"server": name, "clients": count, "repeats": runs})
            pss, rss = server.megabytes()
            print(f"\nmemory of xmlgp's processes: {pss:.0f} MB (PSS), {rss:.0f} MB (RSS)")
    harness.write_json(as_json, {"client": client, "characters": len(text), "rows": rows, "pss": pss, "rss": rss})
    if any(run["refused"] for row in rows if row["server"] == "xmlgp" for run in row["repeats"]):
        raise SystemExit(1)


def measured(client, url, body, clients, seconds, folder, process):
    """Return a `Rate` by name, with the processor time of a request in milliseconds if the process is known."""
    before = processor_seconds(process) if process else 0.0
    rate = CLIENTS[client](url, body, clients, seconds, folder)
    taken = processor_seconds(process) - before if process else None
    return rate._asdict() | {"processor_ms": 1e3 * taken / max(1, rate.requests) if process else None}


def cells(runs):
    """Return the cells of a table for the repeats of a measurement."""
    rates = [run["requests_a_second"] for run in runs]
    best = runs[rates.index(max(rates))]
    taken = [run["processor_ms"] for run in runs if run["processor_ms"] is not None]
    spread = f"{min(rates):.4g} to {max(rates):.4g}"
    times = best["requests_a_second"], spread, best["median"], best["percentile_99"]
    return *times, statistics.median(taken) if taken else "", sum(run["refused"] for run in runs)


# ---- Soak


class Wrong(Exception):
    """An answer is not the one that must come."""


class Answers(NamedTuple):
    """What a model suggests for each document, and its number of labels."""

    results: list
    K: int

    @classmethod
    def of(cls, folder, texts):
        """Return those of the model in a folder."""
        found = xmlgp.predict(folder, texts, k=TOP, output="probability", with_std=True)
        results = [[in_form(**label) for label in point["labels"]] for point in found]
        return cls(results, xmlgp.load(folder).data["K"])


def in_form(label, probability, std, uri=None):
    """Return a label as the server tells it."""
    named = {"uri": uri or label, "label": label, "notation": None}
    return named | {"score": probability, "probability": probability, "std": std}


class Client:
    """Sends requests over one connection, and checks and counts the answers."""

    def __init__(self, server, texts, models, seed):
        self._port, self._path = server.port, server.path
        self._texts, self._models, self._draw = texts, models, random.Random(seed)
        self._connection = None
        self.counts, self.failures = Counter(), []

    def run(self, ended):
        """Send requests until an event is set."""
        kinds = {self._suggest: 12, self._suggest_batch: 4, self._about: 2, self._bad: 3}
        while not ended.is_set():
            (kind,) = self._draw.choices([*kinds], [*kinds.values()])
            self.counts["requests"] += 1
            try:
                kind()
            except Wrong as error:
                self._failed("wrong", kind, error)
            except (OSError, http.client.HTTPException) as error:
                self._failed("lost", kind, repr(error))
                self.close()
            except Exception as error:
                # Whatever an answer looks like, the client goes on.
                self._failed("wrong", kind, repr(error))
        self.close()

    def _failed(self, how, kind, error):
        self.counts[how] += 1
        if len(self.failures) < SHOWN:
            self.failures.append(f"{how}, {kind.__name__.strip('_')}: {error}")

    def close(self):
        """End the connection."""
        if self._connection:
            self._connection.close()
        self._connection = None

    def _ask(self, expected, method, path, body=None, content_type=None):
        """Return the content of an answer, which must have a status."""
        self._connection = self._connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        headers = {"Content-Type": content_type} if content_type else {}
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != expected:
            raise Wrong(f"status {answer.status}, not {expected}: {content[:200]!r}")
        if answer.headers.get_content_type() == "text/plain":
            return content.decode()
        return json.loads(content)

    def _check(self, places, found):
        """Check the results for documents, which must be those of one model."""
        same = [
            all(own == model.results[place] for own, place in zip(found, places, strict=True)) for model in self._models
        ]
        if not any(same):
            raise Wrong(f"neither model suggests this for documents {places}: {json.dumps(found)[:400]}")
        self.counts["either" if all(same) else ("first", "learned")[same.index(True)]] += 1

    def _suggest(self):
        place = self._draw.randrange(len(self._texts))
        form = urlencode({"text": self._texts[place], "limit": TOP})
        found = self._ask(200, "POST", f"{self._path}/suggest", form, FORM)
        self._check([place], [found["results"]])

    def _suggest_batch(self):
        places = self._draw.choices(range(len(self._texts)), k=self._draw.randint(1, BATCH))
        documents = [{"text": self._texts[place], "document_id": str(place)} for place in places]
        body = json.dumps({"documents": documents})
        found = self._ask(200, "POST", f"{self._path}/suggest-batch?limit={TOP}", body, JSON)
        if [own["document_id"] for own in found] != [str(place) for place in places]:
            raise Wrong("the documents are others, or in another order")
        self._check(places, [own["results"] for own in found])

    def _about(self):
        project = self._ask(200, "GET", self._path)
        listed, _ = self._ask(200, "GET", "/v1/projects")["projects"]
        for found in project, listed:
            if found["vocab"]["size"] not in {model.K for model in self._models} or not found["is_trained"]:
                raise Wrong(f"no such project: {json.dumps(found)[:400]}")
        if self._ask(200, "GET", "/healthz") != {"status": "ok"}:
            raise Wrong("the server is not healthy")
        if "# TYPE" not in self._ask(200, "GET", "/metrics"):
            raise Wrong("there are no metrics")

    def _bad(self):
        path = self._path
        bad = [
            (400, "POST", f"{path}/suggest", urlencode({"limit": 3}), FORM),
            (400, "POST", f"{path}/suggest", urlencode({"text": "word", "limit": "many"}), FORM),
            (400, "POST", f"{path}/suggest-batch", '{"documents": [{"text"', JSON),
            (400, "POST", f"{path}/suggest-batch", json.dumps({"documents": [{"text": "a"}] * 33}), JSON),
            (400, "POST", f"{path}/learn", json.dumps([{"text": "a"}]), JSON),
            (404, "POST", f"{path}-of-others/suggest", urlencode({"text": "word"}), FORM),
            (405, "GET", f"{path}/suggest"),
            (415, "POST", f"{path}/suggest", json.dumps({"text": "word"}), JSON),
        ]
        status, *request = self._draw.choice(bad)
        found = self._ask(status, *request)
        if found["status"] != status or not found["detail"]:
            raise Wrong(f"not a problem: {json.dumps(found)[:400]}")


class Teacher:
    """Lets a model of its own learn, and kills what learns, which must change nothing or the whole model."""

    def __init__(self, server, folder, documents, pause):
        self._server, self._folder, self._pause = server, folder, pause
        self._documents, self._draw = itertools.cycle(documents), random.Random(0)
        self.counts, self.failures = Counter(), []

    def run(self, ended):
        """Teach until an event is set."""
        while not ended.wait(self._pause):
            before = self._description()
            killer = threading.Timer(self._draw.uniform(0, KILLED_WITHIN), self._kill)
            killer.start()
            try:
                status = self._learn(next(self._documents))
            except (OSError, http.client.HTTPException) as error:
                status = repr(error)
            killer.join()
            changed = self._description() != before
            if (status, changed) not in ((204, True), (503, False)):
                self.counts["wrong"] += 1
                now = "another one" if changed else "as it was"
                self.failures.append(f"wrong, learn: {status}, and the model is {now}")
            self.counts["taught" if changed else "killed"] += 1

    def _description(self):
        return (self._folder / "model.json").read_bytes()

    def _learn(self, document):
        body = json.dumps([{"text": document["text"], "subjects": [{"label": name} for name in document["labels"]]}])
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=2 * PATIENCE)
        with contextlib.closing(connection):
            connection.request("POST", f"/v1/projects/{self._folder.name}/learn", body, {"Content-Type": JSON})
            answer = connection.getresponse()
            answer.read()
            return answer.status

    def _kill(self):
        with contextlib.suppress(psutil.Error):
            for worker in psutil.Process(self._server.pid).children():
                for learner in worker.children():
                    learner.kill()


@main.command()
@click.argument("model", type=click.Path(file_okay=False, path_type=Path))
@points_argument("more")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), default=10, show_default=True)
@click.option("--every", type=click.FloatRange(0, min_open=True), default=5, show_default=True, metavar="SECONDS")
@click.option("--kill", type=click.FloatRange(0, min_open=True), default=10, show_default=True, metavar="SECONDS")
@clients_option(8)
@options_option
@harness.json_option
def soak(model, more, minutes, every, kill, clients, options, as_json):
    """Compare every answer with those of two models that replace each other."""
    if not has_all(model, more):
        return
    documents = read_documents(more, SENT)
    texts = [document["text"] for document in documents]
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        folders = folder / "first", folder / "learned"
        for copy in folders:
            shutil.copytree(model, copy)
        learned = documents[:LEARNED]
        xmlgp.learn(folders[1], texts[:LEARNED], labels=[document["labels"] for document in learned])
        models = [Answers.of(path, texts) for path in folders]
        differing = sum(one != other for one, other in zip(*(model.results for model in models), strict=True))
        click.echo(f"the answers of the two models differ for {differing} of {len(texts)} documents", err=True)
        served = folder / "served"
        xmlgp.load(folders[0]).save(served)
        taught = shutil.copytree(model, folder / "taught")
        with serving(served, f"{shlex.quote(str(taught))} --learn {options}", folder / "log") as server:
            senders = [Client(server, texts, models, seed) for seed in range(clients)]
            senders.append(Teacher(server, taught, documents, kill))
            rows, failures = drive(server, senders, served, folders, minutes * 60, every)
    for failure in failures[:SHOWN]:
        click.echo(failure, err=True)
    harness.write_json(as_json, {"clients": clients, "every": every, "rows": rows, "failures": failures})
    if rows[-1]["wrong"] or rows[-1]["lost"]:
        raise SystemExit(1)


#: What is counted, of clients and of the one that teaches.
COUNTED = "requests", "wrong", "lost", "first", "learned", "either", "taught", "killed"


def drive(server, senders, served, folders, seconds, every):
    """Replace the model while clients send; return the rows of the table, which is printed, and what failed."""
    columns = "minutes", *COUNTED, "replaced", "PSS MB", "RSS MB"
    rows, table, ended = [], harness.Table(*columns), threading.Event()
    threads = [threading.Thread(target=sender.run, args=(ended,)) for sender in senders]
    began, replaced = time.monotonic(), 0
    others = itertools.cycle(reversed(folders))
    for thread in threads:
        thread.start()
    try:
        while (passed := time.monotonic() - began) < seconds:
            if passed >= (len(rows) + 1) * MINUTE:
                add_row(rows, table, passed, senders, replaced, server)
            if passed >= (replaced + 1) * every:
                xmlgp.load(next(others)).save(served)
                replaced += 1
            time.sleep(0.05)
        memory_at_end = server.megabytes()
    finally:
        ended.set()
        for thread in threads:
            thread.join(2 * PATIENCE)
    # The last line is of all answers.
    add_row(rows, table, time.monotonic() - began, senders, replaced, server, memory_at_end)
    return rows, [failure for sender in senders for failure in sender.failures]


def add_row(rows, table, seconds, senders, replaced, server, memory=None):
    """Add and print a row of the counts so far."""
    counts = sum((sender.counts for sender in senders), Counter())
    pss, rss = memory or server.megabytes()
    row = {"minutes": round(seconds / 60, 1)}
    row |= {name: counts[name] for name in COUNTED}
    row |= {"replaced": replaced, "pss": round(pss, 1), "rss": round(rss, 1)}
    table.row(*row.values())
    rows.append(row)


if __name__ == "__main__":
    main()
