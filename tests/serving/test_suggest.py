"""Suggestions over HTTP are those of `xmlgp predict`, to the digit, with whatever is asked for."""

import pytest

import xmlgp
from tests.serving.toy import LABELS, texts_and_labels

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


@pytest.mark.parametrize(
    ("asked", "how"),
    [
        ({}, {}),
        ({"limit": "2"}, {"k": 2}),
        ({"limit": "1000"}, {"k": "all"}),
        ({"threshold": "0.3"}, {"k": None, "threshold": 0.3}),
        ({"threshold": "0.0"}, {}),
        ({"explain": "3"}, {"explain": 3}),
        ({"assign": "true"}, {"k": None, "assign": True}),
        ({"language": "fi", "project": "x", "metadata_title": "y", "backend": "z"}, {}),
    ],
)
def test_what_is_asked_for_is_what_predict_has(client, model, asked, how):
    expected = predicted(model, TEXTS[:3], **how)
    documents = {"documents": [{"text": text} for text in TEXTS[:3]]}
    batch = client.post(BATCH, params=asked, json=documents).json()
    for text, own, of_batch in zip(TEXTS[:3], expected, batch, strict=True):
        answer = client.post(SUGGEST, data={"text": text, **asked})
        assert answer.headers["content-type"] == "application/json"
        assert as_predicted(answer.json()["results"]) == own
        assert as_predicted(client.post(SUGGEST, params=asked, data={"text": text}).json()["results"]) == own
        assert as_predicted(of_batch["results"]) == own


def test_limits_join_with_thresholds_and_assignment(client, model):
    for asked, how in (({"threshold": "0.01", "limit": "1"}, {"k": 1}), ({"assign": "True", "limit": "1"}, {"k": 1})):
        found = client.post(SUGGEST, data={"text": TEXTS[0], **asked}).json()["results"]
        assert as_predicted(found) == predicted(model, TEXTS[:1], **how)[0]
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
    sent = "limit=10&text=Büro cable".encode()
    answer = client.post(SUGGEST, content=sent, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert as_predicted(answer.json()["results"]) == predicted(model, ["Büro cable"])[0]


def test_labels_of_a_vocabulary_have_their_uris(client_of, tmp_path):
    texts, labels = texts_and_labels()
    rows = "".join(f"<http://example.org/{place}>\t{name}\n" for place, name in enumerate(list(LABELS)[:3]))
    (tmp_path / "vocabulary.tsv").write_text(rows)
    settings = {"inducing": "features", "epochs": 1}
    path = tmp_path / "named"
    model = xmlgp.train(xmlgp.Source(texts, labels, vocabulary=tmp_path / "vocabulary.tsv"), path, settings=settings)
    client = client_of(path)
    found = client.post("/v1/projects/named/suggest", data={"text": TEXTS[0]}).json()["results"]
    uris = {name: uri or name for name, uri in zip(model.names.shown, model.names.uris, strict=True)}
    assert {own["label"]: own["uri"] for own in found} == uris
    assert sum(uri.startswith("http") for uri in uris.values()) == 3
