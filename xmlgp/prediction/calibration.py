"""Calibration of the probabilities of a point's labels, given their ranks.

The model treats the labels of a point as independent. Labels compete for a point, though, and the few highest of many
probabilities are those that are most often too high. A calibrated probability p′ therefore depends on the probability p
and on its rank r among the labels of the point, 1 for the highest:

    log p′/(1 − p′) = a log p − b log(1 − p) + c + d log r + e [r = 1]    for r ≤ R = `RANKS`,

with a, b > 0, d ≤ 0 and e ≥ 0. Beyond rank R, p′ = p p′_R/p_R with the probabilities of rank R of the same point: the
sum of many small probabilities would not be that of any map fitted to large ones. Along the ranks of a point p falls,
and so does p′: the order stays, except that probabilities that single precision does not tell from 1 become equal. With
d = 0 and e = 0 the map is that of beta calibration. With a = b = 1 and c = d = e = 0 it changes nothing.

The term e is there because on some data the first label of a point comes true more often than others of the same
probability do, which are then all alike. A term in log r would also lower the fourth against the second.

Source: M. Kull, T. Silva Filho, P. Flach, Beta calibration, AISTATS 2017, for d = e = 0; D. P. Bertsekas, Projected
Newton methods for optimization problems with simple constraints, SIAM J. Control Optim. 20, 1982, for the fit.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xmlgp.linear_algebra.array_groups import Array, ArrayGroup
from xmlgp.linear_algebra.logistic import expit

__all__ = ["CALIBRATION", "MISSING", "RANKS", "Calibration", "Expansion", "fit_calibration", "minimum"]

#: R: labels of each point that the map is fitted to, those of highest probability.
RANKS = 50

#: In place of the probability of a rank that a point lacks: a number, so that checkpoints with it are finite.
MISSING = -1.0

#: Ranks that count fully in the fit, those that users see.
FIRST_RANKS = 5

#: The weight of further ranks in the fit. No map of this form is right for all ranks, and the many small probabilities
#: beyond the first ranks would decide it: with 0.4, the ECE of the first five is up to 0.003 larger. With the
#: weight 0 the log loss can be worse than without a map.
OTHER_WEIGHT = 0.1

#: Bounds of a, b, c, d and e. They keep the map increasing where the data are few, and falling with the rank.
BOUNDS = ((0.05, 20.0), (0.05, 20.0), (-20.0, 20.0), (-5.0, 0.0), (0.0, 5.0))

#: Coefficients of the map that changes nothing, the mean of their prior.
IDENTITY = np.array([1.0, 1.0, 0.0, 0.0, 0.0])

#: Precision of the prior. With hundreds of points it hardly matters; with ten it keeps probabilities from zero and one.
PRECISION = 4.0

#: Most Newton steps of the fit, which takes about ten, and most halvings of a step.
NEWTON_STEPS = 100
HALVINGS = 30

#: The fit ends when a step would lower the loss by less than this, relative to the loss.
CHANGE = 1e-10

#: The least decrease of the loss in a step, relative to the decrease of its linear expansion.
SUFFICIENT = 1e-4

#: A value, its gradient and its Hessian.
Expansion: TypeAlias = tuple[float, NDArray[np.float64], NDArray[np.float64]]

#: Smallest distance of probabilities from 1, and in the fit also from 0: that of the next single precision number
#: from 1.
CLOSEST = 2.0**-24

#: Smallest probability that the map tells from 0. With `CLOSEST`, labels below it would become equal, and be written in
#: another order.
SMALLEST = float(np.finfo(np.float32).tiny)


def _are_coefficients(values: NDArray[np.float64], sizes: dict[str, int]) -> bool:
    """Return whether numbers can be the coefficients of a map."""
    low, high = np.transpose(BOUNDS)
    return bool(np.all((low <= values) & (values <= high)))


#: The coefficients of the map in a model.
CALIBRATION = ArrayGroup(calibration=Array(str(len(BOUNDS)), np.float64, _are_coefficients))


class Calibration:
    """The map from probabilities and ranks to calibrated probabilities, by its coefficients a, b, c, d and e."""

    def __init__(self, coefficients: ArrayLike) -> None:
        self.coefficients = np.asarray(coefficients, np.float64)

    def __call__(self, probabilities: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return calibrated probabilities, B×k, given those of the k best labels in descending order, B×k."""
        calibrated, _ = self._with_derivatives(probabilities)
        return calibrated.astype(probabilities.dtype, copy=False)

    def calibrated_std(self, probabilities: NDArray[np.floating], std: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the standard deviations of calibrated probabilities, B×k, given those before and the std of σ(f).

        The standard deviation of p′ is dp′/dp times that of σ(f), to first order, and at most √(p′(1 − p′)), the
        greatest of any distribution between 0 and 1 with mean p′.
        """
        calibrated, derivatives = self._with_derivatives(probabilities)
        most = np.sqrt(calibrated * (1 - calibrated))
        return np.minimum(derivatives * std, most).astype(std.dtype, copy=False)

    def _with_derivatives(self, probabilities: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return p′ and dp′/dp, both B×k."""
        a, b, *_ = self.coefficients
        head = _inside(probabilities[:, :RANKS], SMALLEST)
        calibrated = self._calibrated(head)
        derivatives = calibrated * (1 - calibrated) * (a / head + b / (1 - head))
        # Beyond rank R, both are those of a multiple of p.
        ratio = calibrated[:, -1:] / head[:, -1:]
        tail = probabilities[:, RANKS:].astype(np.float64, copy=False)
        return np.hstack([calibrated, ratio * tail]), np.hstack([derivatives, np.broadcast_to(ratio, tail.shape)])

    def _calibrated(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        a, b, c, d, e = self.coefficients
        log_odds = a * np.log(p) - b * np.log1p(-p) + c + d * np.log(np.arange(1, p.shape[1] + 1))
        log_odds[:, :1] += e
        calibrated: NDArray[np.float64] = np.minimum(expit(log_odds), 1 - CLOSEST)
        return calibrated


def fit_calibration(probabilities: NDArray[np.floating], correct: NDArray[np.bool_] | NDArray[np.uint8]) -> Calibration:
    """Fit a map to points that the model was not trained on; return the `Calibration`.

    `probabilities`, N×k with k ≤ R, has the highest ones of each point in descending order, `MISSING` after the last of
    a point that has fewer, and `correct`, N×k, whether the point has these labels. The coefficients maximise
    Σ w log p′(y) over all pairs plus the logarithm of a normal prior around `IDENTITY`; w is 1 for `FIRST_RANKS` and
    `OTHER_WEIGHT` beyond. The sum is concave, so the maximum is the only one.
    """
    is_present = probabilities != MISSING
    p = _inside(np.where(is_present, probabilities, CLOSEST), CLOSEST)
    ranks = np.arange(1, p.shape[1] + 1)
    terms = np.stack(np.broadcast_arrays(np.log(p), -np.log1p(-p), 1.0, np.log(ranks), ranks == 1), axis=-1)
    terms = terms.reshape(-1, len(IDENTITY))
    weights = np.tile(np.where(ranks <= FIRST_RANKS, 1.0, OTHER_WEIGHT), len(p))
    weights *= is_present.ravel()
    sign = np.where(correct.ravel(), 1.0, -1.0)

    def loss(coefficients: NDArray[np.float64]) -> Expansion:
        margin = sign * (terms @ coefficients)
        offset = coefficients - IDENTITY
        wrong = expit(-margin)
        value = weights @ np.logaddexp(0, -margin) + PRECISION * offset @ offset / 2
        gradient = PRECISION * offset - (weights * sign * wrong) @ terms
        curvature = terms.T @ ((weights * wrong * (1 - wrong))[:, None] * terms)
        return value, gradient, curvature + PRECISION * np.eye(len(offset))

    return Calibration(minimum(loss, IDENTITY, *np.transpose(BOUNDS)))


def minimum(
    loss: Callable[[NDArray[np.float64]], Expansion],
    start: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the minimum of a strictly convex function within bounds, by projected Newton steps.

    SciPy's optimisers take a tenth of a second to import.
    """
    x = start
    value, gradient, hessian = loss(x)
    for _ in range(NEWTON_STEPS):
        # A number stays at its bound where the function falls beyond it.
        free = np.flatnonzero(((x > low) | (gradient < 0)) & ((x < high) | (gradient > 0)))
        step = np.zeros_like(x)
        step[free] = -np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        if -gradient @ step <= CHANGE * max(1.0, abs(value)):
            break
        for _ in range(HALVINGS):
            candidate = np.clip(x + step, low, high)
            expansion = loss(candidate)
            if expansion[0] <= value + SUFFICIENT * gradient @ (candidate - x):
                break
            step /= 2
        else:
            break
        x = candidate
        value, gradient, hessian = expansion
    return x


def _inside(probabilities: NDArray[np.floating], smallest: float) -> NDArray[np.float64]:
    return np.clip(probabilities.astype(np.float64, copy=False), smallest, 1 - CLOSEST)
