"""Search for a file that is handled incorrectly, and keep the smallest one found."""

import contextlib
import os
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

__all__ = ["Sample", "Tally", "Violation", "hunt"]


class Sample(NamedTuple):
    """Files to try: the folder of whole files that they belong to, or none, and the content of each that differs.

    The content is bytes, or None for a file that is missing.
    """

    original: str
    files: dict


class Violation(AssertionError):
    """A file was handled incorrectly; the message says how, and where the file is kept."""


@dataclass
class Tally:
    """Numbers of files of a kind that were tried and that were read."""

    tried: int = 0
    read: int = 0

    @property
    def refused(self):
        return self.tried - self.read


def hunt(kind, count, kept, number=None):
    """Try `count` samples of a kind and return their `Tally`; without a seed `number`, the same in every run.

    A kind has `samples`, a strategy for `Sample`; `check`, which returns whether a sample was read, raises any
    exception if it was handled incorrectly, and removes its files; and `folder`, where `original` is. The first sample
    that is handled incorrectly is made as small as possible, kept in the folder `kept`, and reported by a `Violation`.
    """
    tally = Tally()

    def attempt(sample):
        tally.tried += 1
        try:
            tally.read += bool(kind.check(sample))
        except Exception as error:
            _keep(kind, sample, kept)  # hypothesis tries the smallest one last
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            what = " and ".join(sample.files) + f" of {sample.original}" * bool(sample.original)
            raise Violation(f"{reason}; the smallest such {what} is kept in {kept}") from error

    search = given(kind.samples)(attempt)
    profile = settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=number is None,
        phases=[Phase.generate, Phase.shrink],
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    search = profile(search if number is None else seed(number)(search))
    with contextlib.ExitStack() as stack:
        # A warning on standard error is not the one clear sentence.
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("error")
        # No file has to survive a power failure.
        stack.enter_context(mock.patch.object(os, "fsync"))
        search()
    return tally


def _keep(kind, sample, kept):
    """Write the sample and the other files of its folder."""
    shutil.rmtree(kept, ignore_errors=True)
    if sample.original:
        shutil.copytree(kind.folder / sample.original, kept)
    for name, content in sample.files.items():
        file = Path(kept, name)
        if content is None:
            file.unlink(missing_ok=True)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
