"""Annif asks the server through its backend `http`, and suggests what `xmlgp predict` does.

Annif is the command in the environment variable ANNIF, or else `annif` on the PATH.
"""

import os
import re
import shutil
import subprocess
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
import pytest

import xmlgp
from tests.serving.toy import LABELS, Server, texts_and_labels
from xmlgp.mlgpf.settings import MLGPFSettings

pytest.importorskip("uvicorn", reason="Uvicorn is not installed: pip install '.[serve]'")

ANNIF = os.environ.get("ANNIF") or shutil.which("annif")

pytestmark = pytest.mark.skipif(not ANNIF, reason="Annif is not installed: give its command as ANNIF")

#: Seconds within which a command of Annif ends.
PATIENCE = 300

#: Labels that Annif asks for: fewer than there are.
LIMIT = 4

URIS = {name: f"http://example.org/{quote(name, safe='')}" for name in LABELS}


def write_corpus(path, texts, labels):
    """Write documents as Annif has them."""
    uris = [" ".join(f"<{URIS[name]}>" for name in own) for own in labels]
    lines = [f"{text}\t{own}\n" for text, own in zip(texts, uris, strict=True)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


class Asked(NamedTuple):
    """A model, the texts to ask about, and a function that runs a command of Annif and returns its output."""

    model: object
    texts: list
    annif: object


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Serve a model that was trained on a corpus and a vocabulary of Annif, to a project of Annif."""
    folder = tmp_path_factory.mktemp("annif")
    subjects = folder / "subjects.tsv"
    subjects.write_text("".join(f"<{uri}>\t{name}\n" for name, uri in URIS.items()), encoding="utf-8")
    corpus, settings = write_corpus(folder / "train.tsv", *texts_and_labels()), MLGPFSettings(epochs=2)
    model = xmlgp.train(corpus, folder / "tickets", vocabulary=subjects, settings=settings)
    texts, _ = texts_and_labels(2, seed=1)
    # Without a known word.
    texts.append("Büro")
    server = Server(folder / "tickets", "--workers", "1")
    try:
        endpoint = f"http://127.0.0.1:{server.port}/v1/projects/tickets/suggest"
        project = ["[tickets-http]", "name=Tickets", "language=en", "backend=http", "vocab=tickets"]
        project += [f"endpoint={endpoint}", "project=tickets", f"limit={LIMIT}"]
        (folder / "projects.cfg").write_text("\n".join(project), encoding="utf-8")
        places = {"ANNIF_PROJECTS": str(folder / "projects.cfg"), "ANNIF_DATADIR": str(folder / "data"), "TZ": "UTC"}

        def annif(*arguments, given=None):
            command, environment = [ANNIF, *map(str, arguments)], os.environ | places
            options = {"input": given, "env": environment, "timeout": PATIENCE}
            found = subprocess.run(command, capture_output=True, encoding="utf-8", **options)
            assert found.returncode == 0, found.stderr
            assert "Unknown subject" not in found.stderr
            assert "failed" not in found.stderr
            return found.stdout

        annif("load-vocab", "--language", "en", "tickets", subjects)
        yield Asked(model, texts, annif)
    finally:
        server.end()


def suggested(model, texts):
    """Return the URI, the label and the score of each suggestion for some texts, as Annif keeps them."""
    found = xmlgp.predict(model, texts, k=LIMIT, output="probability")
    return [
        [(label["uri"], label["label"], float(np.float32(label["probability"]))) for label in point["labels"]]
        for point in found
    ]


def test_annif_suggests_what_the_model_does_and_knows_when_it_was_trained(asked):
    for text in (asked.texts[0], asked.texts[-1]):
        found = asked.annif("suggest", "tickets-http", given=text)
        (own,) = suggested(asked.model, [text])
        assert len(own) == LIMIT
        assert found.splitlines() == [f"<{uri}>\t{name}\t{score:.4f}" for uri, name, score in own]
    assert re.search(r"^Trained: +True$", asked.annif("show-project", "tickets-http"), re.MULTILINE)
