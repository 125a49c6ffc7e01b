"""Binary copies of data files in the user's cache folder, memory-mapped when they are used.

A copy is the folder `$XDG_CACHE_HOME/xmlgp/text/DIGEST-vVERSION/` (or `$XMLGP_CACHE_DIR/text/DIGEST-vVERSION/`), where
DIGEST is the SHA-256 of the data file, so a copy is never out of date. It consists of `.npy` files and a JSON file with
their checksums and that of the data file. A damaged copy is discarded.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from xmlgp.data.dataset import Dataset, as_csr
from xmlgp.errors import XmlgpError
from xmlgp.runtime.npy import map_array, write_header

__all__ = ["cache_root", "load_or_store", "temporary_folder"]

#: Incremented when the meaning of the files changes.
FORMAT_VERSION = 2
#: The arrays of a copy, all one-dimensional, named as in a csr_array; all stored labels are True.
ARRAYS = {
    "feature_data": "<f4",
    "feature_indices": "<i4",
    "feature_indptr": "<i8",
    "label_indices": "<i4",
    "label_indptr": "<i8",
}
DIGESTS = "sha256.json"
#: The key of the data file in DIGESTS, because a complete copy of another file can have the wrong name.
TEXT = "text"

TEMPORARY_PREFIX = ".temporary-"
DAY = 24 * 60 * 60
#: Copies that were not used for so long are removed.
UNUSED_SECONDS = 60 * DAY
#: Temporary folders older than this were left by interrupted conversions.
CONVERSION_SECONDS = DAY


def load_or_store(reader, header, blocks):
    """Return a data set from its copy in the cache, which is created if there is none.

    Parameters
    ----------
    reader : LineReader
        Of the data file, which is hashed without moving in it.
    header : Header
    blocks : iterator of Dataset
        What the file has, which is used only if there is no copy.

    Returns
    -------
    Dataset or None
        None if the new copy is damaged.

    Raises
    ------
    OSError
        If the cache folder cannot be written.
    XmlgpError
        If the file changes while it is read; `blocks` can raise other errors.
    """
    digest = _digest(reader.stream)
    entry = cache_root() / "text" / f"{digest}-v{FORMAT_VERSION}"
    dataset = _load(entry, digest, header)
    if dataset is None:
        with _replacing(entry) as folder:
            _store(folder, digest, blocks)
            if _digest(reader.stream) != digest:
                raise XmlgpError(f"{reader.path} changed while it was being read")
        dataset = _load(entry, digest, header)
    return dataset


def cache_root():
    """Return the cache folder of this package."""
    if override := os.environ.get("XMLGP_CACHE_DIR"):
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # ignored according to the XDG Base Directory Specification
        base = os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        raise OSError("the user has no home folder")
    return Path(base) / "xmlgp"


def _digest(stream):
    """Return the SHA-256 of an open file in hexadecimal, of compressed data as they are stored."""
    sha256, place = hashlib.sha256(), 0
    while piece := os.pread(stream.fileno(), 1 << 20, place):
        sha256.update(piece)
        place += len(piece)
    return sha256.hexdigest()


def _load(entry, text_digest, header):
    """Return the data set in the folder `entry`; if it is damaged, remove it and return None."""
    if not entry.is_dir():
        return None
    # Whatever is wrong, the data file can be read again.
    try:
        dataset = _open(entry, text_digest, header)
    except Exception:
        shutil.rmtree(entry, ignore_errors=True)
        return None
    with contextlib.suppress(OSError):
        os.utime(entry)
    return dataset


@contextlib.contextmanager
def temporary_folder(kind):
    """Yield a new folder for files that all machines see, in the folder of its kind (str), and remove it at the end.

    Those that killed processes left are removed after a while.
    """
    parent = cache_root() / kind
    parent.mkdir(parents=True, exist_ok=True)
    _remove_unused(parent)
    folder = Path(tempfile.mkdtemp(dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _open(entry, text_digest, header):
    """Return the data set in the folder `entry`; raise an exception of any kind if it is damaged."""
    digests = json.loads((entry / DIGESTS).read_text())
    if digests[TEXT] != text_digest:
        raise ValueError("this is the copy of another file")
    arrays = {}
    for name, dtype in ARRAYS.items():
        array = map_array(entry / f"{name}.npy")
        # The checksum does not cover the header.
        if array.dtype != dtype or array.ndim != 1 or hashlib.sha256(array).hexdigest() != digests[name]:
            raise ValueError(f"{name} is damaged")
        arrays[name] = np.asarray(array)
    features = as_csr(arrays["feature_data"], arrays["feature_indices"], arrays["feature_indptr"], header.D)
    return Dataset(features, as_csr(None, arrays["label_indices"], arrays["label_indptr"], header.K))


def _store(folder, text_digest, blocks):
    """Write the files of a copy block by block."""
    with contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context(_GrowingArray(folder / f"{name}.npy", dtype)) for name, dtype in ARRAYS.items()
        }
        for kind in "feature", "label":
            files[f"{kind}_indptr"].append(np.zeros(1))
        for block in blocks:
            files["feature_data"].append(block.features.data)
            for kind, matrix in ("feature", block.features), ("label", block.labels):
                stored = files[f"{kind}_indices"].length
                files[f"{kind}_indices"].append(matrix.indices)
                files[f"{kind}_indptr"].append(matrix.indptr[1:].astype(np.int64) + stored)
    with open(folder / DIGESTS, "w") as stream:
        digests = {TEXT: text_digest} | {name: file.sha256.hexdigest() for name, file in files.items()}
        json.dump(digests, stream, indent=1)
        _sync(stream)


class _GrowingArray:
    """Writes a one-dimensional `.npy` file piece by piece, in constant memory."""

    def __init__(self, path, dtype):
        self.length, self.sha256 = 0, hashlib.sha256()
        self._path, self._dtype = path, dtype

    def __enter__(self):
        self._stream = open(self._path, "wb")
        write_header(self._stream, self._dtype, 0)
        return self

    def append(self, piece):
        """Add the elements of an array."""
        piece = np.ascontiguousarray(piece, self._dtype)
        self._stream.write(piece)
        self.sha256.update(piece)
        self.length += len(piece)

    def __exit__(self, failure, *details):
        with self._stream:
            if failure is None:
                self._stream.seek(0)
                write_header(self._stream, self._dtype, self.length)
                _sync(self._stream)


def _sync(stream):
    """Flush a file to disk."""
    stream.flush()
    os.fsync(stream.fileno())


@contextlib.contextmanager
def _replacing(entry):
    """Yield a temporary folder, which is renamed to `entry` on success; remove unused copies beside it."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    _remove_unused(entry.parent)
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=entry.parent))
    try:
        yield folder
        try:
            folder.rename(entry)
        except OSError:
            if not entry.is_dir():  # otherwise another process has made the same copy
                raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_unused(folder):
    """Remove copies that were not used for long, and the remains of interrupted conversions."""
    for entry in folder.iterdir():
        limit = CONVERSION_SECONDS if entry.name.startswith(TEMPORARY_PREFIX) else UNUSED_SECONDS
        with contextlib.suppress(OSError):
            if time.time() - entry.stat().st_mtime > limit:
                shutil.rmtree(entry)
