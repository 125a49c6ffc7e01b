import pytest

from tests.data.test_fetch import TEST, TRAIN
from xmlgp.cli import main

CATALOGUE = """
datasets:
  small:
    title: A small set
    aliases: [tiny-5k]
    shape: {N: 3, N_test: 2, D: 5, K: 4}
    propensity: {A: 0.55, B: 1.5}
    files: {train: {}, test: {}}
    note: it is secret
"""


@pytest.fixture
def run(capfd, tmp_path, monkeypatch):
    """Run `xmlgp fetch` in an empty folder, with the catalogue above and a mirror."""
    (tmp_path / "catalogue.yaml").write_text(CATALOGUE)
    (tmp_path / "mirror/small").mkdir(parents=True)
    (tmp_path / "mirror/small/train.txt").write_bytes(TRAIN)
    (tmp_path / "mirror/small/test.txt").write_bytes(TEST)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XMLGP_CATALOGUE", "../catalogue.yaml")

    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["fetch", *arguments], prog_name="xmlgp")
        return end.value.code, *capfd.readouterr()

    return call


def test_stdout_has_only_the_paths(run, tmp_path):
    status, out, err = run("tiny-5k", "--mirror", "../mirror")
    assert (status, out) == (0, "data/small/train.txt\ndata/small/test.txt\n")
    assert err == "Note: small: fetched (../mirror)\n"
    assert (tmp_path / "here/data/small/train.txt").read_bytes() == TRAIN
    again = run("small")
    assert again == (0, out, "Note: small: already present and verified\n")
    assert run("small", "-q") == (0, out, "")


def test_list_prints_a_table(run):
    status, out, err = run("--list")
    assert (status, err) == (0, "")
    assert [line.split(None, 5) for line in out.splitlines()] == [
        ["name", "N", "N_test", "D", "K", "from"],
        ["small", "3", "2", "5", "4", "only --mirror"],
    ]


def test_default_list_fits_a_terminal(run, monkeypatch):
    monkeypatch.delenv("XMLGP_CATALOGUE")
    lines = run("--list")[1].splitlines()
    assert max(map(len, lines)) < 80
    assert "lf-amazon-131k 294805 134835 - 131073 google.com" in [" ".join(line.split()) for line in lines]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ([], 2, "Give either NAME or --list."),
        (["smal"], 1, "Error: ../catalogue.yaml: there is no data set 'smal'; did you mean small?\n"),
        (["small"], 1, "Error: small cannot be downloaded; use --mirror with a folder that contains "),
        (["small", "--mirror", "../mirror", "--into", "../catalogue.yaml"], 2, "Invalid value for '--into'"),
    ],
)
def test_errors_are_one_sentence(run, arguments, status, message):
    code, out, err = run(*arguments)
    assert (code, out) == (status, "")
    assert message in err
    assert "Traceback" not in err
