"""Lines of the log: each is written in its turn, and nobody waits for a reader that does not come."""

import json
import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("uvicorn", reason="Uvicorn is not installed: pip install '.[serve]'")

#: Writes more lines than a pipe and the queue hold, then lets itself be read, and ends.
PROGRAM = """
import sys
from xmlgp.serving import lines
lines.WAITING = 50
lines._writer = lines._Writer()
for place in range(20_000):
    lines.write_line({form!r}, message=f"line {{place}}")
print("written", flush=True)
sys.stdin.readline()
while lines._writer._lines.qsize():
    pass
lines.write_line({form!r}, message="the last")
lines.finish_lines()
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_that_nobody_reads_are_dropped_and_counted(form):
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(form=form)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=writing,
        text=True,
    )
    try:
        os.close(writing)
        # The process did not wait.
        assert process.stdout.readline() == "written\n"
        process.stdin.write("\n")
        process.stdin.flush()
        with open(reading) as log:
            found = log.read().splitlines()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
    texts = [json.loads(line)["message"] for line in found] if form == "json" else found
    numbers = [int(number) for text in texts for number in re.findall(r"line (\d+)$", text)]
    dropped = [int(number) for text in texts for number in re.findall(r"(\d+) lines of this log were dropped", text)]
    assert numbers == sorted(numbers)
    assert len(numbers) + sum(dropped) == 20_000
    assert dropped
    assert texts[-1].endswith("the last")


def test_a_process_ends_while_nobody_reads_its_lines():
    reading, writing = os.pipe()
    program = PROGRAM.format(form="text").replace("while lines._writer._lines.qsize():\n    pass", "")
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=writing,
            timeout=60,
        )
    finally:
        os.close(writing)
        os.close(reading)
    assert (done.returncode, done.stdout) == (0, b"written\n")


def test_lines_that_a_full_disk_has_no_space_for_are_counted(tmp_path):
    log = tmp_path / "log"
    program = """
import resource
from xmlgp.serving import lines
lines.write_line("text", message="the first")
lines.finish_lines()
# Writing beyond it fails with an error, as on a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
for _ in range(3):
    lines.write_line("text", message="none")
lines.finish_lines()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
lines.write_line("text", message="the last")
lines.finish_lines()
"""
    with open(log, "ab") as stream:
        subprocess.run([sys.executable, "-c", program], stderr=stream, timeout=60, check=True)
    first, last, dropped = log.read_text().splitlines()
    assert first.endswith(" the first")
    assert last.endswith(" the last")
    assert " 3 lines of this log were dropped" in dropped
