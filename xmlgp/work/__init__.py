"""Blocks of work: one `map(function, blocks)`, on the threads of this machine or on a Dask cluster.

Only this room knows Dask. It has no formulas, and no schedule of its own: Dask chooses workers and replaces lost ones.
"""

import numpy as np

from xmlgp.runtime.threads import core_count

__all__ = ["THIS_MACHINE", "opened"]


class ThisMachine:
    """Computes one block after another, each with all threads of this machine (`xmlgp.runtime.threads`).

    `xmlgp.work.cluster.DaskCluster` has the same attributes and methods.

    Attributes
    ----------
    is_cluster : bool
    cores : int
        Threads with which a block is computed.
    """

    is_cluster = False
    cores = property(lambda self: core_count())

    def map(self, function, blocks, shared=None):
        """Yield `function(shared, *block)` for every block, in order.

        Parameters
        ----------
        function : callable
            Of a module of xmlgp. It depends on its arguments alone, and changes none of them.
        blocks : iterable of tuple
            Taken as there is room for them.
        shared : object
            What all blocks need. One with a method `opened` is replaced by the result, once on each machine.
        """
        shared = opened(shared)
        for block in blocks:
            yield function(shared, *block)

    def empty(self, shape, dtype):
        """Return a new array, to be filled with results."""
        return np.empty(shape, dtype)


THIS_MACHINE = ThisMachine()


def opened(shared):
    """Return what functions get for what blocks share; see `ThisMachine.map`."""
    return shared.opened() if hasattr(shared, "opened") else shared
