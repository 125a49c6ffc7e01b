"""Precision and time of other extreme classifiers on this machine.

    python -m benchmarks peers DATA [DATA ...] [--peers NAME,...] [--repeats 3]

DATA is a folder with train.txt and test.txt. Prints JSON: for each data set and peer P@1, P@3 and P@5 in percent of all
test points, seconds and peak memory of training, seconds of prediction (the best of the repeats) and the number of test
points. `make peers` installs the peers in an environment of their own, build/peers, as some need an older NumPy than
xmlgp. A peer that is not installed is skipped with a message.

Each peer runs in its own process, on all cores, with its defaults unless changed below. Times start at raw features in
memory and include scaling rows to unit length, which all peers expect; omikuji trains from the file, so its time
includes reading. Omikuji and napkinXC start from random numbers, so each of their runs differs: on Delicious P@1 is
from 66.9 to 67.9 in seven runs of omikuji, from 66.6 to 67.5 in three of napkinXC. Memory is the largest resident set
of the process during training, with the data.

The timed predictions are of five labels a point with the default beams. Omikuji's beam, 10, also limits the labels that
each group at the bottom of a tree gives: of 64 labels on Bibtex 22 come back. Five labels it does not limit: P@k on
Bibtex and Delicious moves by less than 0.1 with a beam of 64. For more labels the beam is their number. PECOS's beam
limits the groups only, of up to 100 labels each, and napkinXC searches without one: 64 labels come back.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.preprocessing import normalize

from benchmarks.peak_memory import reset_peak, resident_bytes

#: The checkout, from which this package is imported.
ROOT = Path(__file__).parents[1]

MEASURES = ("P@1", "P@3", "P@5")

#: The interpreter of the peers.
PYTHON = ROOT / "build" / "peers" / "bin" / "python"

#: Labels predicted per point.
TOP = 5

#: The default beam of omikuji.
BEAM = 10

#: Utility of a label that no training point has.
NEVER = -1e9


class OneVsRest:
    """A linear classifier of scikit-learn for each label."""

    reads_file = False

    #: The precision of Liblinear, which would convert any other type once per label.
    dtype = np.float64

    def __init__(self, module, name, **parameters):
        self.make = lambda: getattr(__import__(f"sklearn.{module}", fromlist=[name]), name)(**parameters)
        self.make()

    def fit(self, X, Y, file):
        from joblib import Parallel, delayed

        columns = Y.tocsc()
        # Liblinear releases the interpreter lock, and threads start faster than processes.
        fitted = Parallel(n_jobs=-1, prefer="threads")(
            delayed(self._fit_label)(X, columns[:, [label]].toarray().ravel()) for label in range(Y.shape[1])
        )
        self.weights = np.array([weights for weights, _ in fitted]).T
        self.bias = np.array([bias for _, bias in fitted])

    def load(self):
        """Prepare prediction; its time counts neither as training nor as prediction."""

    def _fit_label(self, X, y):
        if y.all() or not y.any():
            return np.zeros(X.shape[1]), -NEVER if y.any() else NEVER
        classifier = self.make().fit(X, y)
        return classifier.coef_[0], classifier.intercept_[0]

    def predict(self, X):
        scores = X @ self.weights + self.bias
        labels = np.argpartition(scores, -TOP, axis=1)[:, -TOP:]
        order = np.argsort(-np.take_along_axis(scores, labels, axis=1), axis=1)
        return np.take_along_axis(labels, order, axis=1)


class Omikuji:
    """A Parabel-like forest of label trees."""

    dtype = np.float32

    #: Whether `fit` reads the file, so that its X and Y are None.
    reads_file = True

    def __init__(self):
        import omikuji

        self.library = omikuji

    def fit(self, X, Y, file):
        self.model = self.library.Model.train_on_data(str(file), n_threads=os.cpu_count())

    def load(self):
        self.model.init_prediction_thread_pool(os.cpu_count())

    def predict(self, X):
        return padded([label for label, _ in row] for row in self.rank(X, TOP))

    def rank(self, X, count):
        """Return the best labels of each point with their scores, from 0 to 1, as lists of pairs."""
        pairs = (list(zip(indices.tolist(), values.tolist(), strict=True)) for indices, values in split(X))
        return [self.model.predict(row, beam_size=max(BEAM, count), top_k=count) for row in pairs]


class NapkinXC:
    """A probabilistic label tree."""

    reads_file = False

    dtype = np.float32

    def __init__(self):
        from napkinxc.models import PLT

        self.folder = tempfile.TemporaryDirectory()
        self.model = PLT(self.folder.name)

    def fit(self, X, Y, file):
        self.model.fit(X, [labels.tolist() for labels in np.split(Y.indices, Y.indptr[1:-1])])

    def load(self):
        self.model.load()

    def predict(self, X):
        return padded(self.model.predict(X, top_k=TOP))

    def rank(self, X, count):
        """Return the best labels of each point with their probabilities, as lists of pairs."""
        return self.model.predict_proba(X, top_k=count)


class Pecos:
    """PECOS XLinear on a hierarchy of labels, clustered by the features of their points."""

    reads_file = False

    dtype = np.float32

    def __init__(self):
        from pecos.xmc import Indexer, LabelEmbeddingFactory
        from pecos.xmc.xlinear.model import XLinearModel

        self.indexer, self.embeddings, self.XLinearModel = Indexer, LabelEmbeddingFactory, XLinearModel

    def fit(self, X, Y, file):
        labels = self.embeddings.create(Y, X, method="pifa")
        clusters = self.indexer.gen(labels, indexer_type="hierarchicalkmeans")
        self.model = self.XLinearModel.train(X, Y, clusters)

    def load(self):
        # PECOS predicts fast only with a model read from disk.
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(folder)
            self.model = self.XLinearModel.load(folder, is_predict_only=True)

    def predict(self, X):
        return padded([label for label, _ in row] for row in self.rank(X, TOP))

    def rank(self, X, count):
        """Return the best labels of each point with their scores, from 0 to 1, as lists of pairs."""
        scores = self.model.predict(X, only_topk=count)
        orders = ((labels, values, np.argsort(-values)) for labels, values in split(scores))
        return [
            list(zip(labels[order].tolist(), values[order].tolist(), strict=True)) for labels, values, order in orders
        ]


PEERS = {
    "svm": lambda: OneVsRest("svm", "LinearSVC", random_state=0),
    # The best of C = 0.25, 0.5, 1 (SVM) and 1, 4, 16 (logistic regression) at P@3 and P@5 on Bibtex's test points: this
    # favours the peers.
    "svm-0.25": lambda: OneVsRest("svm", "LinearSVC", C=0.25, random_state=0),
    "logistic": lambda: OneVsRest("linear_model", "LogisticRegression", C=4, solver="liblinear", random_state=0),
    "omikuji": Omikuji,
    "napkinxc": NapkinXC,
    "pecos": Pecos,
}


def split(matrix):
    """Yield the column indices and the values of each row."""
    bounds = matrix.indptr[1:-1]
    return zip(np.split(matrix.indices, bounds), np.split(matrix.data, bounds), strict=True)


def padded(rows):
    """Return labels, N×5, with -1 where a point has fewer."""
    return np.array([(list(row) + [-1] * TOP)[:TOP] for row in rows])


def read(file):
    """Return X and Y of a file in the repository's format."""
    with open(file, "rb") as stream:
        N, D, K = map(int, stream.readline().split())
        X, labels = load_svmlight_file(stream, n_features=D, dtype=np.float32, multilabel=True, zero_based=True)
    counts = [len(row) for row in labels]
    indices = np.concatenate([np.asarray(row, np.int32) for row in labels])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return X, sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=(N, K))


def precision(predicted, Y):
    """Return P@1, P@3 and P@5 in percent; a point without labels has no hits."""
    rows = np.split(Y.indices, Y.indptr[1:-1])
    hits = np.array([np.isin(top, true) for top, true in zip(predicted, rows, strict=True)])
    return {f"P@{k}": 100 * float(hits[:, :k].mean()) for k in (1, 3, 5)}


@contextlib.contextmanager
def silence():
    """Discard the output of compiled code, which would mix with the results."""
    warnings.simplefilter("ignore")
    saved = os.dup(1), os.dup(2)
    with open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), 1), os.dup2(null.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved[0], 1), os.dup2(saved[1], 2)


def write_scores(path, rows, K):
    """Write a scores file of xmlgp from the labels of each point and their scores, as lists of pairs."""
    with open(path, "w") as stream:
        print(len(rows), K, file=stream)
        for row in rows:
            print(" ".join(f"{label}:{score:.7g}" for label, score in row), file=stream)


def ranked(predicted):
    """Return labels, best first, with the scores TOP, TOP - 1, ..., as lists of pairs."""
    return [[(label, TOP - rank) for rank, label in enumerate(row) if label >= 0] for row in predicted.tolist()]


def measure_here(data, name, repeats, scores=None, listed=None):
    """Train and measure a peer in this process; return the measures, or the reason why it is missing.

    The predicted labels are written to the file `scores`, if it is given; see `measure`.
    """
    try:
        with silence():
            peer = PEERS[name]()
    except ImportError as error:
        return {"missing": str(error)}
    if listed and not hasattr(peer, "rank"):
        return {"missing": "it gives no scores"}
    X, Y = (None, None) if peer.reads_file else read(data / "train.txt")
    with silence():
        reset_peak()
        start = time.perf_counter()
        peer.fit(X if X is None else normalize(X).astype(peer.dtype), Y, data / "train.txt")
        training, times = time.perf_counter() - start, []
        peak = resident_bytes("VmHWM") / 1e6
        del X, Y
    X_test, Y_test = read(data / "test.txt")
    with silence():
        peer.load()
        for _ in range(repeats):
            start = time.perf_counter()
            predicted = peer.predict(normalize(X_test).astype(peer.dtype))
            times.append(time.perf_counter() - start)
    if scores:
        with silence():
            rows = peer.rank(normalize(X_test).astype(peer.dtype), listed) if listed else ranked(predicted)
        write_scores(scores, rows, Y_test.shape[1])
    taken = {"train_s": training, "peak_mb": peak, "predict_s": min(times), "rows": X_test.shape[0]}
    return precision(predicted, Y_test) | taken


def interpreter():
    """Return the interpreter of the peers; exit if `make peers` has not made it."""
    if not PYTHON.exists():
        sys.exit("the other tools are not installed: type `make peers`")
    return str(PYTHON)


def measure(data, names, repeats=1, scores=None, listed=None):
    """Train and measure peers on a data set, each in a fresh process.

    Returns for each installed peer P@1, P@3, P@5, `train_s`, `peak_mb`, `predict_s`, the fastest of the repeats, and
    `rows`. The predicted labels go to NAME.scores in the folder `scores`, with ranks as scores; or `listed` labels of
    each point with the scores of the peer, if it has a method `rank`.
    """
    results = {}
    for name in names:
        command = [
            interpreter(),
            "-m",
            "benchmarks.peers",
            str(data.resolve()),
            "--peers",
            name,
            "--repeats",
            str(repeats),
            "--here",
        ]
        if scores:
            command += ["--scores", str(scores.resolve() / f"{name}.scores")]
        if listed:
            command += ["--listed", str(listed)]
        result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)
        if "missing" in result:
            print(f"{name} is skipped: {result['missing']}", file=sys.stderr)
        else:
            results[name] = result
    return results


def peer_names(text):
    """Return the names in a list separated by commas, which may be empty."""
    names = text.split(",") if text else []
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]} is not a peer; choose from {', '.join(PEERS)}")
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DATA")
    parser.add_argument("--peers", type=peer_names, default=list(PEERS), help="peers to measure, separated by commas")
    parser.add_argument("--repeats", type=int, default=3, help="number of predictions; the fastest counts")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # one peer, in this process
    parser.add_argument("--scores", help=argparse.SUPPRESS)  # of that peer
    parser.add_argument("--listed", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        results = measure_here(args.folders[0], args.peers[0], args.repeats, args.scores, args.listed)
    else:
        results = {data.name: measure(data, args.peers, args.repeats) for data in args.folders}
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
