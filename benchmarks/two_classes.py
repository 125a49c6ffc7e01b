"""Accuracy and time of gpc on binary data, compared with classifiers of scikit-learn.

    python benchmarks/two_classes.py DATA ... [--inference vi-taylor ...] [--json FILE]

DATA is a libsvm file or a folder with one; without test points a random fifth of the points is held out, the same for
all classifiers. The table has accuracy in percent, log loss in nats, the area under the ROC curve, and seconds of
training from features in memory: standardised for all, with preprocessing for gpc, and on all cores where a classifier
has this option. `SVC` has no probabilities itself; Platt's method on three folds adds them, and its time counts.
"""

import time

import click
import harness
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from xmlgp.data.formats import read_dataset
from xmlgp.data.locate import locate
from xmlgp.errors import XmlgpError
from xmlgp.estimators import GPCClassifier

#: Share of the points that become test points if a data set has none.
TEST_SHARE = 0.2

#: Largest number of points for SVC, whose time grows with its square.
SVC_POINTS = 50_000

PEERS = {
    "LogisticRegression": lambda: LogisticRegression(max_iter=1000),
    "HistGradientBoosting": lambda: HistGradientBoostingClassifier(random_state=0),
    "SVC (RBF)": lambda: CalibratedClassifierCV(SVC(), cv=3, ensemble=False, n_jobs=-1),
}


def read(data):
    """Return features and labels of training points and of test points."""
    train, _ = read_dataset(locate(data, "train"), cache=False)
    try:
        test, _ = read_dataset(locate(data, "test"), cache=False)
    except XmlgpError:
        test = None
    if test is None or locate(data, "test") == locate(data, "train"):
        order = np.random.default_rng(0).permutation(train.N)
        count = round(TEST_SHARE * train.N)
        test, train = train.rows(order[:count]), train.rows(order[count:])
    return [array for part in (train, test) for array in (part.features.sparse.toarray(), part.labels.toarray()[:, 0])]


def measure(data, inferences):
    """Print and return the measures of every classifier."""
    X, y, X_test, y_test = read(data)
    print(f"{data}: {len(X)} training points, {len(X_test)} test points, {X.shape[1]} features")
    table = harness.Table("", "accuracy", "log loss", "AUC", "seconds")
    kinds = {f"gpc {name}": lambda name=name: GPCClassifier(inference=name) for name in inferences}
    kinds |= {name: lambda make=make: make_pipeline(StandardScaler(), make()) for name, make in PEERS.items()}
    found = {}
    for name, make in kinds.items():
        if "SVC" in name and len(X) > SVC_POINTS:
            continue
        start = time.perf_counter()
        model = make().fit(X, y)
        seconds = time.perf_counter() - start
        probability = model.predict_proba(X_test)[:, 1]
        measures = {
            "accuracy": 100 * accuracy_score(y_test, probability > 0.5),
            "log_loss": log_loss(y_test, probability),
            "AUC": roc_auc_score(y_test, probability),
            "seconds": seconds,
        }
        table.row(name, *measures.values())
        found[name] = measures
    return found


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("data", nargs=-1, required=True)
@click.option("--inference", "inferences", multiple=True, default=["vi-taylor", "vi-jj-hybrid"], show_default=True)
@harness.json_option
def main(data, inferences, as_json):
    # Compile and load before measuring.
    random = np.random.default_rng(0)
    for name in inferences:
        GPCClassifier(inference=name, inducing_count=5, iterations=1).fit(
            random.normal(size=(40, 3)), np.arange(40) % 2
        )
    harness.write_json(as_json, {name: measure(name, inferences) for name in data})


if __name__ == "__main__":
    main()
