"""Run subcommands, in the process of the test or in a new one, and the catalogue that they read."""

import json
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from xmlgp.cli import main

__all__ = ["CATALOGUE", "SMALL", "changed_description", "run", "said", "spawn"]

#: Sizes for the data of `tests.problems.small_dataset`.
SMALL = ["-P", "3", "--epochs", "2", "--batch-size", "16"]

CATALOGUE = """
datasets:
  known:
    title: has the shape of the small data set
    shape: {N: 40, N_test: 9, D: 25, K: 7}
    propensity: {A: 0.6, B: 2.6}
    files: {train: {}, test: {}}
    recipes:
      s-SMALL: {seed: 5}
recipes:
  default:
    settings: {factors: 2, inducing_count: 5, epochs: 1}
  s-SMALL:
    settings: {inducing: subspace, basis_size: 9, inducing_count: 6, factors: 3, epochs: 2, ard: false}
"""


def run(*arguments, stdin=None, command=main):
    """Run xmlgp, or another command, in this process; an exception other than SystemExit is an error of the test."""
    result = CliRunner().invoke(command, [str(argument) for argument in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def said(result, status=1, answered=False):
    """Return the one line that a failing command prints, without `Error: `; it may have `answered` before."""
    assert result.exit_code == status, result.output
    assert answered or result.stdout == ""
    *usage, line = result.stderr.splitlines()
    if status == 1:
        assert usage == []
    else:
        assert usage[0].startswith("Usage: ")
    assert line.startswith("Error: ")
    return line.removeprefix("Error: ")


def spawn(*arguments, **options):
    """Run xmlgp in a new process."""
    command = [sys.executable, "-m", "xmlgp", *map(str, arguments)]
    environment = os.environ | options.pop("environment", {})
    return subprocess.run(command, env=environment, capture_output=True, check=False, **options)


def changed_description(model, change):
    """Change the description of a model by a function of it."""
    file = Path(model, "model.json")
    description = json.loads(file.read_text())
    change(description)
    file.write_text(json.dumps(description))
