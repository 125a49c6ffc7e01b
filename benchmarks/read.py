"""The speed of reading data files, compared with scikit-learn's `load_svmlight_file`.

    python benchmarks/read.py [FILE ...] [--json FILE]

Numbers are megabytes of text per second of processor time, which other work on the machine does not affect. Without
FILE, a file like those of the large data sets is generated: a hundred features per point with six decimals each.
"""

import os
import tempfile
import time
from pathlib import Path

import click
import harness  # before NumPy
import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import load_svmlight_file

from xmlgp.data.dataset import Dataset, as_csr
from xmlgp.data.features import Features
from xmlgp.data.repository_format import read_dataset, write_dataset

#: About 50 MB, in the proportions of AmazonCat-13K.
N, D, K, FEATURES, LABELS = 33_000, 200_000, 13_000, 100, 5

ROUNDS = 3


def generate(path):
    """Write a file with weights like those of tf-idf."""
    random = np.random.default_rng(0)
    features = random.random((N, FEATURES)).round(6).astype(np.float32)
    columns = np.sort(random.integers(0, D // FEATURES, (N, FEATURES)) + np.arange(0, D, D // FEATURES))
    labels = np.sort(random.integers(0, K // LABELS, (N, LABELS)) + np.arange(0, K, K // LABELS))
    X = as_csr(features.ravel(), columns.ravel(), np.arange(N + 1) * FEATURES, D)
    write_dataset(path, Dataset(Features(X), as_csr(None, labels.ravel(), np.arange(N + 1) * LABELS, K)))


def read_with_scikit_learn(path):
    """Return X. The first line, which the libsvm format lacks, gives the number of features."""
    with open(path, "rb") as stream:
        features = int(stream.readline().split()[1])
        return load_svmlight_file(stream, n_features=features, dtype=np.float32, multilabel=True, zero_based=True)[0]


def seconds(action, rounds=ROUNDS):
    """Return the least processor time of several rounds, and the result."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        result = action()
        times.append(time.process_time() - start)
    return min(times), result


def measure(path):
    """Return the megabytes per second of each reader of a file."""
    megabytes = os.path.getsize(path) / 1e6
    text, dataset = seconds(lambda: read_dataset(path, cache=False))
    conversion, _ = seconds(lambda: read_dataset(path), rounds=1)
    cached, _ = seconds(lambda: read_dataset(path))
    peer, X = seconds(lambda: read_with_scikit_learn(path))
    if (csr_array(X) != dataset.features.sparse).nnz:
        raise SystemExit(f"{path}: scikit-learn reads different features")
    times = {"text": text, "into cache": conversion, "from cache": cached, "scikit-learn": peer}
    return {"file": "/".join(path.parts[-2:]), "MB": megabytes} | {
        way: megabytes / spent for way, spent in times.items()
    }


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@harness.json_option
def main(files, as_json):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XMLGP_CACHE_DIR"] = folder
        if not files:
            files = [Path(folder) / "generated" / "tf-idf.txt"]
            files[0].parent.mkdir()
            generate(files[0])
        rows = [measure(path) for path in files]
    harness.print_table(["MB/s", *list(rows[0])[1:]], [row.values() for row in rows])
    harness.write_json(as_json, {"files": rows})


if __name__ == "__main__":
    main()
