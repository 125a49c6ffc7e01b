"""Time, processor time and memory of an xmlgp command by stage, with those of the workers of its local Dask cluster.

The command runs as `traced_command.py`. Workers are the processes that it starts; Dask's scheduler is in the process of
the command. Memory is what Linux tells in /proc: a process's own memory is that which is not mapped from a file
(`Anonymous`), and Rss has the pages of mapped files as well, of which several processes of a machine share one copy.
"""

import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import psutil

__all__ = ["Entry", "Watched", "kind_of", "read_trace", "run_watched", "start_traced"]

#: Seconds from one look at the processes to the next, and to the next list of their mapped files, which takes longer.
SAMPLE_SECONDS, FILES_SECONDS = 0.2, 2.0

#: Stages that each sweep over the labels has.
OF_SWEEPS = ("shortlists", "pairs", "label weights")

#: What the mapped files under the cache folder are.
KINDS = {
    "X and Y as read": r"text/",
    "files of the run": r"cluster/",
}

MAPPING = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+ +(/.*)?$")


class Entry(NamedTuple):
    """A line of a trace: the stage that begins at a time, with the processor seconds of the command until then."""

    time: float
    processor: float
    stage: str
    place: str

    @property
    def name(self):
        """The stage, with the number of the sweep if there are several with such a stage."""
        _, sweep, number = self.place.partition("sweep ")
        return f"{self.stage}, sweep {number}" if sweep and self.stage in OF_SWEEPS else self.stage


class Watched(NamedTuple):
    """What a command took.

    Attributes
    ----------
    seconds : float
        Of the whole command.
    stages : dict of str to dict
        For each stage, those of each sweep apart: `seconds`, and processor seconds of the command (`command_s`) and of
        all workers (`workers_s`). With memory also, in megabytes, the peaks of the command's own memory, of a worker's
        own memory, and of a worker's Rss; and by kind `mapped`, the most that a worker has in memory of files.
    sizes : dict of str to float
        Megabytes of all files of each kind that a worker has mapped.
    """

    seconds: float
    stages: dict
    sizes: dict


def start_traced(trace, arguments, **options):
    """Start an xmlgp command that writes its stages to a file; return the process."""
    command = [sys.executable, str(Path(__file__).with_name("traced_command.py")), str(trace), *map(str, arguments)]
    return subprocess.Popen(command, **options)


def run_watched(trace, arguments, environment, memory=False):
    """Run an xmlgp command to its end and return `Watched`; exit with its status if it fails.

    Parameters
    ----------
    trace : Path
        File for its stages.
    arguments : sequence
    environment : mapping of str to str
        With XMLGP_CACHE_DIR.
    memory : bool
        Whether memory is measured.
    """
    began = time.time()
    process = start_traced(trace, arguments, env=environment)
    samples = _Samples(process.pid, trace, Path(environment["XMLGP_CACHE_DIR"]), memory)
    try:
        while process.poll() is None:
            samples.take()
            time.sleep(SAMPLE_SECONDS)
    finally:
        if process.poll() is None:
            process.kill()
    if process.returncode:
        raise SystemExit(process.returncode)
    ended = time.time()
    entries = read_trace(trace)
    stages = samples.stages
    for entry, after in zip(entries, [*entries[1:], None], strict=True):
        stage = stages[entry.name]
        stage["seconds"] += (ended if after is None else after.time) - entry.time
        stage["command_s"] += 0.0 if after is None else after.processor - entry.processor
    # In the order of the trace, without those that were seen for no time.
    order = dict.fromkeys(entry.name for entry in entries)
    return Watched(ended - began, {name: dict(stages[name]) for name in order}, samples.sizes)


def read_trace(file):
    """Return the entries of the file of a traced command, which may not exist yet."""
    try:
        lines = Path(file).read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        return []
    parts = (line.split("\t") for line in lines)
    return [Entry(float(when), float(processor), stage, place) for when, processor, stage, place in parts]


def kind_of(path):
    """Return what a file under the cache folder holds."""
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, path)), "others")


class _Samples:
    """Looks at the processes of a command again and again."""

    def __init__(self, pid, trace, cache, memory):
        self._pid, self._trace, self._cache, self._memory = pid, trace, os.path.realpath(cache), memory
        self.stages, self.sizes = defaultdict(_new_stage), {}
        self._processor, self._listed, self._last = {}, 0.0, None

    def take(self):
        """Take a sample; processes may end meanwhile."""
        entries = read_trace(self._trace)
        name = entries[-1].name if entries else "starting"
        stage = self.stages[name]
        workers = _workers_of(self._pid)
        for worker in workers:
            try:
                times = psutil.Process(worker).cpu_times()
            except psutil.Error:
                continue
            used = times.user + times.system
            stage["workers_s"] += used - self._processor.get(worker, 0.0)
            self._processor[worker] = used
        if not self._memory:
            return
        # At the end of a stage its files are still mapped.
        listed = name != self._last or time.monotonic() - self._listed > FILES_SECONDS
        ended, self._last = self.stages[self._last or name], name
        for process in (self._pid, *workers):
            rss, own = _rollup(process)
            if process == self._pid:
                _raise(stage, "command_mb", own)
                continue
            _raise(stage, "worker_mb", own)
            _raise(stage, "worker_rss_mb", rss)
            if listed:
                self._list_files(process, ended["mapped"])
        if listed:
            self._listed = time.monotonic()

    def _list_files(self, process, mapped):
        found = defaultdict(float)
        sizes = defaultdict(float)
        for path, size, rss in _mapped_files(process, self._cache):
            kind = kind_of(path)
            found[kind] += rss
            sizes[kind] += size
        for kind in found:
            _raise(mapped, kind, found[kind])
            _raise(self.sizes, kind, sizes[kind])


def _new_stage():
    return {"seconds": 0.0, "command_s": 0.0, "workers_s": 0.0, "mapped": {}}


def _raise(peaks, name, value):
    peaks[name] = max(peaks.get(name, 0.0), value)


def _workers_of(pid):
    """Return the process numbers of the workers that a command has started."""
    found = []
    try:
        for child in psutil.Process(pid).children(recursive=True):
            # Python's own tracker of resources is a child as well.
            if any("spawn_main" in part for part in child.cmdline()):
                found.append(child.pid)
    except psutil.Error:
        pass
    return found


def _rollup(pid):
    """Return Rss and own memory of a process in megabytes; zeros if it has ended."""
    fields = dict.fromkeys(("Rss", "Anonymous"), 0.0)
    for line in _lines(f"/proc/{pid}/smaps_rollup"):
        name, _, rest = line.partition(":")
        if name in fields:
            fields[name] = _megabytes(rest)
    return tuple(fields.values())


def _mapped_files(pid, folder):
    """Yield path, size and Rss in megabytes of each mapping of a file under a folder."""
    path, size = None, 0.0
    for line in _lines(f"/proc/{pid}/smaps"):
        if head := MAPPING.match(line):
            path = head[1] if head[1] and head[1].startswith(folder + os.sep) else None
        elif path and line.startswith("Size:"):
            size = _megabytes(line[5:])
        elif path and line.startswith("Rss:"):
            yield path.removeprefix(folder), size, _megabytes(line[4:])


def _lines(file):
    try:
        with open(file, encoding="utf-8", errors="replace") as stream:
            return stream.read().splitlines()
    except OSError:
        return []


def _megabytes(text):
    """Return megabytes of a number of kilobytes, as /proc has it."""
    return int(text.split()[0]) * 1024 / 1e6
