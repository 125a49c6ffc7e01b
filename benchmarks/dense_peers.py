"""Other tools on words, embeddings, or both: a cell of the table of benchmarks/dense.py, in a process of its own.

    python benchmarks/dense_peers.py TOOL PART WORDS TRAIN.npy TEST.npy SCORES

WORDS is a folder with train.txt and test.txt, whose features are weighted; TRAIN.npy and TEST.npy have embeddings of
the same points. PART is words, dense or both; rows have unit length, those of words and those of embeddings each.
Writes SCORES, a scores file of xmlgp with the five best labels of each test point, and prints JSON: the parameters that
were chosen, seconds and processor seconds of training and of prediction, and the largest resident set of training in
megabytes, with the data.

    omikuji     with its defaults; embeddings are further columns of the text file that it trains from
    pecos       XLinear with its defaults; embeddings are further columns
    svm         LinearSVC for each label
    logistic    LogisticRegression for each label, by lbfgs in single precision: scikit-learn's fastest on embeddings
    neighbours  votes of the k nearest training points by cosine, weighted by exp(cosine / temperature); with both, the
                mean of the votes by words and of those by embeddings, weighted by a share

C, k, the temperature and the share are chosen on a fifth of the training points, held out, by the sum of P@1, P@3 and
P@5; C by the most frequent labels alone, as one-vs-rest is slow. Times are without the choice, and without writing
omikuji's file. This file imports neither xmlgp nor Click, as the environment of the peers may lack them.
"""

import argparse
import itertools
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from peak_memory import reset_peak, resident_bytes
from peers import TOP, Omikuji, OneVsRest, Pecos, precision, read, silence, write_scores
from scipy.special import expit
from sklearn.preprocessing import normalize
from text_peers import write_points
from threadpoolctl import threadpool_limits

#: Share of the training points on which parameters are chosen, and the number of labels by which C is.
HELD_OUT, FREQUENT = 0.2, 100

#: Points whose similarities to all training points are computed together.
BLOCK = 1000


def joined(features, dtype):
    """Return the blocks of features as one matrix, which is sparse if one of them is."""
    blocks = list(features.values())
    if len(blocks) == 1:
        return blocks[0].astype(dtype)
    return sp.hstack(blocks, "csr", dtype)


def rows_of(features, chosen):
    """Return the blocks of some points."""
    return {name: block[chosen] for name, block in features.items()}


def best(scores):
    """Return the best labels of each point and their scores, N×5 both, from the scores of all labels, N×K."""
    labels = np.argpartition(scores, -TOP, axis=1)[:, -TOP:]
    order = np.argsort(-np.take_along_axis(scores, labels, axis=1), axis=1)
    labels = np.take_along_axis(labels, order, axis=1)
    return labels, np.take_along_axis(scores, labels, axis=1)


def pick(candidates, scores_of, Y):
    """Return the candidate whose scores, N×K, have the largest sum of P@1, P@3 and P@5."""
    return max(candidates, key=lambda candidate: sum(precision(best(scores_of(candidate))[0], Y).values()))


class LabelTrees:
    """Omikuji."""

    def choose(self, features, Y, held, Y_held):
        return {}

    def fit(self, features, Y):
        self.peer = Omikuji()
        labels = [own.tolist() for own in np.split(Y.indices, Y.indptr[1:-1])]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "train.txt")
            write_points(file, self.matrix(features), labels, Y.shape[1])
            yield
            self.peer.fit(None, None, file)
        self.peer.load()

    def rank(self, features):
        return self.peer.rank(self.matrix(features), TOP)

    def matrix(self, features):
        return sp.csr_array(joined(features, np.float32))


class ClusteredLabels:
    """PECOS XLinear."""

    def choose(self, features, Y, held, Y_held):
        return {}

    def fit(self, features, Y):
        self.peer = Pecos()
        yield
        self.peer.fit(self.matrix(features), Y, None)
        self.peer.load()

    def rank(self, features):
        return self.peer.rank(self.matrix(features), TOP)

    def matrix(self, features):
        # PECOS clusters labels by sparse features only.
        return sp.csr_matrix(joined(features, np.float32))


class AllLabels:
    """A tool that scores all labels of a point."""

    def rank(self, features):
        labels, scores = (array.tolist() for array in best(self.scores(features)))
        return [list(zip(*row, strict=True)) for row in zip(labels, scores, strict=True)]


class Linear(AllLabels):
    """A linear classifier for each label."""

    def __init__(self, module, name, strengths, dtype, to_score, **options):
        self.make = lambda C: OneVsRest(module, name, C=C, **options)
        self.strengths, self.dtype, self.to_score = strengths, dtype, to_score

    def choose(self, features, Y, held, Y_held):
        frequent = np.argsort(-np.asarray(Y.sum(axis=0)).ravel(), kind="stable")[:FREQUENT]

        def scores_of(C):
            list(self.fit(features, Y[:, frequent], C))
            return self.scores(held)

        return {"C": pick(self.strengths, scores_of, Y_held[:, frequent])}

    def fit(self, features, Y, C):
        self.model = self.make(C)
        yield
        # There is one thread for each core, each with a label of its own.
        with threadpool_limits(1):
            self.model.fit(joined(features, self.dtype), Y, None)

    def scores(self, features):
        return self.to_score(joined(features, self.dtype) @ self.model.weights + self.model.bias)


class Neighbours(AllLabels):
    """The nearest training points by each block of features."""

    counts, temperatures, shares = (5, 10, 20, 40, 80, 160), (0.03, 0.1, 0.3, 1, 3), (0.2, 0.35, 0.5, 0.65, 0.8)

    def choose(self, features, Y, held, Y_held):
        list(self.fit(features, Y))
        chosen = {}
        for name, block in held.items():
            nearest = self.nearest(name, block, max(self.counts))
            candidates = itertools.product(self.counts, self.temperatures)
            chosen[name] = pick(candidates, lambda candidate, nearest=nearest: self.votes(*nearest, *candidate), Y_held)
        if len(chosen) > 1:
            self.chosen = chosen
            chosen["share"] = pick(self.shares, lambda share: self.scores(held, share), Y_held)
        return chosen

    def fit(self, features, Y, **chosen):
        self.features, self.Y, self.chosen = features, sp.csr_array(Y), chosen
        yield

    def scores(self, features, share=None):
        """Return the votes; `share` is that of embeddings, by default the chosen one."""
        found = {}
        for name, block in features.items():
            count, temperature = self.chosen[name]
            found[name] = self.votes(*self.nearest(name, block, count), count, temperature)
        if len(found) == 1:
            return next(iter(found.values()))
        share = share or self.chosen["share"]
        return share * found["dense"] + (1 - share) * found["words"]

    def nearest(self, name, points, count):
        """Return the cosines and the numbers of the nearest training points, both N×count, nearest first."""
        found = []
        count = min(count, self.features[name].shape[0])
        for start in range(0, points.shape[0], BLOCK):
            cosines = points[start : start + BLOCK] @ self.features[name].T
            cosines = cosines.toarray() if sp.issparse(cosines) else cosines
            rows = np.argpartition(cosines, -count, axis=1)[:, -count:]
            rows = np.take_along_axis(rows, np.argsort(-np.take_along_axis(cosines, rows, axis=1), axis=1), axis=1)
            found.append((np.take_along_axis(cosines, rows, axis=1), rows))
        return [np.vstack(arrays) for arrays in zip(*found, strict=True)]

    def votes(self, cosines, rows, count, temperature):
        """Return the share of the votes of so many nearest points that each label has, N×K."""
        weights = np.exp((cosines[:, :count] - cosines[:, :1]) / temperature)
        weights /= weights.sum(axis=1, keepdims=True)
        ends = np.arange(0, weights.size + 1, weights.shape[1])
        shape = len(weights), self.Y.shape[0]
        return (sp.csr_array((weights.ravel(), rows[:, :count].ravel(), ends), shape=shape) @ self.Y).toarray()


TOOLS = {
    "omikuji": LabelTrees,
    "pecos": ClusteredLabels,
    "svm": lambda: Linear("svm", "LinearSVC", (0.25, 1, 4), np.float64, np.asarray, random_state=0),
    "logistic": lambda: Linear("linear_model", "LogisticRegression", (1, 4, 16, 64), np.float32, expit),
    "neighbours": Neighbours,
}


def read_points(words, dense, part, name):
    """Return the blocks of features of a part, rows of unit length, and Y."""
    X, Y = read(words / f"{name}.txt")
    blocks = {"words": X, "dense": np.load(dense).astype(np.float32)}
    return {block: normalize(blocks[block]) for block in (blocks if part == "both" else [part])}, Y


def measure(tool, part, words, dense, scores):
    """Train and measure a tool; return the numbers, or the reason why it is missing."""
    try:
        with silence():
            peer = TOOLS[tool]()
            features, Y = read_points(words, dense[0], part, "train")
            order = np.random.default_rng(0).permutation(Y.shape[0])
            held, kept = np.split(order, [int(HELD_OUT * len(order))])
            chosen = peer.choose(rows_of(features, kept), Y[kept], rows_of(features, held), Y[held])
            training = peer.fit(features, Y, **chosen)
            next(training)
            reset_peak()
            times = [(time.perf_counter(), time.process_time())]
            list(training)
            times.append((time.perf_counter(), time.process_time()))
            peak = resident_bytes("VmHWM") / 1e6
            tested, Y_test = read_points(words, dense[1], part, "test")
            times.append((time.perf_counter(), time.process_time()))
            ranked = peer.rank(tested)
            times.append((time.perf_counter(), time.process_time()))
    except ImportError as error:
        return {"missing": str(error)}
    write_scores(scores, ranked, Y_test.shape[1])
    (train, train_cpu), _, (predict, predict_cpu) = np.diff(times, axis=0).tolist()
    taken = {"train_s": train, "train_cpu": train_cpu, "predict_s": predict, "predict_cpu": predict_cpu}
    return {"chosen": chosen} | taken | {"peak_mb": peak}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("part", choices=["words", "dense", "both"])
    parser.add_argument("words", type=Path)
    parser.add_argument("dense", nargs=2, type=Path, metavar="EMBEDDINGS")
    parser.add_argument("scores")
    args = parser.parse_args()
    print(json.dumps(measure(args.tool, args.part, args.words, args.dense, args.scores)))


if __name__ == "__main__":
    main()
