"""Where the parts of a data set are: a user names a file, or a folder that holds train.txt and test.txt."""

import os
from pathlib import Path

from xmlgp.errors import XmlgpError

__all__ = ["locate"]


def locate(path, part):
    """Return the file of a part of a data set.

    Parameters
    ----------
    path : str
        A file or `-`, which stand for themselves, or a folder with PART.txt or PART.txt.gz.
    part : str
        "train" or "test".

    Returns
    -------
    str

    Raises
    ------
    XmlgpError
        Where a folder has no such file.
    """
    folder = Path(path)
    # Not folder.is_dir(): an empty name, as of a variable not set, is no folder, but Path takes it for the current one.
    if str(path) == "-" or not os.path.isdir(path):
        return str(path)
    for name in (f"{part}.txt", f"{part}.txt.gz"):
        if (folder / name).is_file():
            return str(folder / name)
    raise XmlgpError(f"{folder}: there is no {part}.txt or {part}.txt.gz in this folder")
