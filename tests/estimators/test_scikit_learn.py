"""scikit-learn's own checks pass, but for those that cannot, and its tools read from the tags what estimators are."""

import copy
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_multilabel_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    get_scorer,
    label_ranking_average_precision_score,
    log_loss,
    make_scorer,
    roc_auc_score,
)
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedKFold,
    check_cv,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from xmlgp.estimators import BMLPLClassifier, GPCClassifier, MLGPFClassifier, TextTagger
from xmlgp.runtime.errors import SettingsError

#: The checks that cannot hold, and why.
MULTI_LABEL = {
    "check_classifiers_train": "predictions of one label are N×1 as its y is, and the check wants N",
    "check_classifiers_classes": "a label has no classes of its own, such as names or −1 and 1, but 0 and 1",
    "check_classifier_multioutput": "classes_ is K×2, from which scorers see labels, and the check indexes classes",
    "check_decision_proba_consistency": "the check gives y in one dimension, whatever the tags say",
    "check_estimator_sparse_array": "the probabilities of one label are N×1, and the check wants those of two classes",
    "check_estimator_sparse_matrix": "the probabilities of one label are N×1, and the check wants those of two classes",
}
TAGGER = {
    "check_estimators_empty_data_messages": "without a feature there is a sentence of ours, as for texts without words",
    "check_estimator_sparse_array": "the check takes what has predict_proba for a classifier, of one class a point",
    "check_estimator_sparse_matrix": "the check takes what has predict_proba for a classifier, of one class a point",
}


class TaggerOfNumbers(TextTagger):
    """A tagger whose labels are numbers, one for each point, which the checks give where a tagger takes names."""

    def fit(self, X, y):
        return super().fit(X, names_of(y))

    def predict(self, X):
        return np.array([[name in names for name in self.classes_] for names in super().predict(X)])

    def score(self, X, y):
        tagger = copy.copy(self)
        tagger.__class__ = TextTagger
        return tagger.score(X, names_of(y))


def names_of(y):
    return y if y is None else [[str(value)] for value in np.ravel(y)]


CHECKED = {
    GPCClassifier(inducing_count=10, iterations=5): {},
    MLGPFClassifier(factors=2, epochs=2, inducing_count=10): MULTI_LABEL,
    BMLPLClassifier(topics=2, iterations=2): MULTI_LABEL,
    TaggerOfNumbers(BMLPLClassifier(topics=2, iterations=2)): TAGGER,
}


def expected_failures(estimator):
    return next(expected for checked, expected in CHECKED.items() if type(checked) is type(estimator))


@pytest.mark.filterwarnings("ignore:no label is 0")
@parametrize_with_checks(list(CHECKED), expected_failed_checks=expected_failures)
def test_the_checks_of_scikit_learn(estimator, check):
    try:
        check(estimator)
    except SkipTest as error:
        # Other arrays than those of NumPy are not taken; all other checks must run.
        if "SCIPY_ARRAY_API" not in str(error):
            raise


X, Y = make_multilabel_classification(n_samples=60, n_features=20, n_classes=4, random_state=0)
CLASSIFIERS = [MLGPFClassifier(factors=2, epochs=3), BMLPLClassifier(topics=2, iterations=3)]
GPC = GPCClassifier(inducing_count=10, iterations=3)

any_classifier = pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)


@any_classifier
def test_tags_say_several_labels_and_sparse_matrices(model):
    tags = get_tags(model)
    assert (tags.estimator_type, tags.classifier_tags.multi_label) == ("classifier", True)
    assert not tags.classifier_tags.multi_class
    target = tags.target_tags
    assert (target.two_d_labels, target.multi_output, target.single_output) == (True, True, False)
    assert get_tags(make_pipeline(TfidfVectorizer(), model)).target_tags.multi_output
    assert tags.input_tags.sparse


@any_classifier
@pytest.mark.parametrize("K", [4, 2, 1])
def test_splitters_and_scorers_take_labels_as_columns(model, K):
    labels = Y[:, :K]
    # A column of 0 and 1 can be stratified.
    splitter = check_cv(2, labels, classifier=is_classifier(model))
    assert type(splitter) is (KFold if K > 1 else StratifiedKFold)
    folds = list(splitter.split(X, labels))
    probabilities_of_folds = cross_val_predict(model, X, labels, cv=2, method="predict_proba")
    decided = cross_val_predict(model, X, labels, cv=2, method="decision_function")
    expected = {name: [] for name in ("f1_micro", "average_precision", "roc_auc", "neg_log_loss", "ranking")}
    for train, test in folds:
        fitted = clone(model).fit(X[train], labels[train])
        probabilities = fitted.predict_proba(X[test])
        np.testing.assert_array_equal(probabilities_of_folds[test], probabilities)
        np.testing.assert_array_equal(decided[test], fitted.decision_function(X[test]))
        true = labels[test]
        expected["f1_micro"].append(f1_score(true, fitted.predict(X[test]), average="micro"))
        expected["average_precision"].append(average_precision_score(true, fitted.decision_function(X[test])))
        expected["roc_auc"].append(roc_auc_score(true, fitted.decision_function(X[test])))
        if K > 1:
            expected["ranking"].append(label_ranking_average_precision_score(true, probabilities))
        else:
            expected["neg_log_loss"].append(-log_loss(true, probabilities))
    ranking = make_scorer(label_ranking_average_precision_score, response_method="predict_proba")
    for name, values in expected.items():
        if values:
            scoring = ranking if name == "ranking" else name
            scores = cross_val_score(model, X, labels, cv=2, scoring=scoring, error_score="raise")
            np.testing.assert_allclose(scores, values)


@any_classifier
def test_searches_and_curves_take_several_labels(model):
    parameter = "factors" if isinstance(model, MLGPFClassifier) else "topics"
    scoring = {"f1": "f1_micro", "rank": "average_precision"}
    common = {"cv": 2, "scoring": scoring, "refit": "rank", "error_score": "raise"}
    search = GridSearchCV(model, {parameter: [1, 2]}, **common).fit(X, Y)
    models = [clone(model).set_params(**{parameter: count}) for count in (1, 2)]
    values = [cross_val_score(candidate, X, Y, cv=2, scoring="f1_micro") for candidate in models]
    np.testing.assert_allclose(search.cv_results_["mean_test_f1"], np.mean(values, axis=1))
    best = search.best_estimator_
    assert search.score(X, Y) == get_scorer("average_precision")(best, X, Y)
    random = RandomizedSearchCV(model, {parameter: [1, 2]}, n_iter=2, random_state=0, **common).fit(X, Y)
    assert random.best_params_ == search.best_params_
    sizes, _, scores = learning_curve(model, X, Y, cv=2, train_sizes=[0.5, 1.0], error_score="raise")
    assert (sizes.tolist(), scores.shape) == ([15, 30], (2, 2))


def test_wrappers_of_one_output_take_the_estimator_of_two_classes():
    columns = [clone(GPC).fit(X, y) for y in Y.T]
    expected = np.stack([model.predict_proba(X)[:, 1] for model in columns], axis=1)
    each = MultiOutputClassifier(GPC).fit(X, Y)
    np.testing.assert_array_equal(np.stack(each.predict_proba(X))[:, :, 1].T, expected)
    np.testing.assert_array_equal(each.predict(X), expected > 0.5)
    np.testing.assert_array_equal(OneVsRestClassifier(GPC).fit(X, Y).predict_proba(X), expected)
    chain = ClassifierChain(GPC).fit(X, Y)
    with_first = np.c_[X, Y[:, 0]]
    second = clone(GPC).fit(with_first, Y[:, 1]).predict_proba(with_first)
    np.testing.assert_array_equal(chain.estimators_[1].predict_proba(with_first), second)
    np.testing.assert_array_equal(chain.predict_proba(X)[:, 0], expected[:, 0])
    calibrated = CalibratedClassifierCV(GPC, cv=2).fit(X, Y[:, 0])
    folds = StratifiedKFold(2).split(X, Y[:, 0])
    for (train, _), calibrated_fold in zip(folds, calibrated.calibrated_classifiers_, strict=True):
        fitted = clone(GPC).fit(X[train], Y[train, 0])
        np.testing.assert_array_equal(calibrated_fold.estimator.decision_function(X), fitted.decision_function(X))
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)


@any_classifier
@pytest.mark.parametrize("wrapper", [MultiOutputClassifier, ClassifierChain, OneVsRestClassifier])
def test_wrappers_of_one_output_around_several_labels_are_refused(model, wrapper):
    with pytest.raises(SettingsError, match="^Unknown label type: y must have a column .* a GPCClassifier one value"):
        wrapper(model).fit(X, Y)
    np.testing.assert_array_equal(clone(model).fit(X, Y[:, :1]).predict(X).shape, (60, 1))


@pytest.mark.filterwarnings("ignore:X has feature names")
@any_classifier
def test_score_reads_y_as_fit_does_and_all_methods_say_where_texts_go(model):
    fitted = clone(model).fit(X, Y)
    expected = (fitted.predict(X) == Y).all(axis=1).mean()
    for y in Y, Y * 2, sp.csr_array(Y), pd.DataFrame(Y), Y.tolist(), Y > 0:
        assert fitted.score(X, y) == expected
    weights = np.arange(60)
    right = (fitted.predict(X) == Y).all(axis=1)
    assert fitted.score(X, Y, sample_weight=weights) == pytest.approx(np.average(right, weights=weights))
    for y, message in [
        (Y[:, :2], "y has 2 labels, but the model was trained on 4"),
        (Y[:, 0], "Unknown label type: y must have a column"),
        ([["a"]] * 60, "a table must have numbers"),
        (Y[:9], "there are 60 points, but the labels of 9 points"),
    ]:
        with pytest.raises(SettingsError, match=f"^{message}"):
            fitted.score(X, y)
    texts = pd.DataFrame({"text": ["a dog"] * 60})
    gpc = clone(GPC).fit(X, Y[:, 0])
    for call in fitted.predict, fitted.predict_proba, fitted.decision_function, gpc.predict:
        for points in "a dog", ["a dog"], texts:
            with pytest.raises(SettingsError, match="^X has text; give texts to a TextTagger, or turn them into num"):
                call(points)
    with pytest.raises(SettingsError, match="^X has text; give texts to a TextTagger"):
        clone(GPC).fit(texts, Y[:, 0])


@any_classifier
def test_values_that_are_no_labels_are_refused_with_what_is_right(model):
    for y, message, right in [
        (Y * 0.5, "Unknown label type: labels are 0.5; 1 says .*; give `labels > 0`", Y * 0.5 > 0),
        (sp.csr_array(Y * 0.5), "Unknown label type: labels are 0.5; ", sp.csr_array(Y * 0.5) > 0),
        (np.arange(60) % 3, r".*pd.get_dummies\(y\) for classes", pd.get_dummies(np.arange(60) % 3)),
        (np.arange(60) % 2, r".*np.reshape\(y, \(-1, 1\)\)", np.reshape(np.arange(60) % 2, (-1, 1))),
        (Y.astype(str), "a table must have numbers", np.array(Y.astype(str)).astype(int)),
        ([[1], []] * 30, "Unknown label type: .*a TextTagger takes lists", None),
        (np.linspace(0, 1, 60), "Unknown label type: y must have a column", None),
        (np.arange(60)[:, None] % 3, "Unknown label type: labels are 1, 2; 1 says", None),
        (sp.csr_array(Y * np.arange(4)), "Unknown label type: labels are 1, 2, 3; 1 says", None),
        (Y + np.arange(4), "Unknown label type: labels are 1, 2, 3; 1 says", None),
    ]:
        with pytest.raises(SettingsError, match=f"^{message}"):
            clone(model).fit(X, y)
        if right is not None:
            assert clone(model).fit(X, right).predict(X).shape == right.shape
    # Two numbers are marks, as scikit-learn takes them.
    np.testing.assert_array_equal(clone(model).fit(X, 3 * Y).predict(X), clone(model).fit(X, Y).predict(X))
    with pytest.warns(UserWarning, match="^no label is 0, so all points have all labels"):
        assert clone(model).fit(X, Y + 1).model_.data["K"] == 4


TEXTS, LABELS = ["a dog", "a cat", "a cow", "a dog and a cat"] * 5, [["dog"], ["cat"], ["cow"], ["dog", "cat"]] * 5


def test_a_tagger_of_features_has_their_number():
    tagger = TextTagger(BMLPLClassifier(topics=2, iterations=2))
    names = [[str(name) for name in np.flatnonzero(row)] for row in Y]
    assert tagger.fit(X, names).n_features_in_ == 20
    for call in tagger.predict, tagger.suggest, tagger.predict_proba:
        with pytest.raises(SettingsError, match="^X has 3 features, but TextTagger is expecting 20 features as input$"):
            call(X[:, :3])
    assert not hasattr(tagger.fit(TEXTS, LABELS), "n_features_in_")
    with pytest.raises(ValueError, match="^TextTagger requires y to be passed, but the target y is None$"):
        tagger.fit(TEXTS, None)
