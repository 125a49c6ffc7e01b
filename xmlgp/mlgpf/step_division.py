"""Whether a stochastic step is divided among the workers of a Dask cluster, and among how many.

A step takes some hundredths of a second, and a message to a worker and back some thousandths, so that dividing a step
often takes longer than making it on the client. The choice depends on sizes alone, not on measured times, so that the
same run has the same result.
"""

from xmlgp.runtime.threads import core_count

__all__ = ["best_parts"]

#: Seconds of a message and its answer, without their content, and bytes of content in a second: measured with two
#: workers on one machine. The client prepares the messages one after the other.
MESSAGE_SECONDS, BYTES_A_SECOND = 2.5e-3, 8e8


def best_parts(core_seconds, moved, cluster):
    """Return into how many parts a step should be divided; 0 if the client should make it alone.

    Parameters
    ----------
    core_seconds : float
        What the part of the step that can be divided takes on one core.
    moved : callable
        `moved(parts)` returns the bytes of a message to a worker together with its answer.
    cluster : Cluster
    """
    best, least = 0, core_seconds / core_count()
    for parts in range(1, cluster.worker_count + 1):
        seconds = core_seconds / (parts * cluster.threads) + parts * (MESSAGE_SECONDS + moved(parts) / BYTES_A_SECOND)
        if seconds < least:
            best, least = parts, seconds
    return best
