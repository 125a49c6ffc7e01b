"""Executors, whose method `map` computes a function of many blocks on this machine or on a Dask cluster.

The executor for a cluster is in `xmlgp.cluster`, the only package that imports Dask. Dask schedules the blocks and
replaces lost workers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.runtime.threads import core_count

__all__ = ["LOCAL_EXECUTOR", "Executor", "LocalExecutor", "prepare_shared"]

T = TypeVar("T")


class Executor(Protocol):
    """Computes a function of many blocks, such as ranges of rows: on this machine or on a cluster."""

    #: Whether other machines compute.
    is_cluster: bool
    #: The number of workers that have taken part so far; 0 on this machine.
    workers: int

    @property
    def cores(self) -> int:
        """The number of threads that compute one block."""

    def map(
        self, function: Callable[..., T], blocks: Iterable[tuple[object, ...]], shared: object = None
    ) -> Generator[T, None, None]:
        """Yield `function(shared, *block)` for every block, in order.

        Parameters
        ----------
        function
            A function of a module of xmlgp, so that workers can import it. It depends on its arguments alone and
            changes none of them.
        blocks
            The arguments of each call. They are consumed lazily, only a few blocks ahead of the results.
        shared
            An argument of all calls. An object with a method `prepare_shared` is replaced by what the method returns;
            each process calls it once.
        """

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array to fill with results."""


class LocalExecutor:
    """Computes one block after another, each with all threads of this machine (`xmlgp.runtime.threads`)."""

    is_cluster = False
    workers = 0

    @property
    def cores(self) -> int:
        """The number of threads that compute one block."""
        return core_count()

    def map(
        self, function: Callable[..., T], blocks: Iterable[tuple[object, ...]], shared: object = None
    ) -> Generator[T, None, None]:
        """Yield `function(shared, *block)` for every block; see `Executor.map`."""
        shared = prepare_shared(shared)
        for block in blocks:
            yield function(shared, *block)

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return a new array to fill with results."""
        return np.empty(shape, dtype)


LOCAL_EXECUTOR = LocalExecutor()


def prepare_shared(shared: object) -> object:
    """Return `shared.prepare_shared()`, or `shared` itself if it has no such method; see `Executor.map`."""
    return shared.prepare_shared() if hasattr(shared, "prepare_shared") else shared
