"""The image and the cluster of containers, as far as that can be seen without a container engine (`make container`)."""

import http.server
import importlib.util
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from xmlgp.cli import main

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
SERVICES = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]


def script(name):
    specification = importlib.util.spec_from_file_location(f"container_{name}", ROOT / f".container/{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def started(arguments, folder, **environment):
    """Return what a container prints that is given these arguments: its programs print their arguments."""
    folder.mkdir()
    for name in ("xmlgp", "dask"):
        (folder / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (folder / name).chmod(0o755)
    variables = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **environment}
    command = [sys.executable, ROOT / ".container/start.py", *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.parametrize(
    ("arguments", "program"),
    [
        (["train", "data/toy", "models/toy"], "xmlgp train data/toy models/toy"),
        (["serve", "models/tickets"], "xmlgp serve models/tickets"),
        (["xmlgp", "--version"], "xmlgp --version"),
        (["dask", "worker", "tcp://scheduler:8786"], "dask worker tcp://scheduler:8786"),
        (["--help"], "xmlgp --help"),
        ([], "xmlgp"),
    ],
)
def test_a_container_runs_commands_and_dask(arguments, program, tmp_path):
    assert started(arguments, tmp_path / "bin") == f"{program}\n"


def test_compiled_code_is_copied_once_and_not_needed(tmp_path, monkeypatch):
    start = script("start")
    start.COMPILED = tmp_path / "image"
    start.keep_compiled_code(str(tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()
    (tmp_path / "image").mkdir()
    (tmp_path / "image/code").write_text("compiled")
    start.keep_compiled_code(str(tmp_path / "cache"))
    assert (tmp_path / "cache/code").read_text() == "compiled"
    # What a volume has is newer.
    (tmp_path / "cache/code").write_text("for another processor")
    start.keep_compiled_code(str(tmp_path / "cache"))
    assert (tmp_path / "cache/code").read_text() == "for another processor"
    start.keep_compiled_code("/proc/nothing/can/be/made/here")


def test_health_is_asked_of_the_server_where_it_listens():
    address = script("health").address
    start = ["/sbin/docker-init", "--", "python", "start.py"]
    assert address([*start, "train", "data/toy", "models/toy"]) is None
    assert address(["dask", "worker", "tcp://scheduler:8786"]) is None
    assert address([*start, "serve", "models/a", "--host", "0.0.0.0"]) == ("127.0.0.1", 8080)
    assert address(["xmlgp", "serve", "models/a", "--host=10.0.0.1", "--port=81", "--port", "82"]) == ("10.0.0.1", 82)
    assert address(["xmlgp", "serve", "models/a", "--host", "::"]) == ("127.0.0.1", 8080)


@pytest.mark.parametrize("status", [200, 503])
def test_a_server_is_healthy_if_it_says_so(status, monkeypatch):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    health = script("health")
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(health, "address", lambda command: server.server_address)
        assert health.main() == (0 if status == 200 else 1)
        server.shutdown()


def test_the_image_has_no_root_and_starts_without_a_shell():
    final = DOCKERFILE[DOCKERFILE.index("\nFROM scratch\n") :]
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", final, re.MULTILINE)
    for instruction in ("ENTRYPOINT", "CMD", r"HEALTHCHECK .* CMD"):
        assert re.search(rf"^{instruction} \[", final, re.MULTILINE), instruction


def test_the_build_gets_what_it_copies_and_nothing_else():
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[1] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == sources
    assert all((ROOT / source).exists() for source in sources)


def test_arguments_of_the_build_are_described():
    page = (ROOT / "docs/containers.md").read_text(encoding="utf-8")
    described = dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", page, re.MULTILINE))
    defaults = dict(re.findall(r'^ARG ([A-Z_]+)="?([^"\n]*)"?$', DOCKERFILE, re.MULTILINE))
    assert described == {name: value for name, value in defaults.items() if name != "SOURCE_DATE_EPOCH"}


@pytest.mark.parametrize("name", SERVICES)
def test_services_run_commands_that_exist_without_rights(name):
    service = SERVICES[name]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["tmpfs"] == ["/tmp"]
    program, *arguments = service["command"]
    if program != "dask":
        main.get_command(None, program).make_context(program, arguments)
    assert set(service.get("depends_on", ())) <= set(SERVICES)


def test_the_workers_see_the_data_of_the_command():
    shared = [(SERVICES[name]["volumes"], SERVICES[name]["environment"]) for name in ("train", "worker", "scheduler")]
    assert shared[0] == shared[1] == shared[2]
