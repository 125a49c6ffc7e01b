"""The commands on the page of the interface: they can be copied as they are, whatever the address and the names."""

import json
import re
import shlex

import pytest

from xmlgp.serving.examples import Example, with_examples
from xmlgp.serving.reference import openapi
from xmlgp.version import __version__


def commands_of(document):
    """Return the words of each command in a description, by the path that it asks for."""
    return {
        (path, method): shlex.split(operation["x-codeSamples"][0]["source"].replace("\\\n", ""))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def shown(client, **headers):
    """Return the description for a client that sends these headers, and the text of the page."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    answers = [client.get(f"/v1/{name}", headers=headers) for name in ("openapi.json", "ui/")]
    assert [answer.status_code for answer in answers] == [200, 200]
    return answers[0].json(), answers[1].text


def test_commands_ask_this_server_for_what_it_has(client, model):
    document, page = shown(client, host="localhost:8765")
    commands = commands_of(document)
    for (path, _), words in commands.items():
        address = next(word for word in words if word.startswith("http"))
        assert address.partition("?")[0] == f"http://localhost:8765{path.replace('{project_id}', 'tickets')}"
    for place in re.findall(r"ADDRESS|PROJECT|LABEL|TOKEN", "".join(sum(commands.values(), []))):
        pytest.fail(place)
    assert "http://localhost:8765/v1/projects/tickets/suggest" in page
    (suggest,) = [words for (path, _), words in commands.items() if path.endswith("/suggest")]
    fields = [
        word.partition("=")[::2] for option, word in zip(suggest, suggest[1:], strict=False) if "--data" in option
    ]
    assert client.post(f"/v1/projects/{model.name}/suggest", data=dict(fields)).status_code == 200
    (learn,) = [words for (path, _), words in commands.items() if path.endswith("/learn")]
    assert client.post(f"/v1/projects/{model.name}/learn", content=learn[2]).status_code == 403


def test_the_address_is_that_which_a_proxy_passes_on(client_of, model):
    client = client_of(model, is_local=False)
    document, page = shown(client, host="tags.example.org", x_forwarded_prefix="/tags/")
    assert commands_of(document)["/v1/", "get"] == ["curl", "http://tags.example.org/tags/v1/"]
    assert "&#39;http://tags.example.org/tags/v1/projects&#39;" in page


@pytest.mark.parametrize("hostile", ["a'; rm -rf ~; '", "a<script>alert(1)</script>", "$(id).org", "a b", "x" * 300])
@pytest.mark.parametrize("header", ["host", "x_forwarded_prefix"])
def test_a_hostile_header_is_not_shown(client_of, model, header, hostile):
    client = client_of(model, is_local=False)
    document, page = shown(client, **({"host": "localhost"} | {header: hostile}))
    name = "127.0.0.1" if header == "host" else "localhost"
    assert commands_of(document)["/v1/", "get"] == ["curl", f"http://{name}/v1/"]
    assert hostile not in page


@pytest.mark.parametrize("name", ["o'clock", 'a "b" $(c) `d`', "ü\n", "a/b?c#d&e"])
def test_names_stay_names(name):
    document = with_examples(openapi(__version__), Example("http://localhost", name, name))
    commands = commands_of(document)
    learn = commands["/v1/projects/{project_id}/learn", "post"]
    assert json.loads(learn[2]) == [{"text": "A text editor", "subjects": [{"label": name}]}]
    assert re.fullmatch(r"http://localhost/v1/projects/[\w%.~-]+/learn", learn[3])


def test_what_needs_a_token_is_not_told_without_it(client_of, model):
    document, page = shown(client_of(model, token="secret"), host="localhost")
    commands = commands_of(document)
    assert commands["/v1/projects/{project_id}", "get"] == [
        "curl", "-H", "Authorization: Bearer TOKEN", "http://localhost/v1/projects/PROJECT"
    ]  # fmt: skip
    assert commands["/healthz", "get"] == ["curl", "http://localhost/healthz"]
    assert "secret" not in page
    assert model.name not in page
