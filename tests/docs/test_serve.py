"""The page about the server says what is so: its metrics, statuses and limits, and the unit for systemd is valid."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.docs.pages import DOCS, FENCE
from xmlgp.cli.serve import serve

TEXT = (DOCS / "serve.md").read_text(encoding="utf-8")


def block_that_starts(beginning):
    """Return the only block of the page that starts so."""
    (found,) = [match["code"] for match in FENCE.finditer(TEXT) if match["code"].startswith(beginning)]
    return found


def first_cells(section):
    """Return the first cells of the rows of tables in a section of the page."""
    (part,) = [part for part in re.split(r"^##+ ", TEXT, flags=re.MULTILINE) if part.startswith(f"{section}\n")]
    return re.findall(r"^\| `?([^|`]+)`? \|", part, re.MULTILINE)


def test_metrics_are_those_of_the_server():
    module = pytest.importorskip("xmlgp.serving.metrics", reason="the server is not installed: pip install '.[serve]'")
    metrics = vars(module.Metrics()).values()
    # What a counter counts ends so.
    names = {
        own.describe()[0].name + "_total" * (own.describe()[0].type == "counter")
        for own in metrics
        if hasattr(own, "describe")
    }
    assert {cell for cell in first_cells("Health, metrics and logs") if cell.startswith("xmlgp_")} == names


def test_statuses_are_those_of_the_interface():
    reference = pytest.importorskip("xmlgp.serving.reference")
    operations = [own for path in reference.openapi("")["paths"].values() for own in path.values()]
    statuses = {status for operation in operations for status in operation["responses"] if status >= "400"}
    # Any request can fail by a mistake in the program, which no operation describes.
    assert {cell for cell in first_cells("Statuses") if cell.isdecimal()} == statuses | {"500"}


def test_limits_are_those_of_the_server():
    reference = pytest.importorskip("xmlgp.serving.reference")
    from xmlgp.serving.learning import LONGEST
    from xmlgp.serving.requests import MOST_EXPLAINED

    schemas = reference.openapi("")["components"]["schemas"]

    defaults = {parameter.name: parameter.default for parameter in serve.params}
    rows = {
        "documents of a batch": schemas["Batch"]["properties"]["documents"]["maxItems"],
        "`limit`": schemas["Limit"]["maximum"],
        "`limit` with `explain`": MOST_EXPLAINED,
        "`explain`": schemas["Explain"]["maximum"],
        "body of a request": f"{defaults['max_body']:g} MB",
        "time for a request to arrive, and for its answer": f"{defaults['timeout']:g} s",
        "texts that wait in a worker": defaults["queue"],
        "time to learn a batch": f"{LONGEST} s",
    }
    for name, value in rows.items():
        assert f"\n| {name} | {value} |" in TEXT
    assert f"client_max_body_size {defaults['max_body']:g}m;" in block_that_starts("server {")
    assert f"proxy_read_timeout {LONGEST + 60}s;" in block_that_starts("server {")


def test_the_unit_starts_a_server_with_options_that_exist(tmp_path):
    (command,) = re.findall("^ExecStart=(.*)$", block_that_starts("[Unit]"), re.MULTILINE)
    program, name, *arguments = shlex.split(command)
    assert (program.rpartition("/")[2], name) == ("xmlgp", "serve")
    assert serve.make_context("serve", arguments).params["models"] == ("/srv/xmlgp/tickets",)


def test_systemd_accepts_the_unit(tmp_path):
    program = shutil.which("systemd-analyze")
    if not program:
        pytest.skip("systemd is not installed" if sys.platform == "linux" else "this system has no systemd")
    unit = tmp_path / "xmlgp.service"
    # It looks for the program.
    unit.write_text(block_that_starts("[Unit]").replace("/opt/xmlgp/bin/xmlgp", sys.executable))
    command = [program, "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    # It may have warnings of other units of the machine.
    assert done.returncode == 0, done.stderr
    assert unit.name not in done.stderr
