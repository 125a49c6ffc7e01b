"""Suggestions over HTTP are those of `xmlgp predict`, to the digit, with whatever is asked for."""

import asyncio
import json

import pytest

import xmlgp
from tests.serving.toy import LABELS, texts_and_labels
from xmlgp.cli import main
from xmlgp.serving.requests import Parameters
from xmlgp.serving.suggestions import suggest

SUGGEST, BATCH = "/v1/projects/tickets/suggest", "/v1/projects/tickets/suggest-batch"
TEXTS = texts_and_labels(40, seed=5)[0]


def predicted(model, texts=TEXTS, **how):
    how = {"k": 10} | how
    found = xmlgp.predict(str(model), texts, output="probability", with_std=True, **how)
    return [point["labels"] for point in found]


def as_predicted(results):
    """Return suggestions in the form of predictions."""
    for own in results:
        assert own.pop("score") == own["probability"]
        assert own.pop("notation") is None
        assert own.pop("uri") == own["label"]
    return results


def test_a_text_has_the_labels_that_predict_finds(client, model):
    for text, expected in zip(TEXTS, predicted(model), strict=True):
        answer = client.post(SUGGEST, data={"text": text})
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert as_predicted(answer.json()["results"]) == expected


def test_the_scores_are_those_that_the_command_writes(client, model, tmp_path):
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    command = ["predict", str(model), str(tmp_path / "texts.jsonl"), "-o", str(tmp_path / "found.jsonl"), "--with-std"]
    with pytest.raises(SystemExit) as ended:
        main([*command, "-k", "10", "--output", "probability"])
    assert ended.value.code == 0
    lines = (tmp_path / "found.jsonl").read_text().splitlines()
    for text, line in zip(TEXTS, lines, strict=True):
        found = as_predicted(client.post(SUGGEST, data={"text": text}).json()["results"])
        # As text, so that the digits are compared.
        assert json.dumps(found, ensure_ascii=False) == json.dumps(json.loads(line)["labels"], ensure_ascii=False)


@pytest.mark.parametrize(
    ("asked", "how"),
    [
        ({"limit": "2"}, {"k": 2}),
        ({"limit": "1000"}, {"k": "all"}),
        ({"threshold": "0.3"}, {"k": None, "threshold": 0.3, "limit": 10}),
        ({"threshold": "0.1", "limit": "1"}, {"k": None, "threshold": 0.1, "limit": 1}),
        ({"threshold": "0.0"}, {}),
        ({"explain": "3"}, {"explain": 3}),
        ({"assign": "true"}, {"k": None, "assign": True}),
        ({"assign": "True", "limit": "1"}, {"k": None, "assign": True, "limit": 1}),
        ({"only": ["printing", "account"]}, {"only": ["printing", "account"]}),
        ({"without": ["printing"], "limit": "3"}, {"without": ["printing"], "k": 3}),
        ({"language": "fi", "project": "x", "metadata_title": "y", "backend": "z"}, {}),
    ],
)
def test_what_is_asked_for_is_what_predict_has(client, model, asked, how):
    expected = predicted(model, TEXTS[:3], **how)
    documents = {"documents": [{"text": text} for text in TEXTS[:3]]}
    batch = client.post(BATCH, params=asked, json=documents).json()
    for text, own, of_batch in zip(TEXTS[:3], expected, batch, strict=True):
        assert as_predicted(client.post(SUGGEST, data={"text": text, **asked}).json()["results"]) == own
        assert as_predicted(of_batch["results"]) == own


def test_what_is_asked_for_may_be_in_the_query(client, model):
    answer = client.post(SUGGEST, params={"limit": "2"}, data={"text": TEXTS[0]})
    assert as_predicted(answer.json()["results"]) == predicted(model, TEXTS[:1], k=2)[0]


def test_no_labels_are_asked_for(client):
    assert client.post(SUGGEST, data={"text": "screen", "limit": "0"}).json() == {"results": []}


def test_a_batch_is_answered_in_order_with_its_identifiers(client, model):
    documents = [{"text": text, "document_id": f"d{place}"} for place, text in enumerate(TEXTS[:32])]
    documents[3] |= {"metadata": {"title": "x"}, "document_id": None}
    del documents[4]["document_id"]
    found = client.post(BATCH, json={"documents": documents}).json()
    assert [own["document_id"] for own in found] == [own.get("document_id") for own in documents]
    assert [as_predicted(own["results"]) for own in found] == predicted(model, TEXTS[:32])
    assert client.post(BATCH, json={"documents": []}).json() == []


def test_empty_and_strange_texts_have_the_suggestions_of_predict(client, model):
    texts = ["", " ", "\0\1\x1b[31m", "é" * 5000, "<b>screen</b> & printer=toner", "☃ 𝔘𝔫𝔦"]
    for text, expected in zip(texts, predicted(model, texts), strict=True):
        assert as_predicted(client.post(SUGGEST, data={"text": text}).json()["results"]) == expected


def test_a_form_in_plain_utf8_is_read(client, model):
    sent = "limit=10&text=Büro cable".encode()
    answer = client.post(SUGGEST, content=sent, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert as_predicted(answer.json()["results"]) == predicted(model, ["Büro cable"])[0]


def test_labels_of_a_vocabulary_have_their_uris(client_of, tmp_path):
    texts, labels = texts_and_labels()
    rows = "".join(f"<http://example.org/{place}>\t{name}\n" for place, name in enumerate(list(LABELS)[:3]))
    (tmp_path / "vocabulary.tsv").write_text(rows)
    settings = {"inducing": "features", "epochs": 1}
    path = tmp_path / "named"
    model = xmlgp.train(texts, path, labels=labels, settings=settings, vocabulary=tmp_path / "vocabulary.tsv")
    found = client_of(path).post("/v1/projects/named/suggest", data={"text": TEXTS[0]}).json()["results"]
    uris = {name: uri or name for name, uri in zip(model.names.shown, model.names.uris, strict=True)}
    assert {own["label"]: own["uri"] for own in found} == uris
    assert sum(uri.startswith("http") for uri in uris.values()) == 3
    only = client_of(path).post("/v1/projects/named/suggest", data={"text": "x", "only": "http://example.org/1"})
    assert [own["uri"] for own in only.json()["results"]] == ["http://example.org/1"]


def test_requests_that_wait_together_are_scored_together_with_the_same_answers(model, monkeypatch):
    from xmlgp.serving import batching

    loaded, sizes = xmlgp.load(model), []

    def counted(model, texts, parameters):
        sizes.append(len(texts))
        return suggest(model, texts, parameters)

    monkeypatch.setattr(batching, "suggest", counted)

    async def ask():
        queue = batching.Queue(500, 60)
        asked = [(TEXTS[place : place + 1 + place % 3], Parameters(2 + place % 2)) for place in range(30)]
        waiting = [asyncio.ensure_future(queue.suggest(loaded, *one)) for one in asked]
        await asyncio.sleep(0)
        running = asyncio.ensure_future(queue.run())
        found = await asyncio.gather(*waiting)
        running.cancel()
        queue.close()
        return asked, found

    asked, found = asyncio.run(ask())
    assert len(sizes) == 2
    assert sum(sizes) == sum(len(texts) for texts, _ in asked)
    assert found == [suggest(loaded, *one) for one in asked]
