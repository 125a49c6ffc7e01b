"""Other tools on text, each in a process of its own.

    python -m benchmarks text_peers FOLDER SCORES [--sublinear | --svm | --fasttext] [--times FILE]

Trains omikuji on train.jsonl of FOLDER, by the features of scikit-learn's TfidfVectorizer, and predicts the five best
labels of test.jsonl. Writes SCORES, a scores file of xmlgp with the labels in alphabetical order, and the seconds of
each step as JSON to the file of --times. Omikuji trains from a file only, so one is written between. All parameters
have their defaults; with --sublinear, TfidfVectorizer has sublinear_tf=True. --svm instead trains LinearSVC on the
features of --sublinear, one for each label, and writes σ(margin), which ranks as margins do and is no probability.
--fasttext instead trains fastText on the same words, with one logistic regression a label (`ova`), pairs of words, 25
epochs and a rate of 0.5, the best of those tried.

This runs in the environment of `make peers`, with NumPy 1: under NumPy 2, fasttext-wheel 0.9.2 gives all labels of a
point the probability of the first, without an error. fastText has ten threads on any machine: each draws the starting
values of a tenth of the vectors, and with fewer, those of the other tenths start at zero.
"""

import argparse
import functools
import json
import math
import re
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.peers import TOP, Omikuji, silence, write_scores

#: Threads of fastText.
THREADS = 10

#: What the seconds are of.
STEPS = ("vectorize", "write", "train", "predict")
SVM_STEPS = ("vectorize", "train", "predict")


def read_corpus(path):
    """Return the texts and the labels of a corpus."""
    with open(path, encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    return [document["text"] for document in documents], [document["labels"] for document in documents]


def write_points(path, X, labels, K):
    """Write points in the repository's format."""
    with open(path, "w") as stream:
        print(*X.shape, K, file=stream)
        bounds = zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist(), labels, strict=True)
        for start, end, own in bounds:
            pairs = zip(X.indices[start:end].tolist(), X.data[start:end].tolist(), strict=True)
            words = "".join(f" {column}:{value:.6g}" for column, value in sorted(pairs))
            stream.write(",".join(map(str, own)) + words + "\n")


def tag(folder, scores, sublinear):
    """Train on a corpus, predict another one, and return the seconds of each step."""
    times = [time.perf_counter()]

    def ended():
        times.append(time.perf_counter())

    from sklearn.feature_extraction.text import TfidfVectorizer

    texts, names = read_corpus(folder / "train.jsonl")
    vectorizer = TfidfVectorizer(sublinear_tf=sublinear)
    X = vectorizer.fit_transform(texts)
    known = {name: number for number, name in enumerate(sorted({name for row in names for name in row}))}
    ended()
    with tempfile.TemporaryDirectory() as temporary, silence():
        file = Path(temporary, "train.txt")
        write_points(file, X, [sorted({known[name] for name in row}) for row in names], len(known))
        ended()
        peer = Omikuji()
        peer.fit(None, None, file)
        ended()
        peer.load()
        rows = peer.rank(vectorizer.transform(read_corpus(folder / "test.jsonl")[0]), TOP)
        write_scores(scores, rows, len(known))
        ended()
    return {step: end - start for step, start, end in zip(STEPS, times[:-1], times[1:], strict=True)}


def tag_by_svm(folder, scores):
    """Do the same with LinearSVC, one a label."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import MultiLabelBinarizer
    from sklearn.svm import LinearSVC

    times = [time.perf_counter()]
    texts, names = read_corpus(folder / "train.jsonl")
    vectorizer, binarizer = TfidfVectorizer(sublinear_tf=True), MultiLabelBinarizer()
    X, Y = vectorizer.fit_transform(texts), binarizer.fit_transform(names)
    times.append(time.perf_counter())
    model = OneVsRestClassifier(LinearSVC(), n_jobs=-1).fit(X, Y)
    times.append(time.perf_counter())
    margins = model.decision_function(vectorizer.transform(read_corpus(folder / "test.jsonl")[0]))
    best = (-margins).argsort(axis=1)[:, :TOP]
    rows = [[(int(k), 1 / (1 + math.exp(-row[k]))) for k in own] for row, own in zip(margins, best, strict=True)]
    write_scores(scores, rows, Y.shape[1])
    times.append(time.perf_counter())
    return {step: end - start for step, start, end in zip(SVM_STEPS, times[:-1], times[1:], strict=True)}


def require_differences(rows):
    """Exit if the labels of each point have equal scores."""
    several = [row for row in rows if len(row) > 1]
    if several and all(len({score for _, score in row}) == 1 for row in several):
        sys.exit("all labels of each point have one probability, as fastText's have under NumPy 2: type `make peers`")


def tag_by_fasttext(folder, scores):
    """Do the same with fastText."""
    import fasttext

    def words(text):
        return " ".join(re.findall(r"\b\w\w+\b", text.lower()))

    texts, names = read_corpus(folder / "train.jsonl")
    known = {name: number for number, name in enumerate(sorted({name for row in names for name in row}))}
    times = [time.perf_counter()]
    with tempfile.TemporaryDirectory() as temporary, silence():
        file = Path(temporary, "train.txt")
        with open(file, "w", encoding="utf-8") as stream:
            for text, row in zip(texts, names, strict=True):
                print(*(f"__label__{known[name]}" for name in row), words(text), file=stream)
        times.append(time.perf_counter())
        settings = {"loss": "ova", "lr": 0.5, "epoch": 25, "wordNgrams": 2, "bucket": 200_000, "thread": THREADS}
        model = fasttext.train_supervised(str(file), verbose=0, **settings)
    times.append(time.perf_counter())
    labels, values = model.predict([words(text) for text in read_corpus(folder / "test.jsonl")[0]], k=TOP)
    pairs = (zip(row, own, strict=True) for row, own in zip(labels, values, strict=True))
    # Its probabilities are up to 1.00001.
    rows = [[(int(label[9:]), min(float(p), 1.0)) for label, p in row] for row in pairs]
    require_differences(rows)
    write_scores(scores, rows, len(known))
    times.append(time.perf_counter())
    return {step: end - start for step, start, end in zip(STEPS[1:], times[:-1], times[1:], strict=True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("scores")
    parser.add_argument("--sublinear", action="store_true")
    parser.add_argument("--svm", action="store_true")
    parser.add_argument("--fasttext", action="store_true")
    parser.add_argument("--times", type=Path)
    args = parser.parse_args()
    task = functools.partial(tag, sublinear=args.sublinear)
    if args.svm or args.fasttext:
        task = tag_by_svm if args.svm else tag_by_fasttext
    times = task(args.folder, args.scores)
    if args.times:
        args.times.write_text(json.dumps(times))


if __name__ == "__main__":
    main()
