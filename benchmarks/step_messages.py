"""Time and messages of training steps, on one process and on a local Dask cluster."""

import contextlib
import itertools
import time

import numpy as np

from xmlgp.cluster.connection import open_cluster
from xmlgp.mlgpf import divided_steps, shared_bound
from xmlgp.mlgpf.divided_steps import DividedAscent, SharedPoints
from xmlgp.mlgpf.stochastic import StochasticAscent
from xmlgp.mlgpf.weight_space import make_model
from xmlgp.runtime.threads import one_blas_thread

__all__ = ["measure_steps"]


def measure_steps(dataset, preprocessed, settings, workers, steps):
    """Return the medians over some training steps: seconds, and with workers the bytes that travel.

    Parameters
    ----------
    dataset : Dataset
    preprocessed : Preprocessed
    settings : MLGPFSettings
    workers : int
        0 for one process without Dask.
    steps : int

    Returns
    -------
    dict
        `step_s` of a step. With workers also `call_s` for the messages and what workers compute, `compute_s` that the
        slowest worker computes, and bytes `sent` and `received`, by all workers together.
    """
    with open_cluster(workers=workers or None) as cluster, one_blas_thread(), always_divided(workers):
        inference = _inference(dataset, preprocessed, settings, cluster)
        messages = None if cluster is None else _Messages(cluster)
        found = []
        for epoch, done in itertools.islice(_steps(inference), steps):
            began = time.perf_counter()
            inference.step(epoch, done)
            found.append({"step_s": time.perf_counter() - began} | (messages.taken() if messages else {}))
    # The first steps fill caches and load compiled functions.
    found = found[-(-steps // 5) :]
    return {name: float(np.median([step[name] for step in found])) for name in found[0]}


@contextlib.contextmanager
def always_divided(parts):
    """Divide steps among so many workers, also where the client alone would be faster."""
    choose = shared_bound.best_parts, divided_steps.best_parts
    shared_bound.best_parts = divided_steps.best_parts = lambda *sizes: parts
    try:
        yield
    finally:
        shared_bound.best_parts, divided_steps.best_parts = choose


def _inference(dataset, preprocessed, settings, cluster):
    coordinates = preprocessed.coordinates(dataset.features, settings.dtype)
    arguments = make_model(settings, cluster), coordinates, dataset.labels, preprocessed.inducing
    if cluster is None or settings.in_weight_space:
        return StochasticAscent(*arguments)
    return DividedAscent(SharedPoints(cluster, dataset.features, preprocessed), *arguments)


def _steps(inference):
    for epoch in range(inference.epochs):
        for done in range(inference.steps_in(epoch)):
            yield epoch, done


class _Messages:
    """Counts what the calls of a cluster send and receive, and times them.

    Parameters
    ----------
    cluster : Cluster
    """

    def __init__(self, cluster):
        self._call, self._last = cluster.call, []
        cluster.call = self._counted

    def _counted(self, function, parts):
        parts = list(parts)
        began = time.perf_counter()
        answers = self._call(_timed, [(function, *part) for part in parts])
        seconds = time.perf_counter() - began
        self._last.append((seconds, parts, answers))
        return [result for result, _ in answers]

    def taken(self):
        """Return what the calls since the last time took."""
        calls, self._last = self._last, []
        return {
            "call_s": sum(seconds for seconds, _, _ in calls),
            "compute_s": sum(max(seconds for _, seconds in answers) for _, _, answers in calls),
            "sent": sum(_size(argument) for _, parts, _ in calls for part in parts for argument in part),
            "received": sum(_size(result) for _, _, answers in calls for result, _ in answers),
        }


def _timed(function, *arguments):
    """Return the result of a function and its seconds; called on workers."""
    began = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - began


def _size(value):
    """Return the bytes of a message with a value, as Dask sends it without compression."""
    from distributed.protocol import serialize

    header, frames = serialize(value)
    return len(str(header)) + sum(memoryview(frame).nbytes for frame in frames)
