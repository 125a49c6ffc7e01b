"""EM against the log posterior that it maximises, computed over all N×K labels."""

import numpy as np
import pytest

from tests.grids import each_value
from tests.models.bmlpl.problems import problem, start_inference
from tests.models.bmlpl.reference import log_posterior
from xmlgp.linear_algebra import sparse
from xmlgp.models.bmlpl import activations, counts
from xmlgp.models.bmlpl import inference as module
from xmlgp.runtime import threads
from xmlgp.runtime.errors import SettingsError

INFERENCES = [{"inference": "em"}, *({"inference": "em-cg", "cg_steps": steps} for steps in (1, 5))]
#: N, D, K and T.
SIZES = [(25, 6, 5, 3), (25, 6, 5, 9), (30, 4, 6, 1), (1, 1, 1, 1), (8, 12, 3, 2)]


@pytest.fixture
def constant_shapes(monkeypatch):
    monkeypatch.setattr(module.parameters, "update_shapes", lambda shapes, *rest: shapes)


class Traced:
    """EM of a small problem, and the log posterior at the parameters at which a step computes the objective."""

    def __init__(self, size, seed=0, shapes=None, **chosen):
        N, D, K, T = size
        self.features, self.labels = problem(N, D, K, seed)
        self.em = start_inference(self.features, self.labels, topics=T, concentration=0.3, precision=0.8, **chosen)
        self.features = np.hstack([self.features, np.ones((N, 1))])
        if shapes is not None:
            self.em.shapes[:] = shapes

    def log_posterior(self, topics, weights, activations, shapes):
        model = topics, weights, activations, shapes, self.em.precisions, 0.3
        return log_posterior(self.labels, self.features, *model)

    def step(self, iteration):
        """Make a step; return its objective, and log p(V, W, log U, Y) with the prior e^(−r) of the shapes."""
        # The objective is that of the topics and shapes before the step.
        em = self.em
        topics = self.em.parameters(iteration)["topics"]
        r = self.em.shapes.copy()
        value = em.step(iteration, 0)
        expected = self.log_posterior(topics, em.weights, em.activations, r)
        return value, expected - r.sum()


@each_value(size=SIZES, chosen=INFERENCES)
def test_no_iteration_decreases_the_log_posterior(constant_shapes, size, chosen):
    traced = Traced(size, seed=sum(size), shapes=0.7, **chosen)
    pairs = np.array([traced.step(iteration) for iteration in range(40)])
    for values in pairs.T:
        rises = np.diff(values)
        assert (rises >= -1e-8 * (1 + np.abs(values[1:]))).all()
    assert pairs[-1, 1] > pairs[0, 1]


def test_shapes_do_not_swing_after_their_first_step(monkeypatch):
    traced = Traced((25, 6, 5, 3), inference="em-cg")
    wanted = iter([30.0, 1e-5, 60.0, 1e-5, 60.0])
    monkeypatch.setattr(module.parameters, "update_shapes", lambda shapes, *rest: np.full_like(shapes, next(wanted)))
    shapes = []
    for iteration in range(module.WARM_UP + 5):
        traced.step(iteration)
        shapes.append(traced.em.shapes.copy())
    for value, expected in zip(shapes[module.WARM_UP :], [30, 15, 30, 15, 30], strict=True):
        np.testing.assert_allclose(value, expected)


@each_value(size=SIZES, chosen=[*INFERENCES, {"inference": "em", "learn_precision": True}])
def test_the_objective_is_the_log_posterior_up_to_a_constant(size, chosen):
    traced = Traced(size, seed=sum(size), **chosen)
    pairs = np.array([traced.step(iteration) for iteration in range(module.WARM_UP + module.PRECISIONS_EVERY + 2)])
    assert np.ptp(traced.em.shapes) > 0 or size[-1] == 1
    differences = pairs[:, 1] - pairs[:, 0]
    np.testing.assert_allclose(differences, differences[0], atol=1e-6 * np.abs(pairs).max())


@pytest.mark.parametrize("inference", ["em", "em-cg"])
def test_precisions_are_updated_periodically_from_means_and_samples_of_weights(monkeypatch, inference):
    traced = Traced((25, 6, 5, 3), inference=inference, learn_precision=True)
    draw = np.random.default_rng(3).normal(size=traced.em.weights.shape)
    monkeypatch.setattr(module.least_squares, "cg_sample", lambda *arguments: draw.copy())
    changed = []
    for iteration in range(module.WARM_UP + 2 * module.PRECISIONS_EVERY):
        weights, precisions = (array[:-1].copy() for array in (traced.em.weights, traced.em.precisions))
        traced.step(iteration)
        if (traced.em.precisions[:-1] != precisions).any():
            changed.append(iteration)
            expected = 1 / (draw[:-1] ** 2 + weights**2).mean(axis=1)
            np.testing.assert_allclose(traced.em.precisions[:-1], expected, rtol=1e-12)
    assert changed == [module.WARM_UP, module.WARM_UP + module.PRECISIONS_EVERY]


def test_many_cg_steps_equal_exact_steps(constant_shapes):
    size = (25, 6, 5, 3)
    exact = Traced(size, inference="em")
    steps = Traced(size, inference="em-cg", cg_steps=50)
    for iteration in range(5):
        assert exact.step(iteration)[0] == pytest.approx(steps.step(iteration)[0], rel=1e-9)
    np.testing.assert_allclose(exact.em.weights, steps.em.weights, rtol=1e-4, atol=1e-6)


def test_results_do_not_depend_on_the_number_of_cores(monkeypatch):
    def result():
        em = start_inference(*problem(300), topics=3)
        return *(em.step(iteration, 0) for iteration in range(4)), *em.parameters(4).values()

    expected = result()
    for one in (activations, counts, sparse):
        monkeypatch.setattr(one, "GRAIN", 1)
    monkeypatch.setattr(threads, "_all_cores", lambda: 4)
    for one, other in zip(result(), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_em_refuses_more_features_than_its_limit(monkeypatch):
    monkeypatch.setattr(module, "MOST_FEATURES", 2)
    features = np.eye(4, 3)
    labels = np.ones((4, 2), bool)
    sentence = r"^inference em factorises a matrix of 4 rows [^\n]* at most 2 features; [^\n]*$"
    with pytest.raises(SettingsError, match=sentence):
        start_inference(features, labels, inference="em")
    start_inference(features, labels, inference="em-cg")
