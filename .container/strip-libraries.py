"""Strip the libraries in a folder of what only debuggers read. Those that cannot be loaded afterwards stay as they are.

Wheels have changed some libraries in ways that `strip` does not understand.
"""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Strip them."""
    libraries = [path for path in Path(sys.argv[1]).rglob("*.so") if not path.is_symlink()]
    for library in libraries:
        # In the same folder, it finds the libraries that it loads.
        stripped = library.with_name(f"{library.name}.stripped")
        subprocess.run(["strip", "--strip-unneeded", "-o", stripped, library], check=True)
        try:
            ctypes.CDLL(str(stripped))
        except OSError as error:
            print(f"not stripped: {error}")
            stripped.unlink()
        else:
            shutil.copymode(library, stripped)
            stripped.replace(library)


if __name__ == "__main__":
    main()
