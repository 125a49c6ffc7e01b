"""What other tools read and give, for tests that run in another environment.

`python worker.py FUNCTION OUT ARGUMENT ...` calls a function here. The arrays that it returns go to OUT, an .npz file.
Nothing here imports xmlgp.
"""

import io
import sys
import tempfile

import numpy as np
from scipy.sparse import csr_matrix, load_npz

#: Labels that each tool lists for a point, and those that measures take.
LISTED = 20
TOP = 5


def sizes(file):
    """Return N, D and K in the first line of a file."""
    with open(file, "rb") as stream:
        return tuple(map(int, stream.readline().split()))


def indicators(rows, K):
    """Return the labels of each point as a CSR matrix, N×K."""
    points = [point for point, labels in enumerate(rows) for _ in labels]
    labels = [int(label) for labels in rows for label in labels]
    return csr_matrix((np.ones(len(labels), np.float32), (points, labels)), shape=(len(rows), K))


def features_of(X):
    """Return the numbers and values of the features of each point, as lists of pairs."""
    pairs = zip(np.split(X.indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1]), strict=True)
    return [list(zip(indices.tolist(), values.tolist(), strict=True)) for indices, values in pairs]


def read(file):
    """Return the X and Y that scikit-learn reads behind the first line."""
    from sklearn.datasets import load_svmlight_file

    _, D, K = sizes(file)
    with open(file, "rb") as stream:
        stream.readline()
        X, labels = load_svmlight_file(stream, n_features=D, dtype=np.float32, multilabel=True, zero_based=True)
    return X, indicators(labels, K)


def read_with_sklearn(file):
    X, Y = read(file)
    return {"X": X.toarray(), "Y": Y.toarray()}


def read_with_napkinxc(file):
    from napkinxc.datasets import load_libsvm_file

    X, Y = load_libsvm_file(file, labels_format="csr_matrix")
    lists = load_libsvm_file(file, labels_format="list")[1]
    return {"X": X.toarray(), "Y": Y.toarray(), "listed": indicators(lists, Y.shape[1]).toarray()}


def read_with_pecos(features, labels):
    from pecos.utils.smat_util import load_matrix

    X, Y = load_matrix(features), load_matrix(labels)
    return {"X": X.toarray(), "Y": Y.toarray(), "classes": [type(X).__name__, type(Y).__name__]}


def write_with_sklearn(file, features, labels):
    """Write points in .npz files in the repository's format by scikit-learn, in lines that omikuji takes."""
    from sklearn.datasets import dump_svmlight_file

    X, Y = load_npz(features), load_npz(labels)
    lines = io.BytesIO()
    dump_svmlight_file(X, Y.astype(float), lines, multilabel=True)
    with open(file, "wb") as stream:
        stream.write(b"%d %d %d\n" % (*X.shape, Y.shape[1]))
        # Lines of points without features end with a blank.
        stream.writelines(line.rstrip() + b"\n" for line in lines.getvalue().splitlines())
    return {}


def refused_by_omikuji(*files):
    """Return whether omikuji refuses each of several files."""
    import omikuji

    refused = []
    for file in files:
        try:
            omikuji.Model.train_on_data(file, n_threads=1)
            refused.append(False)
        except RuntimeError:
            refused.append(True)
    return {"refused": refused}


def learned_by_omikuji(features, *files):
    """Return D of a forest that is trained on each of several files, and its scores of the same points, N×K.

    The tree has one level, no weight is pruned, and the linear models converge, so that chance changes no score by
    more than about 1e-6. A label that is in no tree has the score -1.
    """
    import omikuji

    settings = omikuji.Model.default_hyper_param()
    settings.n_trees = 1
    settings.min_branch_size = 1000
    settings.linear_weight_threshold = 0
    settings.linear_eps = 1e-6
    settings.linear_max_iter = 1000
    points = features_of(load_npz(features))
    models = [omikuji.Model.train_on_data(file, settings, n_threads=1) for file in files]
    scores = np.full((len(files), len(points), sizes(files[0])[2]), -1.0)
    for model, of_model in zip(models, scores, strict=True):
        for point, row in zip(points, of_model, strict=True):
            for label, score in model.predict(point, beam_size=1000, top_k=1000):
                row[label] = score
    return {"D": [model.n_features for model in models], "scores": scores}


def measures_of_napkinxc(true, predicted, train):
    """Return the measures @1 to @5 of rankings or of a matrix, by the propensities of the training labels."""
    from napkinxc import metrics

    # Of counts in single precision the propensities would be, too.
    weights = metrics.Jain_et_al_inverse_propensity(train.astype(float))
    return {
        "P": metrics.precision_at_k(true, predicted, k=TOP),
        "nDCG": metrics.ndcg_at_k(true, predicted, k=TOP),
        "PSP": metrics.psprecision_at_k(true, predicted, weights, k=TOP),
        "PSnDCG": metrics.psdcg_at_k(true, predicted, weights, k=TOP),
        "recall": metrics.recall_at_k(true, predicted, k=TOP),
        "PSnDCG by point": metrics.psndcg_at_k(true, predicted, weights, k=TOP),
    }


def differences_of_napkinxc():
    """Return measures of a few points where napkinXC differs from xmlgp by the table of the page on evaluation."""
    from napkinxc import metrics

    train, K = [[0], [0, 1], [1], [0]], 4
    true, listed = [[0, 3], [1]], [[0, 1], [1, 0]]
    weights = [metrics.Jain_et_al_inverse_propensity(rows) for rows in (train, indicators(train, K).astype(float))]
    equal = np.full((1, 18), 0.5)
    equal[0, 17] = 0.9
    ranked = [equal[0], np.arange(18) == 1]
    return {
        "weights of lists": weights[0],
        "weights": weights[1],
        "PSP of lists": metrics.psprecision_at_k(true, listed, weights[0], k=2),
        "PSP": metrics.psprecision_at_k(true, listed, weights[1], k=2),
        "equal": equal,
        "P of equal": metrics.precision_at_k(ranked[1][np.newaxis].astype(float), equal, k=3),
        "macro-recall": metrics.macro_recall_at_k([[0], [1], [1, 3]], [[0, 1, 2], [2, 1, 0], [0, 2, 1]], k=1),
    }


def differences_of_fasttext():
    """Return N, P and recall @1 and @5 of four lines with labels of the training file and two without."""
    import fasttext

    train = "__label__a cat purr meow\n__label__b dog bark wolf\n__label__c bird sing fly\n" * 50
    test = "__label__a cat purr\n__label__b dog bark\ncat meow\n__label__z dog\n__label__a __label__z cat meow\n"
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("train", train), ("test", test + "__label__a __label__b cat dog\n")):
            with open(f"{folder}/{name}", "w", encoding="utf-8") as stream:
                stream.write(text)
        model = fasttext.train_supervised(f"{folder}/train", loss="ova", epoch=50, lr=0.5, thread=1, verbose=0)
        return {"measures": [model.test(f"{folder}/test", k) for k in (1, 5)]}


def score_with_napkinxc(train, test, scores):
    """Write the probabilities of a label tree as lines of `label:probability`."""
    from napkinxc.models import PLT

    X, Y = read(train)
    X_test, Y_test = read(test)
    with tempfile.TemporaryDirectory() as folder:
        model = PLT(folder, seed=0, threads=1)
        model.fit(X, Y)
        predicted = model.predict_proba(X_test, top_k=LISTED)
    with open(scores, "w") as stream:
        for row in predicted:
            print(" ".join(f"{label}:{score:.9g}" for label, score in row), file=stream)
    return measures_of_napkinxc(Y_test, predicted, Y)


def score_with_omikuji(train, test, scores, rounded):
    """Write the scores of a forest as lines of `label score`, in full and as its command does, with three decimals.

    Return the measures of both by napkinXC.
    """
    import omikuji

    _, Y = read(train)
    X_test, Y_test = read(test)
    model = omikuji.Model.train_on_data(train, n_threads=1)
    predicted = [model.predict(row, beam_size=Y.shape[1], top_k=LISTED) for row in features_of(X_test)]
    measured = []
    for file, decimals in (scores, 9), (rounded, 3):
        with open(file, "w") as stream:
            for row in predicted:
                print("\t".join(f"{label} {score:.{decimals}f}" for label, score in row), file=stream)
        # As in xmlgp the lower label is first among equal scores.
        written = ([(label, round(score, decimals)) for label, score in sorted(row)] for row in predicted)
        ranked = [sorted(row, key=lambda pair: -pair[1]) for row in written]
        measured.append(measures_of_napkinxc(Y_test, ranked, Y))
    return {name: [values[name] for values in measured] for name in measured[0]}


def score_with_pecos(train, test, scores):
    """Save the scores of a tree of linear models, a sparse matrix."""
    from pecos.utils.smat_util import Metrics, save_matrix
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    X, Y = read(train)
    X_test, Y_test = read(test)
    clusters = Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"))
    predicted = XLinearModel.train(X, Y, clusters, threads=1).predict(X_test, only_topk=LISTED, threads=1)
    save_matrix(scores, predicted)
    measured = Metrics.generate(Y_test, predicted, topk=TOP)
    return {"P": measured.prec, "recall": measured.recall}


def score_with_sklearn(train, test, scores):
    """Save the probabilities of a classifier of each label, a dense array."""
    from sklearn.linear_model import SGDClassifier
    from sklearn.metrics import ndcg_score, precision_score
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import normalize

    X, Y = read(train)
    X_test, Y_test = read(test)
    model = OneVsRestClassifier(SGDClassifier(loss="log_loss", max_iter=3, tol=None, random_state=0))
    predicted = model.fit(normalize(X), Y).predict_proba(normalize(X_test))
    np.save(scores, predicted)
    true = Y_test.toarray()
    measured = {"P": [], "nDCG": []}
    for k in range(1, TOP + 1):
        chosen = np.zeros(true.shape)
        np.put_along_axis(chosen, np.argsort(-predicted, axis=1, kind="stable")[:, :k], 1, axis=1)
        measured["P"].append(precision_score(true, chosen, average="samples", zero_division=0))
        measured["nDCG"].append(ndcg_score(true, predicted, k=k, ignore_ties=True))
    return measured


if __name__ == "__main__":
    name, out, *arguments = sys.argv[1:]
    np.savez(out, **globals()[name](*arguments))
