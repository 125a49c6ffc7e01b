"""Compress content in every way that is read."""

import bz2
import gzip
import lzma

import zstandard

__all__ = ["PACK"]

#: What compresses by the ending of a name.
PACK = {
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
