"""Data sets: the repository's text format, the binary cache, the catalogue, fetching, the embedded sets."""
