"""Start what a container was asked for, in place of this process: a command of xmlgp, or `dask`.

`docker run IMAGE train ...` runs `xmlgp train ...`; `docker run IMAGE dask worker ...` runs that.
"""

import contextlib
import os
import shutil
import sys
from pathlib import Path

#: Programs that are started by their names. All else are arguments of xmlgp.
PROGRAMS = ("dask", "python", "xmlgp")

#: Machine code that the image was built with.
COMPILED = Path(__file__).parent / "numba"


def keep_compiled_code(folder: str) -> None:
    """Copy the machine code of the image into a folder, which Numba must be able to write, unless it is there."""
    # Without a writable folder, Numba compiles what it needs again.
    with contextlib.suppress(OSError):
        if COMPILED.is_dir() and not os.path.exists(folder):
            shutil.copytree(COMPILED, folder)


def main() -> None:
    """Start the program."""
    command = sys.argv[1:]
    if not command or command[0] not in PROGRAMS:
        command = ["xmlgp", *command]
    keep_compiled_code(os.environ.get("NUMBA_CACHE_DIR", ""))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
