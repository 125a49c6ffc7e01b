"""Learning on with a trained BMLPL: EM of further points, with a prior that stands for the earlier ones."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, vstack

from xmlgp.bmlpl import least_squares
from xmlgp.bmlpl.counts import Positives, reveal_labels
from xmlgp.bmlpl.inference import EM, infer_activations
from xmlgp.bmlpl.parameters import SHAPE_RATE, TINY
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.data.features import Features
from xmlgp.errors import SettingsError
from xmlgp.linear_algebra import sparse
from xmlgp.preprocess.inputs import Inputs, Selected
from xmlgp.preprocess.pipeline import Preprocessed
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.random_streams import Stream, random_stream
from xmlgp.training.checkpoints import CheckpointWriter
from xmlgp.training.loop import Loop
from xmlgp.training.minibatches import SeededMinibatches
from xmlgp.training.trained import Earlier, Trained

__all__ = ["Learning", "learn"]

#: Iterations for each chunk of the points. Twice as many change little.
ITERATIONS = 10

#: Conjugate gradient steps in each iteration. Twice as many change little.
CG_STEPS = 3

#: Most elements of an N×T array. More points are learned in chunks, one after the other, so that memory is bounded.
CHUNK_ELEMENTS = 1 << 24


def learn(
    earlier: Earlier[BMLPLSettings],
    features: Features,
    labels: csr_array,
    preprocessed: Preprocessed,
    progress: Progress = silent,
    checkpoints: CheckpointWriter | None = None,
) -> Trained:
    """Learn on; see `Model.learn`. The number of topics stays. SettingsError if Gibbs sampling trained the model."""
    settings = earlier.settings
    if settings.inference == "gibbs":
        raise SettingsError(
            "a model of Gibbs sampling cannot learn on, because its parameters are means of samples, from which EM "
            "cannot continue; train with inference=em-cg"
        )
    coordinates = preprocessed.inputs(features, settings.dtype)
    # Other random numbers than those of the earlier points.
    labels = reveal_labels(labels, settings.revealed, random_stream(settings.seed, Stream.REVEALED_LABELS, earlier.N))
    parameters, history = Loop(Learning, earlier, coordinates, labels).run(progress, checkpoints=checkpoints)
    return Trained(parameters, history)


def _chunk_size(settings: BMLPLSettings, T: int) -> int:
    """Return the most points of a chunk, given the number of topics."""
    return max(settings.batch_size, CHUNK_ELEMENTS // T)


class Prior(NamedTuple):
    """The prior of the points of a chunk, which stands for all points before them; see `Learning`.

    The chunk has d features with the intercept, and some of the labels. `weights`, d×T, are those before the chunk,
    with the log odds `log_odds` of x̄, T; `precisions`, d×T, and `strength`, T, are what `weight_prior` returns.
    `counts` are the m_kt of the labels, and `totals` their sums over all labels, T. `tables` and `rates` are a and b,
    both T.
    """

    weights: NDArray[np.floating]
    log_odds: NDArray[np.floating]
    precisions: NDArray[np.floating]
    strength: NDArray[np.floating]
    counts: NDArray[np.floating]
    totals: NDArray[np.float64]
    tables: NDArray[np.floating]
    rates: NDArray[np.floating]


class Learning(EM):
    """`EM` of further points: maximise log p(V, W, log U, r | Y) with these priors, which stand for the earlier points.

    - Topic t has a Dirichlet prior of η + m_kt, with the counts of the earlier points (`recover_counts`).
    - Weights have a Gaussian prior around those of the model. It is the quadratic lower bound on the log posterior of
      the earlier points at these weights, with an estimated matrix (`weight_prior`). A term of rank one is one more row
      of the system: the mean x̄ of the earlier points.
    - The shape r_t has a prior Gamma(1 + a_t, b_t) with b_t = 1 + S_t and a_t = r_t b_t, where S_t estimates
      Σ_n log(1 + e^ψ_nt) over earlier points as N/B times the sum over the further ones. Its mode is r_t. In a model
      that has converged, a_t are the table counts r_t Σ_n [Ψ(m_nt + r_t) − Ψ(r_t)] of the earlier points
      (`update_shapes`).

    Points of more than `CHUNK_ELEMENTS` activations are learned in random chunks, one after the other: the posterior of
    a chunk is the prior of the next one. Only the labels and features that a chunk has are touched.
    """

    _warm_up = 0
    _cg_steps = CG_STEPS

    def __init__(self, earlier: Earlier[BMLPLSettings], coordinates: Inputs | Selected, labels: csr_array) -> None:
        settings = earlier.settings
        model = earlier.parameters
        self._settings = settings
        self._coordinates = coordinates
        self._labels = labels
        dtype = np.dtype(settings.dtype)
        self.shapes = np.array(model["shapes"], dtype)
        T = len(self.shapes)

        #: W, τ and m_kt of all features and labels. In `EM` are those of a chunk, with a prior in place of τ.
        D = coordinates.feature_count
        self._all_weights = _with_new_features(model["weights"], D, 0, model["intercepts"], dtype)
        usual = np.median(model["precisions"]) if earlier.D else settings.precision
        last = least_squares.INTERCEPT_PRECISION
        self._all_precisions = _with_new_features(model["precisions"], D, usual, last, dtype)
        frequencies = model["statistics.labels"]
        self._all_counts = np.zeros((labels.shape[1], T), dtype)
        self._all_counts[: earlier.K] = recover_counts(
            model["topics"], model["shares"], frequencies.sum() * settings.revealed, settings.concentration
        )

        self._frequencies = Positives(labels).frequencies()
        self._frequencies[: earlier.K] += frequencies
        #: n_d, the number of earlier points with each feature, and N last.
        self._point_counts = _with_new_features(model["statistics.features"], D, 0, earlier.N, np.dtype(np.int64))
        self._chunks = SeededMinibatches(labels.shape[0], _chunk_size(settings, T), settings.seed)
        self.epochs = ITERATIONS * len(self._chunks)
        #: The number of the chunk that is being learned.
        self._chunk: int | None = None

    def begin(self, epoch: int) -> None:
        """Prepare for a chunk before its first iteration: its points, their prior, and their first counts."""
        chunk = epoch // ITERATIONS
        if chunk == self._chunk or chunk >= len(self._chunks):
            return
        self._chunk = chunk
        rows = self._chunks.rows(0, chunk)
        present, features = sparse.present_columns(self._coordinates.weighted(rows).sparse)
        #: The features of the chunk, with the intercept, and its labels; both are renumbered.
        self._present = np.append(present, len(self._all_weights) - 1)
        self._present_labels, labels = sparse.present_columns(self._labels[rows])
        self._positives = Positives(labels)
        point_counts = self._points_before(chunk)[self._present]
        weights = self._all_weights[self._present]
        counts = self._all_counts[self._present_labels]
        totals = self._all_counts.sum(axis=0, dtype=np.float64)

        B = features.shape[0]
        design = least_squares.Design(with_mean_point(features, point_counts))
        system = least_squares.LeastSquares(design, len(self.shapes), weights.dtype)
        system.center = weights
        system.set_log_odds(weights)
        self._system = system
        #: With a last row of zeros for the mean point.
        self._counts = np.zeros_like(system.log_odds)
        topics = _topics_of(counts, totals + self._total_concentration, self._settings.concentration)
        self.activations, _, activated = infer_activations(
            self._positives, topics, system.log_odds[:B], self.shapes, self._counts[:B]
        )

        precisions = self._all_precisions[self._present]
        system.set_tangent(weights, self._counts, self.shapes, precisions)
        self.precisions, strength = weight_prior(design, system.omega, point_counts, precisions)
        rates = SHAPE_RATE + activated.softplus * (point_counts[-1] / B)
        tables = self.shapes * rates
        last_log_odds = system.log_odds[-1].copy()
        self._prior = Prior(weights, last_log_odds, self.precisions, strength, counts, totals, tables, rates)
        self._tables = tables
        self._rates = rates

    def _points_before(self, chunk: int) -> NDArray[np.int64]:
        """Return how many points before a chunk have each feature, and the number of these points last."""
        counts: NDArray[np.int64] = self._point_counts.copy()
        for number in range(chunk):
            features = self._coordinates.weighted(self._chunks.rows(0, number)).sparse
            counts[:-1] += np.bincount(features.indices, minlength=len(counts) - 1)
            counts[-1] += features.shape[0]
        return counts

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by name."""
        arrays = {
            "parameters.weights": self._all_weights,
            "parameters.shapes": self.shapes,
            "counts.labels": self._all_counts,
        }
        if self._chunk is not None:
            arrays["counts.points"] = self._counts
            arrays |= {f"prior.{name}": array for name, array in self._prior._asdict().items()}
        return arrays

    def step(self, epoch: int, done: int) -> float:
        """Make one iteration for a chunk; return its log posterior, given the shapes before it."""
        self.weights = self._all_weights[self._present]
        self._label_counts = self._all_counts[self._present_labels]
        value = super().step(epoch, done)
        self._all_weights[self._present] = self.weights
        self._all_counts[self._present_labels] = self._prior.counts + self._label_counts
        return value

    def _set_tangent(self, epoch: int) -> None:
        """Set the bound on the likelihood; the row of the mean point stands for −½ s (ψ − ψ₀)², and has no counts."""
        system = self._system
        system.set_tangent(self.weights, self._counts, self.shapes, self.precisions)
        system.omega[-1] = self._prior.strength
        system.residuals[-1] = self._prior.strength * (self._prior.log_odds - system.log_odds[-1])

    @property
    def _total_concentration(self) -> float:
        """η summed over all labels."""
        return len(self._all_counts) * self._settings.concentration

    def _topics(self) -> NDArray[np.floating]:
        """Return the rows of V of the chunk's labels, given their counts, and set Σ_k (η + m_kt) over all labels, T."""
        added = (self._label_counts - self._prior.counts).sum(axis=0, dtype=np.float64)
        self._totals = self._prior.totals + added + self._total_concentration
        return _topics_of(self._label_counts, self._totals, self._settings.concentration)

    def _log_prior_of_topics(self, topics: NDArray[np.floating]) -> float:
        """Return Σ_kt (η + m_kt) log v_kt with the earlier counts m, up to a constant.

        v_kt of labels that the chunk does not have is a constant divided by the total of the topic.
        """
        earlier = self._prior.counts + self._settings.concentration
        logarithms = np.log(np.maximum(topics, TINY))
        absent = self._prior.totals + self._total_concentration - earlier.sum(axis=0, dtype=np.float64)
        return float((earlier * logarithms).sum(dtype=np.float64) - absent @ np.log(self._totals))

    def _log_prior_of_weights(self) -> float:
        """Return −½ Σ_dt P_dt δ_dt² − ½ Σ_t s_t (x̄ᵀδ_t)² for the change δ of the weights."""
        change = self.weights - self._prior.weights
        distance = self._system.log_odds[-1] - self._prior.log_odds
        total = np.einsum("dt,dt,dt->t", self.precisions, change, change).sum(dtype=np.float64)
        return float(-0.5 * (total + (self._prior.strength * np.square(distance)).sum(dtype=np.float64)))

    def _log_prior_of_shapes(self) -> float:
        return float(self._tables @ np.log(self.shapes) - self._rates @ self.shapes)

    def parameters(self, epochs: int) -> dict[str, NDArray[Any]]:
        """Return the parameters of the model, by name."""
        return self._model(self._all_weights, self._all_precisions, self._all_counts, self._frequencies)


def _with_new_features(
    values: NDArray[Any], feature_count: int, new: float, last: ArrayLike, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Return values of earlier features, then `new` for new ones, up to D of them, then those of the intercept."""
    extended = np.full((feature_count + 1, *values.shape[1:]), new, dtype)
    extended[: len(values)] = values
    extended[-1] = last
    return extended


def _topics_of(counts: NDArray[np.floating], totals: NDArray[np.float64], concentration: float) -> NDArray[np.floating]:
    """Return v_kt = (η + m_kt) / Σ_k (η + m_kt) of some labels, given the sums over all labels."""
    topics = counts + concentration
    topics /= totals
    return topics


def recover_counts(
    topics: NDArray[np.floating], shares: NDArray[np.floating], positives: float, concentration: float
) -> NDArray[np.floating]:
    """Return the latent counts m_kt of the earlier points, K×T, from V, shares of topics and the number of positives.

    Topics are v_kt = (η + m_kt) / Σ_k (η + m_kt), so m_kt = v_kt (M_t + K η) − η with the sum M_t of the counts of a
    topic. A topic that some label has no counts of has the least weight η/(M_t + K η), from which M_t is known. Without
    such a label this is a lower bound. Another one is the number of positive labels times the share of the topic, up to
    how unequally labels exceed one latent count a positive label. The larger of both is used.
    """
    K = len(topics)
    dtype = topics.dtype
    least = topics.min(axis=0).astype(np.float64)
    normalisers = shares.astype(np.float64) * positives + K * concentration
    np.maximum(normalisers, np.divide(concentration, least, out=normalisers.copy(), where=least > 0), out=normalisers)
    counts = topics * normalisers.astype(dtype)
    counts -= dtype.type(concentration)
    # Rounding can make the count of a label that a topic does not have negative.
    np.maximum(counts, 0, out=counts)
    return counts


def with_mean_point(features: csr_array, point_counts: NDArray[np.int64]) -> csr_array:
    """Return features of new points, B×d, with the mean x̄ of the earlier points, as in the new ones, as the last row.

    x̄_d = n_d/N times the mean of x_d over the new points that have feature d, of which there is at least one. The
    counts are the numbers n_d of earlier points with each feature, and N last.
    """
    d = features.shape[1]
    sums = np.bincount(features.indices, features.data, d)
    present = np.bincount(features.indices, minlength=d)
    mean = (point_counts[:-1] / max(1, point_counts[-1]) * sums / present).astype(features.dtype)
    return csr_array(vstack([features, csr_array(mean[None])], format="csr", dtype=features.dtype))


def weight_prior(
    design: least_squares.Design,
    omega: NDArray[np.floating],
    point_counts: NDArray[np.int64],
    precisions: NDArray[np.floating],
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return P, d×T, and s, T: the curvature of the log posterior of the earlier points in W, which includes τ.

    It is −½ Σ_d P_dt δ_dt² − ½ s_t (x̄ᵀδ_t)² for a change δ of the weights. Only the numbers of earlier points with
    each feature are known. The curvature of the earlier points is Xᵀ Ω_t X. Its diagonal is estimated as C_dt = n_d
    times the mean of ω_nt x_nd² over the new points that have feature d. Off the diagonal, features are taken as
    independent of each other and of ω_t. With the mean ω̄_t over all new points, this leaves the matrix N ω̄_t x̄ x̄ᵀ,
    which is that of one point x̄ with the Pólya–Gamma variable s_t = N ω̄_t, and the rest of the diagonal, P_dt = τ_d +
    max(0, C_dt − s_t x̄_d²). Without x̄, a change of many weights in the same direction would seem too cheap. A new
    feature has its τ_d alone.

    The design and ω, (B+1)×T, have the new points and x̄ as the last row, whose ω is not used.
    """
    B = len(omega) - 1
    omega = omega.copy()
    omega[-1] = 0
    strength = point_counts[-1] / B * omega.sum(axis=0, dtype=np.float64)
    columns = design.columns
    dtype = omega.dtype
    is_last = columns.indices == B
    owner = np.repeat(np.arange(columns.shape[0]), np.diff(columns.indptr))
    present = np.bincount(owner[~is_last], minlength=len(precisions))
    mean = np.bincount(owner[is_last], columns.data[is_last], len(precisions))
    curvature = sparse.product(design.squares, omega)
    curvature *= (point_counts / present).astype(dtype)[:, None]
    curvature -= (np.square(mean)[:, None] * strength).astype(dtype)
    np.maximum(curvature, 0, out=curvature)
    curvature += precisions[:, None]
    return curvature, strength.astype(dtype)
