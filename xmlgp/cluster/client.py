"""The client of a Dask cluster that a run has for itself."""

import contextlib

from distributed import Client
from distributed.utils import sync

from xmlgp.errors import ClusterError

__all__ = ["connect"]


def connect(address, security, seconds):
    """Return a new client (distributed.Client) with direct connections to workers.

    Parameters
    ----------
    address : str
        Of the scheduler.
    security : distributed.Security or None
    seconds : float
        Until the scheduler must have answered.

    Raises
    ------
    ClusterError
        If no Dask scheduler answers at the address.
    """
    # A constructor that fails would leave an object that waits for 20 s when it is deleted.
    client = _Client.__new__(_Client)
    try:
        client.__init__(address, security=security, direct_to_workers=True, set_as_default=False, timeout=seconds)
    except Exception as error:
        # What is not a scheduler can answer with anything: Dask raises MemoryError for the size of a message that is
        # text, and TypeError for an address with `tls` without certificates.
        client.abandon()
        raise ClusterError(f"no Dask scheduler answers at {address}") from error
    except BaseException:
        client.abandon()
        raise
    return client


class _Client(Client):
    """A client that gives up when the scheduler does not answer."""

    def start(self, timeout, **options):
        """Connect; Dask itself would wait forever for the end of an answer that is not a scheduler's."""
        if self.status == "newly-created":
            self._loop_runner.start()
            sync(self.loop, self._start, callback_timeout=2 * timeout, timeout=timeout, **options)

    def abandon(self):
        """End what a constructor that failed has started."""
        with contextlib.suppress(Exception):
            self.status = "closed"
            self._loop_runner.stop()
