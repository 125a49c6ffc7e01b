"""A disk that is full at any moment leaves the earlier model, and one sentence."""

import errno
import re

import pytest

from tests.cli.command import SMALL, run, said
from tests.cli.disk import arrays, failing_disk


@pytest.mark.usefixtures("model")
def test_training_on_a_full_disk_keeps_the_earlier_model(workdir, monkeypatch):
    before = arrays("model")
    command = ["train", "data", "model", *SMALL, "--seed", "1", "--no-resume", "--overwrite", "-q"]
    # From one operation of each kind on: those are most of the operations of a training, a few apart.
    for operation in (*range(1, 12), *range(13, 60, 7)):
        with failing_disk(monkeypatch, workdir / "model", operation, errno.ENOSPC, lasting=True) as disk:
            result = run(*command)
        if not disk.failed:
            break
        if result.exit_code:
            lines = result.stderr.splitlines()
            assert re.fullmatch(r"Error: no space left on the disk of model(/.*)?", lines[-1]), disk.done
            assert arrays("model") == before, disk.done
    assert run(*command).exit_code == 0
    assert arrays("model") != before
    assert not list((workdir / "model").rglob("*.tmp"))


@pytest.mark.usefixtures("model")
def test_predictions_on_a_full_disk_leave_no_file(workdir, monkeypatch):
    (workdir / "out").mkdir()
    for operation in range(1, 4):
        with failing_disk(monkeypatch, workdir / "out", operation, errno.ENOSPC, lasting=True) as disk:
            result = run("predict", "model", "data", "-q", "-o", "out/scores")
        assert disk.failed
        assert said(result) == "no space left on the disk of out/scores"
        assert list((workdir / "out").iterdir()) == []
