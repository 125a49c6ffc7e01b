"""Compare a data file with the catalogue: its header, its number of lines, and its checksum if one is known."""

import hashlib

__all__ = ["find_mismatch"]

CHUNK = 1 << 20

#: Bytes read of the first line. A header is three numbers; a file without line ends would not fit into memory.
MAX_HEADER = 100


def find_mismatch(path, entry, file):
    """Return the first difference of a file from what its entry says, as a sentence without a subject, or None."""
    expected = f"{file.points} {entry.shape.D} {entry.shape.K}"
    with open(path, "rb") as stream:
        header = stream.readline(MAX_HEADER) if entry.format == "repository" else b""
    if entry.format == "repository" and header.split() != expected.encode().split():
        return f"has the header {header.decode('ascii', 'replace').strip()!r}, not {expected!r}"
    lines, digests = _count_and_digest(path)
    points = lines - (entry.format == "repository")
    if points < file.points:
        return f"has {points} points, not {file.points}; the end is missing"
    if file.checksums and not any(digests[accepted.kind] == accepted.digest for accepted in file.checksums):
        kind = file.checksums[0].kind
        return f"has the {kind} checksum {digests[kind]}, which is not in the catalogue"
    return None


def _count_and_digest(path):
    """Return the number of lines of a file and its digest of each kind."""
    git = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    sha256 = hashlib.sha256()
    lines, last = 0, b"\n"
    with open(path, "rb") as stream:
        while chunk := stream.read(CHUNK):
            git.update(chunk)
            sha256.update(chunk)
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    return lines + (last != b"\n"), {"git": git.hexdigest(), "sha256": sha256.hexdigest()}
