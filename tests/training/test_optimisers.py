"""Adam, AdaGrad and AdaDelta against scalar versions of the algorithms in their papers."""

import math

import numpy as np
import pytest

from tests.grids import each_value
from xmlgp.gp.parameters import IndexedRows
from xmlgp.models.mlgpf.settings import MLGPFSettings
from xmlgp.training.optimisers import BLOCK, LEAST_UNIT, OPTIMISERS


def adam(start, gradients, rates):
    """Algorithm 1 of Kingma and Ba 2015, for maximisation."""
    x, m, v = start, 0.0, 0.0
    for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        x += rate * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return x


def adadelta(start, gradients, rates):
    """Algorithm 1 of Zeiler 2012, for maximisation, with each step multiplied by a rate."""
    x, square, change = start, 0.0, 0.0
    for g, rate in zip(gradients, rates, strict=True):
        square = 0.95 * square + 0.05 * g * g
        move = math.sqrt(change + 1e-6) / math.sqrt(square + 1e-6) * g
        change = 0.95 * change + 0.05 * move * move
        x += rate * move
    return x


def adagrad(start, gradients, rates):
    """The diagonal update of Duchi, Hazan and Singer 2011, for maximisation."""
    x, square = start, 0.0
    for g, rate in zip(gradients, rates, strict=True):
        square += g * g
        x += rate * g / (math.sqrt(square) + 1e-8)
    return x


PAPERS = pytest.mark.parametrize(("name", "paper"), [("adam", adam), ("adagrad", adagrad), ("adadelta", adadelta)])


def gradients_and_rates(shape, steps=7):
    """Return gradients of very different magnitudes, some of them zero, and a rate for each step."""
    random = np.random.default_rng(0)
    gradients = random.normal(size=(steps, *shape)) * 10.0 ** random.uniform(-6, 3, shape)
    gradients[random.random(gradients.shape) < 0.2] = 0
    return gradients, random.uniform(0.001, 0.5, steps)


def run(optimiser, value, gradients, rates):
    for gradient, rate in zip(gradients, rates, strict=True):
        optimiser.step({"x": value}, {"x": gradient}, rate)
    return value


@PAPERS
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (2, 3, 2), (0,)])
def test_steps_agree_with_the_paper(name, paper, shape):
    gradients, rates = gradients_and_rates(shape)
    start = np.random.default_rng(1).normal(size=shape)
    value = run(OPTIMISERS[name]({"x": start}), np.array(start), gradients, rates)
    expected = [paper(start[index], gradients[(slice(None), *index)], rates) for index in np.ndindex(shape)]
    np.testing.assert_allclose(value.ravel(), expected, rtol=1e-10)


@pytest.mark.parametrize(("name", "paper"), [("adam", adam), ("adagrad", adagrad)])
@pytest.mark.parametrize("scale", [1e-2, 1e2])
def test_relative_steps_scale_with_the_parameter(name, paper, scale):
    """A parameter in other units makes the same steps in these units; its gradient has the inverse ones."""
    # Not so small that the epsilon of the algorithms matters.
    gradients = np.random.default_rng(0).uniform(0.5, 2, (7, 3, 4))
    rates = np.linspace(0.5, 0.001, 7)
    start = np.random.default_rng(1).normal(size=(3, 4))
    expected = run(OPTIMISERS[name]({"x": start}, {"x"}), start.copy(), gradients, rates)
    scaled = run(OPTIMISERS[name]({"x": start}, {"x"}), scale * start, gradients / scale, rates)
    np.testing.assert_allclose(scaled, scale * expected, rtol=1e-5)

    value = run(OPTIMISERS[name]({"x": start}, {"x"}), start.copy(), gradients[:1], rates[:1])
    unit = np.sqrt(np.mean(start**2))
    steps = [paper(0.0, [gradients[0][index]], [rates[0] * unit]) for index in np.ndindex(3, 4)]
    np.testing.assert_allclose((value - start).ravel(), steps, rtol=1e-10)


def test_a_relative_parameter_that_is_zero_moves():
    value = run(OPTIMISERS["adam"]({"x": np.zeros(2)}, {"x"}), np.zeros(2), [np.ones(2)], [0.5])
    np.testing.assert_allclose(value, 0.5 * LEAST_UNIT, rtol=1e-6)


def test_relative_steps_of_adadelta_are_those_of_the_paper():
    gradients, rates = gradients_and_rates((3,))
    value = run(OPTIMISERS["adadelta"]({"x": np.ones(3)}, {"x"}), np.full(3, 7.0), gradients, rates)
    expected = [adadelta(7.0, gradients[:, i], rates) for i in range(3)]
    np.testing.assert_allclose(value, expected, rtol=1e-10)


@PAPERS
def test_the_last_element_of_a_large_array_is_updated(name, paper):
    value = np.zeros((4 * BLOCK + 1,), np.float32)
    run(OPTIMISERS[name]({"x": value}), value, [np.ones_like(value)], [0.5])
    np.testing.assert_allclose(value, paper(0.0, [1.0], [0.5]), rtol=1e-5)


@PAPERS
@pytest.mark.parametrize("shape", [(6,), (6, 3)])
def test_a_sparse_gradient_updates_only_its_rows_and_their_statistics(name, paper, shape):
    gradients, rates = gradients_and_rates(shape)
    used = [np.array(rows) for rows in ([0, 2, 5], [2], [], [0, 1, 2, 3, 5], [1, 5], [0], [3, 5])]
    start = np.random.default_rng(1).normal(size=shape)
    value, optimiser = start.copy(), OPTIMISERS[name]({"x": start})
    expected = start.copy()
    reference = OPTIMISERS[name]({"x": expected})
    for rows, gradient, rate in zip(used, gradients, rates, strict=True):
        rows = rows.astype(int)
        optimiser.step({"x": value}, {"x": IndexedRows(rows, gradient[rows])}, rate)
        # The reference makes a full step and undoes it for rows without a gradient.
        before = expected.copy(), {key: state.copy() for key, state in reference.state.items()}
        reference.step({"x": expected}, {"x": gradient}, rate)
        unused = np.setdiff1d(np.arange(6), rows)
        expected[unused] = before[0][unused]
        for key, state in reference.state.items():
            state[unused] = before[1][key][unused]
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        for key, state in reference.state.items():
            np.testing.assert_allclose(optimiser.state[key], state, rtol=1e-12)
    assert (value[4] == start[4]).all()
    assert (value[[0, 1, 2, 3, 5]] != start[[0, 1, 2, 3, 5]]).any()


@PAPERS
@each_value(dtype=[np.float32, np.float64], gradient_dtype=[np.float32, np.float64])
def test_arrays_are_updated_in_place_and_keep_their_dtype(name, paper, dtype, gradient_dtype):
    parameters = {"x": np.ones((3, 2), dtype), "scalar": np.array(2.0, dtype), "stays": np.ones(2, dtype)}
    arrays = dict(parameters)
    optimiser = OPTIMISERS[name](parameters)
    gradients = {"x": np.arange(6.0).reshape(2, 3).T.astype(gradient_dtype), "scalar": np.array(1.0, gradient_dtype)}
    before = {key: gradient.copy() for key, gradient in gradients.items()}
    optimiser.step(parameters, gradients, 0.1)
    for key, array in arrays.items():
        assert parameters[key] is array
        assert array.dtype == dtype
    np.testing.assert_equal(gradients, before)
    assert arrays["scalar"] > 2
    # Without a gradient.
    assert (arrays["stays"] == 1).all()
    # Gradients and parameters in Fortran order are matched by element.
    expected = [paper(1.0, [g], [0.1]) for g in before["x"].astype(float).ravel()]
    np.testing.assert_allclose(parameters["x"].ravel(), expected, rtol=1e-6)
    fortran = np.ones((3, 2), dtype, order="F")
    OPTIMISERS[name]({"x": fortran}).step({"x": fortran}, {"x": before["x"]}, 0.1)
    np.testing.assert_allclose(fortran.ravel(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_gradients_whose_squares_overflow_still_move_parameters(name):
    parameters = {"a": np.zeros(4, np.float32)}
    optimiser = OPTIMISERS[name](parameters)
    for _ in range(3):
        optimiser.step(parameters, {"a": np.array([3e38, -3e38, 1, np.nan], np.float32)}, 0.1)
    assert parameters["a"][0] > 0 > parameters["a"][1]
    assert np.isfinite(parameters["a"][:3]).all()
    assert np.isnan(parameters["a"][3])
    assert all(np.isfinite(state[:3]).all() for state in optimiser.state.values())


def test_settings_describe_the_default_learning_rates():
    described = MLGPFSettings.__dataclass_fields__["learning_rate"].metadata["if_unset"]
    for name, optimiser in OPTIMISERS.items():
        assert f"{optimiser.default_rate:g} with {name}" in described
