"""Work on blocks of rows, whose sums do not depend on the number of cores."""

from collections.abc import Callable
from typing import TypeVar

from xmlgp.runtime.threads import parallel_for

__all__ = ["ROWS", "map_blocks"]

#: Rows of a block.
ROWS = 128

Result = TypeVar("Result")


def map_blocks(function: Callable[[slice], Result], row_count: int, grain: int) -> list[Result]:
    """Return the results of a function for each block of rows, and for an empty one if there are no rows.

    All cores work; `grain` is the least number of rows for each.
    """
    starts = range(0, row_count, ROWS) or range(1)

    def call(first: int, last: int) -> list[Result]:
        return [function(slice(start, min(start + ROWS, row_count))) for start in starts[first:last]]

    results = parallel_for(call, len(starts), -(-grain // ROWS))
    return [result for results_of_thread in results for result in results_of_thread]
