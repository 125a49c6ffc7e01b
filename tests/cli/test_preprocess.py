"""`xmlgp preprocess`: options, recipes and error messages."""

import numpy as np
import pytest

import xmlgp
from tests.cli.command import run, said
from tests.problems import small_dataset
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.mlgpf.settings import MLGPFSettings

pytestmark = pytest.mark.usefixtures("workdir")

SIZES = ["-M", "6", "-R", "9"]


def test_the_command_gives_the_model_folder_of_the_library():
    result = run("preprocess", "data/train.txt", "models/a", *SIZES, "--inducing", "subspace")
    assert (result.exit_code, result.stdout) == (0, "")
    expected = xmlgp.preprocess(
        small_dataset(),
        "b",
        settings=MLGPFSettings(
            inducing_count=6, basis_size=9, inducing="subspace", inducing_start="kmeans", factors=2, epochs=1
        ),
    )
    folder = ModelFolder("models/a")
    assert folder.stage == "preprocessed"
    assert folder.settings == expected.settings  # those of the recipe `default` among them
    # A data set in memory does not say what number its file gave the first feature.
    assert folder.description["data"] == expected.description["data"] | {"first_feature": 0}
    for name, array in ModelFolder("b").arrays("").items():
        np.testing.assert_array_equal(folder.array(name), array)


@pytest.mark.parametrize(("command", "data"), [("preprocess", "data"), ("train", "data/train.txt")])
def test_the_folder_of_the_training_data_is_refused_as_the_model_folder(tmp_path, monkeypatch, command, data):
    before = sorted((tmp_path / "data").iterdir())
    message = "data/ is the folder of the training data; choose another folder for the model."
    assert said(run(command, data, "data/"), status=2) == message
    monkeypatch.chdir("data")
    assert said(run(command, "train.txt", "."), status=2) == message.replace("data/", ".", 1)
    assert sorted((tmp_path / "data").iterdir()) == before
