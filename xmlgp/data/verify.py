"""Is a file what the catalogue says? Its checksum where one is known, its header and its number of lines."""

import hashlib

__all__ = ["find_flaw"]

CHUNK = 1 << 20

#: A header is three numbers; a first line that goes on longer is none.
LONGEST_HEADER = 100


def find_flaw(path, entry, file):
    """Compare a file with the catalogue.

    Parameters
    ----------
    path : Path
        The file.
    entry : Entry
        Its data set.
    file : DataFile
        Which of the set's files it is.

    Returns
    -------
    str or None
        What is wrong with it, in words to stand behind its name; None if nothing is.
    """
    expected = f"{file.points} {entry.shape.D} {entry.shape.K}"
    with open(path, "rb") as stream:
        header = stream.readline(LONGEST_HEADER) if entry.format == "repository" else b""
    if entry.format == "repository" and header.split() != expected.encode().split():
        return f"has the header {header.decode('ascii', 'replace').strip()!r}, not {expected!r}"
    lines, digests = _read_through(path)
    points = lines - (entry.format == "repository")
    if points < file.points:
        return f"has {points} points, not {file.points}; the end is missing"
    if file.checksums and not any(digests[accepted.kind] == accepted.digest for accepted in file.checksums):
        kind = file.checksums[0].kind
        return f"has the {kind} checksum {digests[kind]}, which is none of those in the catalogue"
    return None


def _read_through(path):
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
