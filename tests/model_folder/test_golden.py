"""Golden models: what each version of the format wrote is read, and predicts what it did when it was written."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import run, said
from tests.model_folder.golden.make import data
from xmlgp.data.formats import read_dataset
from xmlgp.model_folder.folder import FORMAT_VERSION, ModelFolder
from xmlgp.prediction.predictor import OUTPUTS
from xmlgp.prediction.scores_file import read_scores
from xmlgp.runs.stored import open_predictor
from xmlgp.runs.train import train_model

GOLDEN = Path(__file__).parent / "golden"
PATHS = sorted(file.parent for file in GOLDEN.glob("format-*/*/model.json"))
FORMATS = range(1, FORMAT_VERSION + 1)

#: Rounding of float32 in sums of a few terms: of scores, and of deviations, which are roots of small differences.
ROUNDING, ROOT_OF_ROUNDING = 1e-5, 2e-3

any_model = pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.name}")
trained_model, preprocessed_model = (
    pytest.mark.parametrize(
        "path",
        [path for path in PATHS if path.name.endswith("preprocessed") == preprocessed],
        ids=lambda path: f"{path.parent.name}-{path.name}",
    )
    for preprocessed in (False, True)
)


def described(path):
    return json.loads((path / "model.json").read_text())


def points(path, part):
    """What a model is trained on ("train"), or predicts ("test")."""
    dataset, _ = read_dataset(data(path.name, part), cache=False)
    return dataset


def contents(path):
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.rglob("*") if file.is_file()}


def test_each_format_has_its_models():
    found = {version: {path.name for path in PATHS if path.parent.name == f"format-{version}"} for version in FORMATS}
    # Where this fails a format is new: tests/model_folder/golden/README.md tells how to make its models.
    assert all({"default", "preprocessed"} < names for names in found.values()), found
    assert sum(map(len, found.values())) == len(PATHS)
    for path in PATHS:
        assert described(path)["format_version"] == int(path.parent.name.removeprefix("format-"))


def test_the_models_of_the_latest_format_have_all_arrays_that_there_are():
    text = (Path(__file__).parents[2] / "docs" / "model-folder.md").read_text()
    documented = re.findall(r"^\| `((?:preprocess|parameters)\.[a-zA-Z_.]+)` \|", text, re.MULTILINE)
    assert len(documented) > 20
    held = {
        re.sub(r"kernel\.(linear|se)\.log_(variance|relevance)", r"kernel.TERM.log_\2", name)
        for path in PATHS
        if path.parent.name == f"format-{FORMAT_VERSION}"
        for name in described(path)["arrays"]
    }
    assert held == set(documented)


@any_model
def test_it_is_shown(path):
    before = contents(path)
    result = run("show", path)
    assert (result.exit_code, result.stderr) == (0, "")
    description = described(path)
    assert f"{description['stage']}, written by {description['written_by']}" in result.stdout
    assert description["stage"] == ("preprocessed" if path.name.endswith("preprocessed") else "trained")
    for name in description["arrays"]:
        assert f"  {name} " in result.stdout
    assert contents(path) == before


@trained_model
@pytest.mark.parametrize("output", OUTPUTS)
def test_it_predicts_what_it_did(path, output):
    before = contents(path)
    features = points(path, "test").features
    K = described(path)["data"]["K"]
    predictor = open_predictor(ModelFolder(path))
    expected = read_scores(path / f"{output}.txt")
    (found,) = predictor.top(features, None, output, with_std=True)
    for scores in (expected, found):
        assert (scores.N, scores.K, len(scores.labels)) == (6, K, 6 * K)
    for name, tolerance in (("scores", ROUNDING), ("std", ROOT_OF_ROUNDING)):
        there, here = (by_label(scores, getattr(scores, name)) for scores in (expected, found))
        np.testing.assert_allclose(here, there, rtol=ROUNDING, atol=tolerance)
    whole, deviations = predictor.score(features, output, with_std=True)
    np.testing.assert_allclose(whole, by_label(expected, expected.scores), rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(deviations, by_label(expected, expected.std), rtol=ROUNDING, atol=ROOT_OF_ROUNDING)
    assert contents(path) == before


def by_label(scores, values):
    """The values of all labels of each point, N×K."""
    out = np.full((scores.N, scores.K), np.nan)
    out[np.repeat(np.arange(scores.N), np.diff(scores.indptr)), scores.labels] = values
    return out


@preprocessed_model
def test_training_goes_on_from_what_an_earlier_version_preprocessed(tmp_path, path):
    shutil.copytree(path, tmp_path / "model")
    dataset = points(path, "train")
    kept = ModelFolder(tmp_path / "model")
    arrays = kept.entries("preprocess.")
    assert len(arrays) == 3
    folder = train_model(dataset, tmp_path / "model", kept.settings)
    assert folder.stage == "trained"
    assert folder.description["format_version"] == FORMAT_VERSION
    assert folder.entries("preprocess.") == arrays


def test_a_later_format_is_refused_with_the_version_that_wrote_it(tmp_path):
    model = tmp_path / "model"
    shutil.copytree(GOLDEN / f"format-{FORMAT_VERSION}" / "default", model)
    later = described(model) | {"format_version": FORMAT_VERSION + 1, "written_by": "xmlgp 99.1"}
    (model / "model.json").write_text(json.dumps(later))
    for command in (["show", model], ["predict", model, GOLDEN / "test.txt"]):
        told = said(run(*command))
        assert f"written in format {FORMAT_VERSION + 1} by 'xmlgp 99.1'; " in told
        assert told.endswith(f"which reads formats 1 to {FORMAT_VERSION}")
