"""The page about the server says what is so: its statuses and limits."""

import re

from tests.docs.pages import DOCS
from xmlgp.cli.serve import serve
from xmlgp.serving import requests, server

TEXT = (DOCS / "serve.md").read_text(encoding="utf-8")


def test_limits_are_those_of_the_server():
    defaults = {parameter.name: parameter.default for parameter in serve.params}
    for sentence in (
        f"from 0 to {requests.MOST_LABELS}, or to {requests.MOST_EXPLAINED} with `explain`; {requests.LABELS} by",
        f"N, from 0 to {requests.MOST_WORDS}:",
        f"up to {requests.MOST_DOCUMENTS} documents",
        f"larger than `--max-body`, by default {defaults['max_body']:g} MB",
        f"client_max_body_size {defaults['max_body']:g}m;",
        f"at most {server.CONNECTIONS} connections",
        f"within {server.SHUTDOWN_SECONDS} seconds",
    ):
        assert sentence in TEXT


def test_options_that_the_page_names_exist():
    names = {name for parameter in serve.params for name in parameter.opts}
    commands = re.findall(r"^\$ xmlgp serve (.*)", TEXT, re.MULTILINE)
    assert {word for command in commands for word in re.findall(r"--[a-z-]+", command)} <= names
