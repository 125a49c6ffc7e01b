"""Cut rows, or anything that is counted, into blocks."""

__all__ = ["row_blocks"]


def row_blocks(count: int, size: int) -> list[slice]:
    """Return the slices of `count` rows that have `size` rows each; the last one may have fewer."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
