"""Contributions of features to utilities: which words speak for a label of a point, and which against it."""

from dataclasses import dataclass

import numpy as np

from xmlgp.linear_algebra.compiled import compiled

__all__ = ["Contributions"]


@dataclass(frozen=True, eq=False)
class Contributions:
    """The contributions of features to the utilities of n pairs of a point and a label.

    The utility of pair j is the sum of the contributions of the point's features and of a rest without features:

        utility_j = Σ_e values[e] + rest[j],    indptr[j] ≤ e < indptr[j + 1]

    `features` has the features of the point of each pair, in the order of the point, and `values` their contributions.
    Features that the point does not have contribute nothing, and are not listed.
    """

    indptr: np.ndarray
    features: np.ndarray
    values: np.ndarray
    rest: np.ndarray

    @classmethod
    def unset(cls, features, scores, dtype):
        """Return contributions for the pairs of `Scores`, with values and rests that are yet to be written."""
        counts = np.repeat(np.diff(features.indptr), np.diff(scores.indptr))
        indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        columns = np.empty(indptr[-1], np.int32)
        _repeat_rows(features.indptr, features.indices, scores.indptr, columns)
        return cls(indptr, columns, np.empty(len(columns), dtype), np.empty(len(counts), dtype))

    def strongest(self, pair: int, count: int) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
        """Return the features that speak most for the label of pair j, and those that speak most against it.

        Each list has at most `count` features with their contributions, the strongest first, equal ones by feature.
        """
        part = slice(self.indptr[pair], self.indptr[pair + 1])
        features, values = self.features[part], self.values[part]
        order = np.lexsort((features, -np.abs(values)))
        sides = (order[values[order] > 0][:count], order[values[order] < 0][:count])
        positive, negative = (list(zip(features[s].tolist(), values[s].tolist(), strict=True)) for s in sides)
        return positive, negative


@compiled
def _repeat_rows(indptr, indices, pairs, out):
    """Write the features of each point once for each of its pairs."""
    place = 0
    for i in range(indptr.size - 1):
        for _ in range(pairs[i], pairs[i + 1]):
            for e in range(indptr[i], indptr[i + 1]):
                out[place] = indices[e]
                place += 1
