"""Blocks of work in this process, whose arguments and results are pickled and go through files as on a cluster."""

import pickle

from xmlgp.cluster.files import StoredMatrices, array_in_file, pack, unpack
from xmlgp.runtime.executor import prepare_shared
from xmlgp.runtime.threads import one_blas_thread, single_thread

__all__ = ["InFiles"]


class InFiles:
    """What a `DaskCluster` is to its callers, with a folder in the cache; `blocks` counts those that were computed."""

    is_cluster, cores = True, 1

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.blocks, self._matrices = folder, 0, StoredMatrices(folder)

    def map(self, function, blocks, shared=None):
        shared = prepare_shared(self._sent(shared, self._matrices))
        for block in blocks:
            self.blocks += 1
            with single_thread(), one_blas_thread():
                result = function(shared, *self._sent(block))
            yield self._sent(result, passing=True)

    def empty(self, shape, dtype):
        return array_in_file(self.folder, shape, dtype)

    def _sent(self, value, matrices=None, passing=False):
        return unpack(pickle.loads(pickle.dumps(pack(value, self.folder, matrices, passing))))
