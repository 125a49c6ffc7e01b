"""Cells trained again in a folder of their own, beside the kept results; an interrupted run goes on where it was.

A file in the folder lists the cells of runs that have not ended. Their results are kept until the run ends; results of
runs that ended are removed when a new run begins.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.papers.cells import Cell
from xmlgp.errors import SettingsError
from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.runtime.locks import LockedError, hold_lock

__all__ = ["AGAIN", "begin", "end", "only_run"]

#: The folder within that of the results.
AGAIN = "again"

#: The file with the names of the cells of runs that have not ended.
UNFINISHED = "unfinished.json"

#: The lock of the folder.
LOCK = ".lock"


@contextlib.contextmanager
def only_run(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder within the `with` block; SettingsError if one is there."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold_lock(folder / LOCK))
        except LockedError as error:
            raise SettingsError(f"{folder}: {error.holder} trains there; wait until it ends") from None
        yield


def begin(cells: Iterable[Cell[Any]], folder: Path) -> int:
    """Remove results of cells in a folder, so that they are trained; return the number that an interrupted run left."""
    names = {cell.name for cell in cells}
    unfinished = _read(folder)
    # Before the record: were it the other way round, a run that is killed here would pass for one that trained them.
    for name in names - unfinished:
        (folder / "cells" / name).unlink(missing_ok=True)
    _write(folder, unfinished | names)
    return sum((folder / "cells" / name).exists() for name in names)


def end(cells: Iterable[Cell[Any]], folder: Path) -> None:
    """Record that a run with these cells has ended."""
    _write(folder, _read(folder) - {cell.name for cell in cells})


def _read(folder: Path) -> set[str]:
    # Without a record that can be read, all cells are trained.
    with contextlib.suppress(OSError, ValueError):
        return set(json.loads((folder / UNFINISHED).read_text(encoding="utf-8")))
    return set()


def _write(folder: Path, names: set[str]) -> None:
    if not names:
        (folder / UNFINISHED).unlink(missing_ok=True)
        return
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / UNFINISHED) as stream:
        stream.write(json.dumps(sorted(names), indent=1).encode())
