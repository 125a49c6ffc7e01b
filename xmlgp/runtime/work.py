"""Blocks of work: one `map(function, blocks)`, on the threads of this machine or on a Dask cluster.

Only the room `cluster` knows Dask. It has no formulas, and no schedule of its own: Dask chooses workers and replaces
lost ones.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.runtime.threads import core_count

__all__ = ["THIS_MACHINE", "ThisMachine", "Work", "opened"]

T = TypeVar("T")


class Work(Protocol):
    """Where blocks of work are computed: on this machine or on a cluster."""

    #: Whether other machines compute.
    is_cluster: bool
    #: The number of workers that took part so far; 0 on this machine.
    workers: int

    @property
    def cores(self) -> int:
        """The number of threads with which a block is computed."""

    def map(
        self, function: Callable[..., T], blocks: Iterable[tuple[object, ...]], shared: object = None
    ) -> Generator[T, None, None]:
        """Yield `function(shared, *block)` for every block, a tuple, in order; blocks are taken as there is room.

        The function is one of a module of xmlgp; it depends on its arguments alone, and changes none of them. `shared`
        is what all blocks need; an object with a method `opened` is replaced by the result, once on each machine.
        """

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array, to be filled with results."""


class ThisMachine:
    """Computes one block after another, each with all threads of this machine (`xmlgp.runtime.threads`)."""

    is_cluster = False
    workers = 0

    @property
    def cores(self) -> int:
        """The number of threads with which a block is computed."""
        return core_count()

    def map(
        self, function: Callable[..., T], blocks: Iterable[tuple[object, ...]], shared: object = None
    ) -> Generator[T, None, None]:
        """Yield `function(shared, *block)` for every block; see `Work.map`."""
        shared = opened(shared)
        for block in blocks:
            yield function(shared, *block)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array, to be filled with results."""
        return np.empty(shape, dtype)


THIS_MACHINE = ThisMachine()


def opened(shared: object) -> object:
    """Return what functions get for what blocks share; see `Work.map`."""
    return shared.opened() if hasattr(shared, "opened") else shared
