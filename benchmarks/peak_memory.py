"""Resident memory of this process.

This file imports the standard library alone, as `peers.py` runs where the packages of xmlgp may be missing.
"""

import contextlib
import resource
import sys

__all__ = ["reset_peak", "resident_bytes"]


def reset_peak():
    """Start a new peak, if the system allows it, as Linux does."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def resident_bytes(field):
    """Return bytes of resident memory: current (VmRSS) or peak (VmHWM); some systems have the peak only."""
    try:
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith(field))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
