"""The default model for the format of the data."""

import pytest

from tests.cli.command import run, said
from tests.problems import small_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.model_folder.folder import ModelFolder

NOTE = "model: the model is gpc, the default for data of this format"
QUICK = ["-M", "5", "--iterations", "2"]


@pytest.fixture(autouse=True)
def _data(workdir):
    """Write twenty points with one label in each format."""
    dataset = small_dataset(40, 4, 1).rows(slice(0, 20))
    write_dataset("one.txt", dataset)
    X, positive = dataset.features.toarray(), dataset.labels.toarray()[:, 0]
    assert 0 < positive.sum() < 20
    pairs = (" ".join(f"{index}:{value}" for index, value in enumerate(row, 1)) for row in X)
    lines = [f"{'+1' if true else '-1'} {row}\n" for true, row in zip(positive, pairs, strict=True)]
    (workdir / "binary").mkdir()
    for name in "one.svm", "binary/some.svm":
        (workdir / name).write_text("".join(lines))


def model_of(path):
    return ModelFolder(path).description["model"]


@pytest.mark.parametrize("data", ["one.svm", "binary"])
def test_gpc_is_the_default_for_libsvm_format(data):
    result = run("train", data, "model", *QUICK)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines()[0] == NOTE
    assert model_of("model") == "gpc"
    result = run("preprocess", data, "other", "-M", "5")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (0, NOTE.replace("model:", "other:"))
    assert model_of("other") == "gpc"


def test_the_format_of_standard_input_is_recognised(workdir):
    result = run("train", "-", "model", *QUICK, stdin=(workdir / "one.svm").read_text())
    assert result.stderr.splitlines()[0] == NOTE
    assert model_of("model") == "gpc"


def test_quiet_prints_nothing():
    assert run("train", "one.svm", "model", *QUICK, "-q").output == ""
    assert run("preprocess", "one.svm", "model", "-M", "5", "-q").output == ""


@pytest.mark.parametrize(
    ("options", "model"),
    [(["--model", "mlgpf"], "mlgpf"), (["--model", "bmlpl"], "bmlpl"), (["--recipe", "default"], "mlgpf")],
)
def test_options_override_the_default_model(options, model):
    words = ["--iterations", "2"] if model == "bmlpl" else ["-M", "5", "--epochs", "1"]
    result = run("train", "one.svm", "model", *options, *words)
    assert result.exit_code == 0
    assert "default for data" not in result.stderr
    assert model_of("model") == model


def test_mlgpf_is_the_default_for_one_label_in_repository_format():
    result = run("train", "one.txt", "model", "-M", "5", "--epochs", "1")
    assert result.exit_code == 0
    assert "default for data" not in result.stderr
    assert model_of("model") == "mlgpf"


def test_both_formats_give_the_same_model():
    for data, model in ("one.svm", "a"), ("one.txt", "b"):
        assert run("train", data, model, "--model", "gpc", *QUICK, "-q").exit_code == 0
    arrays, others = (ModelFolder(model).arrays("") for model in "ab")
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        assert (array == others[name]).all()


def test_an_option_of_another_model_is_refused():
    line = said(run("train", "one.svm", "model", "--factors", "3", "-q"))
    assert line == "model gpc: factors is a setting of mlgpf, not of gpc"


def test_training_uses_the_model_of_preprocessing():
    assert run("preprocess", "one.svm", "model", "--model", "mlgpf", "-M", "5", "-q").exit_code == 0
    result = run("train", "one.svm", "model", "--epochs", "1")
    assert result.exit_code == 0
    assert "default for data" not in result.stderr
    assert model_of("model") == "mlgpf"
    result = run("train", "one.svm", "model", "--resume")
    assert result.stderr == "model: already trained; nothing to resume\n"


def test_gpc_of_several_labels_is_refused(workdir):
    assert said(run("train", "data", "model", "--model", "gpc", "-q")).startswith("gpc is ")
    assert not (workdir / "model").exists()


def test_data_of_one_class_are_reported(workdir):
    for label, words in (("1", "second"), ("-1", "first")):
        (workdir / "one.svm").write_text(f"{label} 1:1\n{label} 1:2\n")
        result = run("train", str(workdir / "one.svm"), "model")
        assert f"model: all training points belong to the {words} class" in result.stderr.splitlines()
