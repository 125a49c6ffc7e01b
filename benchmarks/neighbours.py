"""The search for nearest training points beside other libraries: time, recall, memory.

    python -m benchmarks neighbours [DATA] [--count 200] [--queries 500] [--copies 1] [--searches NAME,...]
        [--json FILE]

DATA is a folder with train.txt and test.txt; without it the embedded data set is used. The rows are the training points
as the default weights words, of unit length; --copies adds copies of them in which one or two words of a row are
replaced by others. The queries are the first test points. Each search finds the --count rows of largest inner product
with each query. Milliseconds a query are processor time of all threads, the least of several repeats after one that is
not timed. Recall is the share of the products found that are at least the last one of SciPy's. Megabytes are the arrays
that a search has beside the rows. A library that is not installed is skipped with a message.
"""

import sys
import time
from pathlib import Path

import click
import numpy as np
import scipy.sparse as sp

from benchmarks import harness
from xmlgp.data.toy import toy_dataset
from xmlgp.features.weighting import Weighting, count_points, inverse_frequencies, weigh
from xmlgp.neighbours.search import build_index, nearest
from xmlgp.runtime.threads import limit_threads

#: Queries that SciPy and scikit-learn answer at a time.
CHUNK = 100

#: Words of a row that are replaced in a copy, on average.
REPLACED = 1.5

#: A product that is less by this is found: libraries add in other orders.
TOLERANCE = 1e-5

REPEATS = 3


def best_of(products, count):
    """Return the columns of the largest elements of each row of a dense array."""
    return np.argpartition(-products, min(count, products.shape[1]) - 1, axis=1)[:, :count]


class Ours:
    """`xmlgp.neighbours.search`."""

    def __init__(self, rows):
        self.index = build_index(rows)
        self.bytes = sum(array.nbytes for array in self.index[1:])

    def search(self, queries, count):
        with limit_threads(1):
            return nearest(self.index, queries, count)[0]


class SciPy:
    """A product in chunks, and NumPy's `argpartition`."""

    def __init__(self, rows):
        self.columns = rows.T.tocsr()
        self.bytes = self.columns.data.nbytes + self.columns.indices.nbytes

    def search(self, queries, count):
        chunks = (queries[start : start + CHUNK] for start in range(0, queries.shape[0], CHUNK))
        return np.concatenate([best_of((chunk @ self.columns).toarray(), count) for chunk in chunks])


class ScikitLearn:
    """`NearestNeighbors` by brute force."""

    bytes = 0

    def __init__(self, rows):
        from sklearn.neighbors import NearestNeighbors

        self.model = NearestNeighbors(algorithm="brute", metric="cosine").fit(rows)

    def search(self, queries, count):
        count = min(count, self.model.n_samples_fit_)
        chunks = (queries[start : start + CHUNK] for start in range(0, queries.shape[0], CHUNK))
        return np.concatenate([self.model.kneighbors(chunk, count, return_distance=False) for chunk in chunks])


class SparseDotTopN:
    """sparse-dot-topn, which multiplies and keeps the largest elements."""

    def __init__(self, rows):
        from sparse_dot_topn import sp_matmul_topn

        self.product = sp_matmul_topn
        self.columns = sp.csr_matrix(rows.T.tocsr())
        self.bytes = self.columns.data.nbytes + self.columns.indices.nbytes

    def search(self, queries, count):
        found = self.product(sp.csr_matrix(queries), self.columns, count, sort=True, n_threads=1)
        return padded([found.indices[a:b] for a, b in zip(found.indptr, found.indptr[1:], strict=False)], count)


class BM25S:
    """bm25s with the weights of rows as its scores; a word of a query is repeated by its weight, in eight levels."""

    LEVELS = 8

    def __init__(self, rows):
        import bm25s

        columns = rows.tocsc()
        self.retriever = bm25s.BM25(backend="numba")
        arrays = {"data": columns.data, "indices": columns.indices, "indptr": columns.indptr}
        self.retriever.scores = arrays | {"num_docs": rows.shape[0]}
        self.retriever.nonoccurrence_array = None
        self.bytes = columns.data.nbytes + columns.indices.nbytes

    def search(self, queries, count):
        found = []
        for b in range(queries.shape[0]):
            part = slice(queries.indptr[b], queries.indptr[b + 1])
            values = queries.data[part]
            times = np.rint(values * self.LEVELS / values.max(initial=1e-9)).astype(int)
            scores = self.retriever.get_scores_from_ids(np.repeat(queries.indices[part], times))
            found.append(best_of(scores[None], count)[0])
        return np.array(found)


SEARCHES = {
    "xmlgp": Ours,
    "SciPy": SciPy,
    "scikit-learn": ScikitLearn,
    "sparse-dot-topn": SparseDotTopN,
    "bm25s": BM25S,
}


def padded(found, count):
    """Return lists of rows as an array, with −1 after their ends."""
    result = np.full((len(found), count), -1)
    for row, numbers in zip(result, found, strict=True):
        row[: len(numbers)] = numbers
    return result


def with_copies(features, copies):
    """Return features and copies of them in which words are replaced by others, by their frequencies."""
    random = np.random.default_rng(0)
    parts = [features]
    lengths = np.diff(features.indptr)
    for _ in range(copies - 1):
        words = features.indices.copy()
        replaced = random.random(len(words)) < REPLACED / np.repeat(lengths, lengths)
        words[replaced] = random.choice(features.indices, replaced.sum())
        copy = sp.csr_array((features.data, words, features.indptr), shape=features.shape, copy=True)
        copy.sum_duplicates()
        parts.append(copy)
    return sp.csr_array(sp.vstack(parts, format="csr"))


def rows_and_queries(data, copies, count):
    """Return the weighted words of training points and of the first test points."""
    train, test = harness.read_folder(data) if data else toy_dataset()
    rows = with_copies(train.features.sparse, copies)
    rows.sort_indices()
    weighting = Weighting.named("root-idf", inverse_frequencies("root-idf", rows.shape[0], count_points(rows)))
    return [weigh(matrix, weighting) for matrix in (rows, test.features.sparse[:count])]


def recall(found, rows, queries, least):
    """Return the share of the nearest rows that a search found, given the least product of each query with them."""
    taken = rows[np.maximum(found, 0).ravel()]
    products = taken.multiply(queries[np.repeat(np.arange(len(found)), found.shape[1])]).sum(axis=1)
    return float(np.mean(products.reshape(found.shape) * (found >= 0) >= least[:, None] - TOLERANCE))


def measure(kind, rows, queries, count, least):
    """Return the numbers of a search, by name."""
    start = time.perf_counter()
    search = kind(rows)
    build = time.perf_counter() - start
    found = search.search(queries[:CHUNK], count)
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        found = search.search(queries, count)
        times.append(time.process_time() - start)
    return {
        "ms": 1000 * min(times) / queries.shape[0],
        "recall": recall(found, rows, queries, least),
        "build_s": build,
        "megabytes": search.bytes / 1e6,
    }


def names_of(context, parameter, value):
    names = value.split(",") if value else []
    if unknown := set(names) - SEARCHES.keys():
        raise click.BadParameter(f"unknown: {', '.join(sorted(unknown))}; they are {', '.join(SEARCHES)}.")
    return names


@click.command()
@click.argument("data", required=False, type=click.Path(path_type=Path))
@click.option("--count", type=click.IntRange(1), default=200, show_default=True, help="Rows that are found.")
@click.option("--queries", "query_count", type=click.IntRange(1), default=500, show_default=True, help="Test points.")
@click.option("--copies", type=click.IntRange(1), default=1, show_default=True, help="Times that rows are repeated.")
@click.option("--searches", "names", default=",".join(SEARCHES), callback=names_of, show_default=True)
@harness.json_option
def main(data, count, query_count, copies, names, as_json):
    """Compare searches."""
    if data and not harness.has_data(data):
        return
    rows, queries = rows_and_queries(data, copies, query_count)
    queries = queries[np.diff(queries.indptr) > 0]
    count = min(count, rows.shape[0])
    exact = SciPy(rows).search(queries, count)
    products = rows[exact.ravel()].multiply(queries[np.repeat(np.arange(len(exact)), count)]).sum(axis=1)
    least = products.reshape(exact.shape).min(axis=1)
    megabytes = (rows.data.nbytes + rows.indices.nbytes) / 1e6
    title = data.name if data else "toy"
    print(f"{title}: {rows.shape[0]} rows of {rows.nnz / rows.shape[0]:.1f} words, {megabytes:.4g} MB; "
          f"{queries.shape[0]} queries, the {count} nearest.\n")  # fmt: skip
    table = harness.Table("search", "ms a query", "recall", "build s", "MB beside the rows")
    results = {}
    for name in names:
        try:
            results[name] = measure(SEARCHES[name], rows, queries, count, least)
        except ImportError as error:
            print(f"{name} is skipped: {error}", file=sys.stderr)
            continue
        table.row(name, *results[name].values())
    harness.write_json(as_json, {"data": title, "count": count, "copies": copies, "searches": results})


if __name__ == "__main__":
    main()
