"""Labels from their texts."""

import gzip

import numpy as np
import pytest
from scipy.sparse import csr_array

from xmlgp.api.learn import learn
from xmlgp.api.source import Source
from xmlgp.api.train import train
from xmlgp.api.trained_model import load
from xmlgp.neighbours.label_texts import Evidence, TextTerm, TextWords, default_fit, fit_texts, text_parameters
from xmlgp.runtime.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.text.label_texts import read_label_texts

WORDS = ["apple", "bread", "cheese", "dates", "eggs", "flour", "grapes", "honey"]


def write_texts(path, lines):
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"a\tred\nb\n", 2, "label<TAB>text"),
        (b"a\tred\tblue\n", 1, "label<TAB>text"),
        (b"a\t \n", 1, "the line must be"),
        (b"\tred\n", 1, "the line must be"),
        (b"a\tred\nb\t\xff\n", 2, "UTF-8"),
        (b"\n", 1, "no texts"),
    ],
)
def test_malformed_lines_are_refused(tmp_path, content, line, reason):
    path = tmp_path / "texts.tsv"
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match=reason) as error:
        read_label_texts(path)
    assert error.value.line == line


def test_texts_are_read_from_gzip(tmp_path):
    path = tmp_path / "texts.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tred  wine\na\tclaret\na\tclaret\n"))
    assert read_label_texts(path) == [("a", "red wine"), ("a", "claret")]


def test_evidence_is_the_share_of_words_that_other_labels_make_likely():
    rows = csr_array(np.eye(4, 3, dtype=np.float32))
    # The words 0 and 1, and one that no point has; the words 2 and 0.
    texts = TextWords(csr_array(np.array([[1, 1, 0, 1], [1, 0, 1, 0]], np.float32)), np.array([0, 1], np.int32))
    evidence = TextTerm(text_parameters(texts, rows, default_fit(4)), np.array([3, 0]))
    shares = csr_array(np.array([[0.5, 0.2]], np.float32))
    found = evidence.evidence(csr_array(np.array([[0, 1, 0]], np.float32)), shares)
    v = np.log(5 / np.array([2, 2, 2, 1]))
    assert sorted(found.texts.data) == [1, 2]
    for text, terms in zip(found.texts.data - 1, found.terms, strict=True):
        words = [[0, 1, 3], [0, 2]][text]
        # The other label makes the word 0 likely, and no other word of this text.
        of_labels = {0: [1 - np.exp(-0.2), 0, 0], 1: [1 - np.exp(-0.5), 0]}[text]
        share, mean = v[words] @ of_labels / v[words].sum(), v[words].mean()
        # Without the points of its label, each text is behind the other one with them.
        np.testing.assert_allclose(terms, [np.log(share + 0.01), mean, mean**2, np.log(2), 1], rtol=1e-5)


def test_the_fit_recovers_the_probabilities_of_generated_labels():
    random = np.random.default_rng(0)
    B, M = 400, 50
    terms = np.dstack([random.normal(size=(B, M, 4)), np.ones((B, M))])
    coefficients = np.array([2.0, 1.0, 0.2, 0.5, -2.0])
    truth = csr_array(random.random((B, M)) < 1 / (1 + np.exp(-terms @ coefficients)))
    fit = fit_texts(Evidence(csr_array(np.tile(np.arange(1, M + 1), (B, 1))), terms.reshape(B * M, -1)), truth)
    np.testing.assert_allclose(fit[:-2], coefficients, atol=0.15)
    # No label is left out.
    assert fit[-2] == np.log(0.5 / B)


def test_labels_without_points_have_their_own_utility_and_others_keep_theirs_at_weight_zero():
    texts = TextWords(csr_array(np.eye(2, dtype=np.float32)), np.array([0, 1], np.int32))
    points = csr_array(np.eye(2, dtype=np.float32))
    evidence = TextTerm(text_parameters(texts, points, default_fit(2)), np.array([2, 0]))
    said = evidence.predict(points, csr_array((2, 2), dtype=np.float32))
    odds = said.log_odds
    mean = np.array([[1.0, 5.0], [2.0, 6.0]], np.float32)
    evidence.block(said, slice(0, 2), mean, None)
    np.testing.assert_array_equal(mean[:, 0], [1, 2])
    np.testing.assert_allclose(mean[:, 1], default_fit(2)[-2] + odds.toarray()[:, 1], rtol=1e-6)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    random = np.random.default_rng(1)
    texts, labels = [], []
    for _ in range(240):
        chosen = random.choice(7, 2, replace=False)
        texts.append(" ".join(["buy", *(WORDS[word] for word in chosen), *["honey"] * (random.random() < 0.1)]))
        labels.append([f"topic {word}" for word in chosen])
    lines = [f"topic {word}\t{WORDS[word]}" for word in range(8)]
    return train(Source(texts, labels, label_texts=write_texts(folder / "texts.tsv", lines)), folder / "model")


def test_a_label_without_documents_is_found_by_its_text(model):
    assert "topic 7" in model.names.labels
    label = model.names.labels.index("topic 7")
    features = model.names.vectorizer.features(["buy honey", "buy grapes"])
    with_word, without = model.predictor.score(features, "probability")[0][:, label]
    assert with_word > 2 * without


def test_a_model_with_texts_is_read_as_it_was_written(model):
    again = load(model.folder.path)
    features = again.names.vectorizer.features(["buy apple", "buy grapes eggs"])
    np.testing.assert_array_equal(*(one.predictor.score(features)[0] for one in (model, again)))
    assert again.names.texts == model.names.texts


def test_texts_stay_when_a_model_learns(model, tmp_path):
    # Learning replaces the model in its folder, which other tests read.
    model.save(tmp_path / "copy")
    learned = learn(tmp_path / "copy", ["buy honey now"], labels=[["topic 7"]])
    assert learned.names.texts == model.names.texts
    assert learned.data["K"] == model.data["K"]


def test_damaged_texts_are_refused(model, tmp_path):
    model.save(tmp_path / "copy")
    copy = load(tmp_path / "copy")
    damaged = copy.parameters | {"label_texts.labels": copy.parameters["label_texts.labels"] + 100}
    predictor = type(copy.predictor)
    sizes = copy.data["D"], copy.data["K"]
    assert predictor.from_arrays(copy.settings, copy.preprocessed, damaged, *sizes) is None


def test_rows_of_numbers_have_no_texts(tmp_path):
    path = write_texts(tmp_path / "texts.tsv", ["a\tred"])
    with pytest.raises(SettingsError, match="need documents"):
        train(Source(csr_array(np.eye(4)), csr_array(np.eye(4, 2)), label_texts=path))
    assert issubclass(SettingsError, XmlgpError)
