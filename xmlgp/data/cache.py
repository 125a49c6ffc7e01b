"""Binary copies of data files in the user's cache folder, memory-mapped when they are used.

A copy is the folder `$XDG_CACHE_HOME/xmlgp/text/DIGEST-vVERSION/` (or `$XMLGP_CACHE_DIR/text/DIGEST-vVERSION/`), where
DIGEST is the SHA-256 of the data file, so a copy is never out of date. It consists of the bytes of each array and a
JSON file with their checksums and that of the data file. A damaged copy is discarded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from xmlgp.data.dataset import Dataset, as_csr
from xmlgp.data.features import Features
from xmlgp.data.lines import ByteStream, LineReader
from xmlgp.errors import XmlgpError
from xmlgp.runtime.atomic_files import create_file, temporary_folder
from xmlgp.runtime.cache_folder import cache_root
from xmlgp.runtime.positioned_reads import read_at

if TYPE_CHECKING:
    from xmlgp.data.repository_format import Header

__all__ = ["cache_root", "file_digest", "folder_for_run", "load_or_store", "remove_unused"]

#: Incremented when the meaning of the files changes.
FORMAT_VERSION = 3
#: The arrays of a copy, all one-dimensional, named as in a csr_array; all stored labels are True.
ARRAYS = {
    "feature_data": "<f4",
    "feature_indices": "<i4",
    "feature_indptr": "<i8",
    "label_indices": "<i4",
    "label_indptr": "<i8",
}
#: The file with the checksum of each array, and that of the data file.
DIGESTS = "sha256.json"
#: The key of the data file in DIGESTS. The name of the folder does not suffice: it may be that of another data file.
TEXT = "text"

DAY = 24 * 60 * 60
#: Folders that were not used for longer than this are removed.
UNUSED_SECONDS = 60 * DAY


def load_or_store(reader: LineReader, header: Header, blocks: Iterable[Dataset]) -> Dataset | None:
    """Return the `Dataset` of a data file from its copy in the cache; None if even a new copy is damaged.

    If there is no copy, or it is damaged, one is made from `blocks`, which yields the points of the file. The position
    of the `LineReader` in the file stays. OSError is raised if the cache folder cannot be written, XmlgpError if the
    file changes while it is read; `blocks` can raise other errors.
    """
    digest = file_digest(reader.stream)
    entry = cache_root() / "text" / f"{digest}-v{FORMAT_VERSION}"
    dataset = _load(entry, digest, header)
    if dataset is None:
        with folder_for_run("text") as folder:
            copy = folder / "copy"
            copy.mkdir()
            _store(copy, digest, blocks)
            if file_digest(reader.stream) != digest:
                raise XmlgpError(f"{reader.path} changed while it was being read")
            try:
                copy.rename(entry)
            except OSError:
                if not entry.is_dir():  # otherwise another process has made the same copy
                    raise
        dataset = _load(entry, digest, header)
    return dataset


@contextlib.contextmanager
def folder_for_run(kind: str) -> Iterator[Path]:
    """Yield a new folder in the cache folder of its kind, and remove it at the end.

    All machines of a cluster have to see the cache folder. Other folders there that killed processes left, or that were
    not used for `UNUSED_SECONDS`, are removed.
    """
    parent = cache_root() / kind
    parent.mkdir(parents=True, exist_ok=True)
    remove_unused(parent)
    with temporary_folder(parent) as folder:
        yield folder


def remove_unused(parent: Path) -> None:
    """Remove what was not used for `UNUSED_SECONDS` from a folder."""
    for entry in parent.iterdir():
        with contextlib.suppress(OSError):
            unused = time.time() - entry.stat().st_mtime > UNUSED_SECONDS
            if not unused:
                continue
            if not entry.is_dir():
                entry.unlink()
            else:
                shutil.rmtree(entry)


def file_digest(stream: ByteStream) -> str:
    """Return the SHA-256 of the bytes of an open file, which may be compressed, in hexadecimal; its position stays."""
    sha256 = hashlib.sha256()
    position = 0
    while piece := read_at(stream.fileno(), 1 << 20, position):
        sha256.update(piece)
        position += len(piece)
    return sha256.hexdigest()


def _load(entry: Path, text_digest: str, header: Header) -> Dataset | None:
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


def _open(entry: Path, text_digest: str, header: Header) -> Dataset:
    """Return the data set in the folder `entry`; raise an exception of any kind if it is damaged."""
    digests = json.loads((entry / DIGESTS).read_text())
    if digests[TEXT] != text_digest:
        raise ValueError("this is the copy of another file")
    arrays = {}
    for name, dtype in ARRAYS.items():
        file = entry / name
        # An empty file cannot be mapped.
        arrays[name] = np.asarray(np.memmap(file, dtype, "r")) if file.stat().st_size else np.empty(0, dtype)
        if hashlib.sha256(arrays[name].data).hexdigest() != digests[name]:
            raise ValueError(f"{name} is damaged")
    X = as_csr(arrays["feature_data"], arrays["feature_indices"], arrays["feature_indptr"], header.D)
    return Dataset(Features(X), as_csr(None, arrays["label_indices"], arrays["label_indptr"], header.K))


def _store(folder: Path, text_digest: str, blocks: Iterable[Dataset]) -> None:
    """Write the files of a copy block by block, in constant memory."""
    digests = {name: hashlib.sha256() for name in ARRAYS}
    # The number of elements of each matrix that are written so far.
    counts = {"feature": 0, "label": 0}
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(create_file(folder / name)) for name in ARRAYS}

        def append(name: str, values: ArrayLike) -> None:
            piece = np.ascontiguousarray(values, ARRAYS[name])
            files[name].write(piece.data)
            digests[name].update(piece.data)

        for kind in counts:
            append(f"{kind}_indptr", [0])
        for block in blocks:
            append("feature_data", block.features.sparse.data)
            for kind, matrix in ("feature", block.features.sparse), ("label", block.labels):
                append(f"{kind}_indices", matrix.indices)
                append(f"{kind}_indptr", matrix.indptr[1:].astype(np.int64) + counts[kind])
                counts[kind] += len(matrix.indices)
    with create_file(folder / DIGESTS) as stream:
        entries = {TEXT: text_digest} | {name: digest.hexdigest() for name, digest in digests.items()}
        stream.write(json.dumps(entries, indent=1).encode())
