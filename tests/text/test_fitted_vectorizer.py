"""Vectorizers of scikit-learn in a model folder, which holds no code."""

import copy
import io
import json
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from scipy.sparse import csr_array
from sklearn.decomposition import NMF, TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import VarianceThreshold
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, Normalizer, StandardScaler
from sklearn.random_projection import GaussianRandomProjection
from skops.io._audit import NODE_TYPE_MAPPING

import xmlgp
from tests.cli.command import run, said
from tests.test_text_tagger import LABELS, NEW, SMALL, TEXTS, TRUTH
from xmlgp.errors import ModelFolderError, SettingsError, XmlgpError
from xmlgp.estimators import MLGPFClassifier, TextTagger, load_estimator
from xmlgp.prediction.scores_file import read_scores
from xmlgp.text.fitted_vectorizer import FittedVectorizer

VECTORIZERS = {
    "tfidf": TfidfVectorizer(min_df=2, sublinear_tf=True),
    "counts": CountVectorizer(ngram_range=(1, 2), stop_words=["the"], strip_accents="unicode"),
    "hashes": HashingVectorizer(n_features=64),
    "union": make_union(TfidfVectorizer(), CountVectorizer(analyzer="char", ngram_range=(2, 3))),
    "pipeline": make_pipeline(CountVectorizer(), TfidfTransformer(), TruncatedSVD(5)),
    "steps": make_pipeline(
        CountVectorizer(dtype=np.float32, min_df=2),
        FunctionTransformer(np.log1p, feature_names_out="one-to-one"),
        MaxAbsScaler(),
        StandardScaler(with_mean=False),
        Normalizer(),
        GaussianRandomProjection(5, random_state=np.random.RandomState(0)),
    ),
}


@pytest.fixture
def tagger():
    return TextTagger(SMALL, TfidfVectorizer()).fit(TEXTS, LABELS)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _no_skops(monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)


def corpus(name, labels=TRUTH):
    documents = [{"text": text, "labels": own} for text, own in zip(NEW, labels, strict=True)]
    Path(name).write_text("".join(json.dumps(document) + "\n" for document in documents))
    return name


def shout(text):
    """Do what no folder may make anybody do."""
    raise AssertionError


@pytest.mark.parametrize("name", VECTORIZERS)
def test_saved_vectorizers_read_text_as_before(name):
    tagger = TextTagger(SMALL, VECTORIZERS[name]).fit(TEXTS, LABELS)
    tagger.save("model")
    loaded = TextTagger.load("model")
    assert loaded.suggest(NEW) == tagger.suggest(NEW)
    assert loaded.vectorizer.get_params().keys() == VECTORIZERS[name].get_params().keys()
    names = loaded.classifier_.names_.features
    assert names == (None if name == "hashes" else tagger.vectorizer_.get_feature_names_out().tolist())
    expected = list(xmlgp.predict(tagger.classifier_.model_, NEW, k=2))
    assert list(xmlgp.predict("model", NEW, k=2)) == expected
    stdin = "".join(json.dumps({"text": text}) + "\n" for text in NEW)
    written = run("predict", "-q", "model", "-", "-k", "2", stdin=stdin).stdout
    assert [json.loads(line) for line in written.splitlines()] == expected
    # Every command that reads a corpus.
    for command in ["tune"], ["report", "--out", "page.html"], ["predict", "--format", "scores", "-o", "all.scores"]:
        found = run(command[0], "-q", "model", corpus("new.jsonl"), *command[1:])
        assert (found.exit_code, found.stderr) == (0, "")
    assert len(NEW) == read_scores("all.scores").N
    assert "text      by a vectorizer of scikit-learn" in run("show", "model").stdout


@pytest.mark.usefixtures("tagger")
def test_new_labels_are_learned_and_words_stay(monkeypatch):
    monkeypatch.setattr("xmlgp.mlgpf.weight_space.WeightSpaceMethod.learning_steps", 2)
    tagger = TextTagger(MLGPFClassifier(factors=2, epochs=2), HashingVectorizer(n_features=32)).fit(TEXTS, LABELS)
    tagger.save("model")
    loaded = TextTagger.load("model").partial_fit(["an ape"], [["apes"]])
    grown = xmlgp.learn(tagger.classifier_.model_, ["an ape"], labels=[["apes"]])
    assert loaded.classes_.tolist() == grown.names.labels == [*tagger.classes_, "apes"]
    loaded.save("model")
    assert TextTagger.load("model").suggest(NEW) == loaded.suggest(NEW)
    message = "a vectorizer of scikit-learn takes no new words; `TextTagger.partial_fit` learns such texts in Python"
    assert said(run("learn", "model", corpus("more.jsonl"))) == f"more.jsonl: {message}"


@pytest.mark.parametrize(
    ("vectorizer", "code"),
    [
        (CountVectorizer(tokenizer=str.split, token_pattern=None), "tokenizer=str.split"),
        (make_union(TfidfVectorizer(preprocessor=str.lower)), "tfidfvectorizer__preprocessor=str.lower"),
    ],
    ids=["tokenizer", "nested"],
)
def test_code_in_a_vectorizer_is_named_when_it_is_saved(vectorizer, code):
    tagger = TextTagger(SMALL, vectorizer).fit(TEXTS, LABELS)
    kind = type(vectorizer).__name__
    message = f"^{kind} cannot be saved, because a model folder holds no code, and it has '{code}'$"
    with pytest.raises(SettingsError, match=message):
        tagger.save("model")
    assert not any(Path("model").glob("**/*.npy"))


@pytest.mark.usefixtures("_no_skops")
def test_without_skops_one_sentence_says_what_to_install(tagger):
    with pytest.raises(
        XmlgpError, match="^to save a model with TfidfVectorizer, install skops: pip install 'xmlgp.text"
    ):
        tagger.save("model")


def test_without_skops_rows_are_still_read(monkeypatch, tagger):
    tagger.save("model")
    monkeypatch.setitem(sys.modules, "skops.io", None)
    message = "model: to read text as this model does, install skops: pip install 'xmlgp[text]'"
    assert said(run("predict", "model", corpus("new.jsonl"))) == message
    with pytest.raises(XmlgpError, match="^model: to read text as this model does, install skops"):
        TextTagger.load("model")
    features = tagger.vectorizer_.transform(NEW)
    assert load_estimator("model").predict(features).shape == (len(NEW), 4)


def compressed(content):
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return stream.getvalue()


def test_vectorizers_of_others_run_no_code_and_fill_no_memory(monkeypatch, tagger):
    monkeypatch.setattr("xmlgp.data.dense_files.FREE_BYTES", 10**6)
    with monkeypatch.context() as patched:
        patched.setattr(skops.io, "get_untrusted_types", lambda data: [])
        patched.setattr("xmlgp.text.fitted_vectorizer.check_parts", lambda vectorizer: [])
        tagger.vectorizer_.tokenizer = shout
        tagger.save("code")
    content = skops.io.dumps(TfidfVectorizer().fit(TEXTS))
    for name, stored in {
        "compressed": compressed(content),
        "expanding": skops.io.dumps(csr_array((np.zeros(10**6), np.zeros(10**6, np.int32), [0, 10**6]), shape=(1, 1))),
        "cut": content[:-99],
        "text": b"text",
        "other": skops.io.dumps(TfidfVectorizer().fit(["other words"])),
        "list": skops.io.dumps([1]),
        "files": skops.io.dumps(make_union(TfidfVectorizer(input="filename"))),
        "system": skops.io.dumps(CountVectorizer(tokenizer=os.system)),
    }.items():
        other = TextTagger(SMALL, TfidfVectorizer()).fit(TEXTS, LABELS)
        names = other.classifier_.names_
        transformer = FittedVectorizer(len(names.features), content=stored)
        other.classifier_.model_.names = names._replace(vectorizer=transformer)
        other.classifier_.save(name)
    for name, reason in {
        "code": "the vectorizer of this model cannot be used: .*shout",
        "compressed": "the vectorizer of this model cannot be used: .*compressed",
        "expanding": "the vectorizer of this model cannot be used: .*a matrix in it expands too much",
        "cut": "the vectorizer of this model cannot be used",
        "text": "the vectorizer of this model cannot be used",
        "other": r"the vectorizer of this model does not give its \d+ features",
        "list": "the vectorizer of this model cannot be used: .*it is of the type .*list",
        "files": "the vectorizer of this model cannot be used: .*TfidfVectorizer reads files",
        "system": r"the vectorizer of this model cannot be used: .*\.system",
    }.items():
        with pytest.raises(XmlgpError, match=f"^{name}: {reason}"):
            list(xmlgp.predict(name, NEW))
        assert run("predict", name, corpus("new.jsonl")).exit_code == 1
    with pytest.raises(ModelFolderError):
        TextTagger.load("code")


def changed(vectorizer, **attributes):
    """Return a vectorizer with other attributes, as a forged file can have them."""
    vars(vectorizer).update(attributes)
    return vectorizer


FILES = "CountVectorizer reads files"
FORGED = {
    "search": (changed(GridSearchCV(CountVectorizer(), {}), best_estimator_=None), "it is of the type 'GridSearchCV'"),
    "in an attribute": (changed(TfidfVectorizer(), more=CountVectorizer(input="filename")), FILES),
    "in a list": (changed(TfidfVectorizer(), more=[({"a": CountVectorizer(input="file")},)]), FILES),
    "in an array": (changed(TfidfVectorizer(), more=np.array([CountVectorizer(input="filename")], object)), FILES),
    "in a union": (make_union(make_union(CountVectorizer(input="filename"))), FILES),
    "another input": (CountVectorizer(input=["filename"]), FILES),
    "search in a union": (make_union(GridSearchCV(CountVectorizer(), {})), "type 'GridSearchCV'"),
    "repeated steps": (make_pipeline(CountVectorizer(), NMF(2)), "type 'NMF'"),
    "a method": (changed(CountVectorizer(), decode=str), "CountVectorizer has the attribute 'decode'"),
    "n-grams": (CountVectorizer(analyzer="char", ngram_range=(1, 10**9)), "n-grams of lengths that are not from 1"),
    "n-grams in a union": (make_union(HashingVectorizer(ngram_range=(1, 101))), "n-grams of lengths that are not"),
    "n-grams of 0": (TfidfVectorizer(ngram_range=(0, 1)), "n-grams of lengths that are not from 1 to 100"),
    "no hashes": (HashingVectorizer(n_features=0), "HashingVectorizer has not from 1 to 2,147,483,647 features"),
    "overflow": (HashingVectorizer(n_features=2**32), "HashingVectorizer has not from 1 to 2,147,483,647 features"),
    "numbers of words": (changed(CountVectorizer(), vocabulary_={"a": 10**9}), "do not have the numbers from 0"),
    "long values": (HashingVectorizer(dtype="S100000"), "HashingVectorizer has values that are not numbers"),
    "lists": (changed(CountVectorizer(), vocabulary_={"a": [0]}), "do not have the numbers from 0"),
    "floats": (changed(CountVectorizer(), vocabulary_={"a": 0, "b": 1.5}), "do not have the numbers from 0"),
    "array of thresholds": (VarianceThreshold(np.zeros(9)), "VarianceThreshold has an array in 'threshold'"),
    "arrays of arguments": (FunctionTransformer(np.exp, kw_args={"where": np.ones(9)}), "has an array in 'kw_args'"),
    "arrays of weights": (
        changed(make_union(CountVectorizer()), transformer_weights={"a": np.ones(9)}),
        "FeatureUnion has an array in 'transformer_weights'",
    ),
    "array of two axes": (
        changed(VarianceThreshold(), variances_=np.ones((9, 1))),
        "an array of another shape in 'variances_'",
    ),
    "n-grams of nothing": (CountVectorizer(ngram_range=None), "n-grams of lengths that are not from 1 to 100"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_vectorizer_is_neither_used_nor_saved(name):
    vectorizer, reason = FORGED[name]
    with pytest.raises(ModelFolderError, match=f"^model: the vectorizer of this model cannot be used: .*{reason}"):
        _ = FittedVectorizer(3, content=skops.io.dumps(vectorizer), source="model").estimator
    with pytest.raises(SettingsError, match=f"cannot be saved, because no model could use it: .*{reason}"):
        FittedVectorizer(3, vectorizer).stored()


def test_members_that_share_their_bytes_are_refused():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.npy", bytes(1000))
        (member,) = archive.filelist
        for name in "bcdef":
            again = copy.copy(member)
            # The directory has the name, and Python compares it with the one before the bytes when it reads them.
            again.filename = again.orig_filename = f"{name}.npy"
            archive.filelist.append(again)
    with pytest.raises(ModelFolderError, match="its members are longer than the file"):
        _ = FittedVectorizer(3, content=stream.getvalue(), source="model").estimator


def test_a_list_cannot_stand_for_lists_that_stand_for_lists():
    number = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": "0"}
    entry = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "content": [number]}
    for level in range(1, 60):
        again = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "__id__": level}
        entry = entry | {"__id__": level}
        entry = {name: value for name, value in again.items() if name != "__id__"} | {"content": [entry, again]}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("schema.json", json.dumps(entry | {"protocol": 2}))
    with pytest.raises(ModelFolderError, match="the vectorizer of this model cannot be used"):
        _ = FittedVectorizer(3, content=stream.getvalue()).estimator


def test_words_that_skops_has_as_keys_stay_words():
    words = ["__class__", "__id__", "__loader__", "content"]
    loaded = FittedVectorizer(4, content=skops.io.dumps(CountVectorizer().fit(words))).estimator
    assert loaded.get_feature_names_out().tolist() == words


def test_functions_that_skops_trusts_open_no_files():
    for function in np.load, np.fromfile, np.memmap, np.loadtxt, np.genfromtxt, open:
        for name in "analyzer", "tokenizer", "preprocessor":
            with pytest.raises(ModelFolderError, match="the vectorizer of this model cannot be used"):
                _ = FittedVectorizer(3, content=skops.io.dumps(CountVectorizer(**{name: function}))).estimator


def test_words_beyond_the_features_are_refused():
    content = skops.io.dumps(CountVectorizer(vocabulary={"ape": 0, "bee": 1}))
    forged = FittedVectorizer(2, content=content)
    forged.estimator.vocabulary_ = {"ape": 10**9, "bee": 1}
    forged.estimator.fixed_vocabulary_ = True
    with pytest.raises(XmlgpError, match="^the model: CountVectorizer fails: .*indices"):
        forged.features(["ape"])


def test_processes_and_a_folder_of_pickles_are_not_those_of_a_model():
    union = FeatureUnion([("a", CountVectorizer(vocabulary=["ape"]))], n_jobs=10**6)
    pipeline = Pipeline([("union", union)], memory="pickles")
    loaded = FittedVectorizer(1, content=skops.io.dumps(pipeline)).estimator
    assert (loaded.memory, loaded.get_params()["union__n_jobs"]) == (None, None)
    assert (pipeline.memory, union.n_jobs) == ("pickles", 10**6)


def schema(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return json.loads(archive.read("schema.json"))


@pytest.mark.parametrize("module", ["os", "foreign"])
@pytest.mark.parametrize("loader", sorted({name for name, _ in NODE_TYPE_MAPPING}))
def test_no_kind_of_forged_entry_runs_code(monkeypatch, loader, module):
    code = "from pathlib import Path; Path('ran').touch()"
    Path("foreign.py").write_text(f"{code}\ndef system(*_): {code}\n")
    monkeypatch.syspath_prepend(os.getcwd())
    own, arguments = schema(skops.io.dumps(CountVectorizer())), schema(skops.io.dumps(("touch ran",)))
    forged = {"__class__": "system", "__module__": module, "__id__": 1}
    function = forged | {"__loader__": "TypeNode", "__id__": 2}
    parts = dict.fromkeys(["func", "obj", "constructor", "type"], function)
    parts |= dict.fromkeys(["args", "reduce", "content"], arguments)
    for content in parts, arguments, arguments["content"], "touch ran":
        own["content"]["content"]["tokenizer"] = forged | parts | {
            "__loader__": loader, "content": content, "attrs": arguments,
        }  # fmt: skip
        for tree in own, own["content"]["content"]["tokenizer"] | {"protocol": 2}:
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w") as archive:
                archive.writestr("schema.json", json.dumps(tree))
            with pytest.raises(
                ModelFolderError, match="^model: the vectorizer of this model cannot be used: "
            ) as error:
                _ = FittedVectorizer(3, content=stream.getvalue(), source="model").estimator
            assert "\n" not in str(error.value)
    assert not Path("ran").exists()
    assert "foreign" not in sys.modules
