"""Embeddings in the user's cache folder, by the encoder and the content of the text.

They are rows of an SQLite database for each encoder, `$XDG_CACHE_HOME/xmlgp/embeddings/FINGERPRINT-vVERSION/` (or
`$XMLGP_CACHE_DIR/embeddings/…`), each with a checksum. What cannot be read is computed again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from xmlgp.data.cache import cache_root, remove_unused

__all__ = ["EmbeddingCache"]

Result = TypeVar("Result")

#: Incremented when the meaning of the rows changes.
FORMAT_VERSION = 1

#: The statements that create the table, read rows by their digests, and write rows.
TABLE = "CREATE TABLE IF NOT EXISTS embeddings (text BLOB PRIMARY KEY, embedding BLOB, checksum INTEGER)"
SELECT = "SELECT text, embedding, checksum FROM embeddings WHERE text IN ({})"
INSERT = "INSERT OR REPLACE INTO embeddings VALUES (?, ?, ?)"

#: Seconds to wait, once, for another process that writes; after these, nothing is read or stored while it does.
PATIENCE = 5


class EmbeddingCache:
    """The embeddings, of E numbers in float32, that the encoder with a fingerprint gave to texts."""

    def __init__(self, fingerprint: str, E: int) -> None:
        self._name = f"{fingerprint}-v{FORMAT_VERSION}"
        self._E = E
        self._patience = PATIENCE

    def read(self, digests: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """Return the stored embeddings, each E, of texts by their digests."""
        marks = ",".join("?" * len(digests))
        rows = self._executed(lambda database: database.execute(SELECT.format(marks), digests).fetchall())
        return {
            text: np.frombuffer(embedding, "<f4")
            for text, embedding, checksum in rows or ()
            if isinstance(embedding, bytes) and len(embedding) == 4 * self._E and zlib.crc32(embedding) == checksum
        }

    def write(self, embeddings: Mapping[bytes, NDArray[np.float32]]) -> None:
        """Store the embeddings of texts by their digests."""
        contents = {text: np.asarray(embedding, "<f4").tobytes() for text, embedding in embeddings.items()}
        rows = [(text, content, zlib.crc32(content)) for text, content in contents.items()]
        self._executed(lambda database: database.executemany(INSERT, rows))

    def _executed(self, statements: Callable[[sqlite3.Connection], Result]) -> Result | None:
        """Return what a function of the database returns, or None; a damaged database is removed."""
        try:
            folder = cache_root() / "embeddings" / self._name
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                remove_unused(folder.parent)
            os.utime(folder)
            with contextlib.closing(sqlite3.connect(folder / "embeddings.sqlite", timeout=self._patience)) as database:
                # A power failure may damage it, which is noticed.
                database.execute("PRAGMA synchronous = OFF")
                with database:
                    database.execute(TABLE)
                    return statements(database)
        except (OSError, sqlite3.OperationalError) as error:
            if "locked" in str(error):
                self._patience = 0
            return None
        except (sqlite3.DatabaseError, UnicodeDecodeError):  # of a damaged schema, which a message quotes
            shutil.rmtree(folder, ignore_errors=True)
            return None
