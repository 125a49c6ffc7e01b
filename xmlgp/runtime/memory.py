"""The memory that this process can still use, on Linux: that of the machine, or less by a limit."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

__all__ = ["available_memory", "check_address_space"]

#: What NumPy, SciPy and numba take of the address space, with 0.2 GB for training.
LEAST_ADDRESS_SPACE = 1 << 30

#: The buffers and stacks of the two copies of OpenBLAS for each core.
ADDRESS_SPACE_PER_CORE = 80 << 20

#: For each version of control groups: the folder below /sys/fs/cgroup, the files of the limit and of what is used, and
#: those entries of memory.stat that are files in memory, which the kernel drops when it needs space.
VERSIONS = {
    "2": ("", "memory.max", "memory.current", ("inactive_file", "active_file")),
    "1": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")),
}


def available_memory(root: str | Path = "/") -> int | None:
    """Return how many bytes this process can still allocate, swap space included; None if that is unknown.

    `root` is the folder that has `proc` and `sys`.
    """
    root = Path(root)
    try:
        machine = _numbers(root / "proc/meminfo")
        available, swap = (1024 * machine[name] for name in ("MemAvailable:", "SwapFree:"))
    except (OSError, ValueError, KeyError):
        return None
    within_groups = max(0, min([available, *_control_groups(root)])) + swap
    return min([within_groups, *_address_space(root)])


def check_address_space(libraries: str, cores: int, root: str | Path = "/") -> None:
    """Raise MemoryError if a limit (`ulimit -v`) leaves too little for libraries that are about to be loaded.

    OpenBLAS tries for ever to allocate what it needs for each core, ends the process, or crashes.
    """
    needed = LEAST_ADDRESS_SPACE + cores * ADDRESS_SPACE_PER_CORE
    for left in _address_space(Path(root)):
        if left < needed:
            raise MemoryError(
                f"{libraries} need {needed / 1e9:.1f} GB of address space, but a limit (ulimit -v) leaves "
                f"{left / 1e9:.1f} GB"
            )


def _address_space(root: Path) -> Iterator[int]:
    """Yield what is left of the address space, if it has a limit (`ulimit -v`)."""
    if sys.platform == "win32":
        return
    # "unlimited" is not a number.
    with contextlib.suppress(OSError, ValueError, StopIteration):
        limits = (root / "proc/self/limits").read_text().splitlines()
        limit = int(next(line.split()[3] for line in limits if line.startswith("Max address space")))
        pages = int((root / "proc/self/statm").read_text().split()[0])
        yield max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))


def _control_groups(root: Path) -> Iterator[int]:
    """Yield what the limits of each control group of this process leave."""
    try:
        # Names of groups are bytes.
        lines = (root / "proc/self/cgroup").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for _, controllers, path in (line.split(":", 2) for line in lines if ":/" in line and line.count(":") > 1):
        if controllers and "memory" not in controllers.split(","):
            continue
        folder, limit, used, files = VERSIONS["1" if controllers else "2"]
        # A group is limited by those that it is in. In a container they may be missing.
        for group in (PurePosixPath(path), *PurePosixPath(path).parents):
            control = root / "sys/fs/cgroup" / folder / group.relative_to("/")
            # "max" is not a number.
            with contextlib.suppress(OSError, ValueError):
                left = int((control / limit).read_text()) - int((control / used).read_text())
                statistics = _numbers(control / "memory.stat")
                yield left + sum(statistics.get(name, 0) for name in files)


def _numbers(path: Path) -> dict[str, int]:
    """Return the numbers in a file by the names before them."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {line[0]: int(line[1]) for line in lines if len(line) > 1}
