"""Blocks of work: one `map(function, blocks)`, on the threads of this machine or on a Dask cluster.

Only this room knows Dask. It has no formulas, and no schedule of its own: Dask chooses workers and replaces lost ones.
"""

import numpy as np

from xmlgp.runtime.threads import core_count

__all__ = ["THIS_MACHINE", "ThisMachine", "opened"]


class ThisMachine:
    """Computes one block after another, each with all threads of this machine (`xmlgp.runtime.threads`).

    `xmlgp.work.cluster.DaskCluster` has the same attributes and methods. `cores` is the number of threads with which a
    block is computed.
    """

    is_cluster = False
    cores = property(lambda self: core_count())

    def map(self, function, blocks, shared=None):
        """Yield `function(shared, *block)` for every block, a tuple, in order; blocks are taken as there is room.

        The function is one of a module of xmlgp; it depends on its arguments alone, and changes none of them. `shared`
        is what all blocks need; one with a method `opened` is replaced by the result, once on each machine.
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
