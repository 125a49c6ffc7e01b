"""Work on blocks of rows, whose sums do not depend on the number of cores."""

from collections.abc import Callable
from typing import TypeVar

from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.threads import parallel_for

__all__ = ["ROWS", "map_blocks"]

#: Rows of a block.
ROWS = 128

Result = TypeVar("Result")


def map_blocks(function: Callable[[slice], Result], row_count: int, grain: int) -> list[Result]:
    """Return the results of a function for each block of rows, and for an empty one if there are no rows.

    All cores work; `grain` is the least number of rows for each.
    """
    blocks = row_blocks(row_count, ROWS) or [slice(0, 0)]

    def call(first: int, last: int) -> list[Result]:
        return [function(rows) for rows in blocks[first:last]]

    results = parallel_for(call, len(blocks), -(-grain // ROWS))
    return [result for results_of_thread in results for result in results_of_thread]
