"""Closed-form updates of the means of q(u_p) with the bound of Jaakkola and Jordan: what they gain and take.

    python benchmarks/means.py DATA [DATA ...] [--epochs 1 --epochs 5 --epochs 20] [--sweeps 2] [--set NAME=VALUE ...]
        [--json FILE]

DATA is a folder with train.txt and test.txt, such as data/bibtex. With ξ and all else fixed, the bound is quadratic in
the means μ_p of q(u_p) of all latent functions. After each of the given numbers of epochs of training on all points, a
Markdown table has the time of these updates, in units of an epoch, their gain in the bound at the best ξ, in nats per
point, and P@1, P@3 and P@5 on the test points:

- one more epoch of training, for comparison, which changes all other parameters as well;
- a sweep: each μ_p in turn is set to its optimum given the others, by the linear system
  (K_Z + K_ZX diag(Σ_k 2λ(ξ_ik) φ_kp²) K_XZ) μ_p = K_ZX g_p;
- a joint step of all μ_p towards the optimum under a rank-one approximation of λ(ξ_ik), a weight of the point times a
  weight of the label, so that one decomposition serves all p; the step length maximises the quadratic bound.

A second table compares the final results of training runs with the greatest of these numbers of epochs: without
updates, with a joint step after each epoch, and with twice as many epochs. The bound `by quadrature` is at the same
parameters.

Training follows the recipe with free inducing inputs and the shared-diagonal posterior, without held-out points.
"""

import dataclasses
import time

import click
import harness
import numpy as np
import scipy.linalg
from expectations import bounds
from peers import MEASURES

from xmlgp.gp.expectations import JaakkolaJordan
from xmlgp.gp.likelihood import utility_moments
from xmlgp.linear_algebra import dense
from xmlgp.mlgpf.model import MLGPF
from xmlgp.runtime.threads import one_blas_thread
from xmlgp.training.minibatches import make_batch

#: Settings of all training runs.
TRAINING = {"expectations": "jj", "posterior": "shared-diagonal", "inducing": "free"}

#: Added to diagonals, relative to their means, as covariances have single precision.
JITTER = 1e-4


class Quadratic:
    """The bound as a function of the means μ of q(u_p), M×P, at the best ξ for the given parameters.

    Σ_ik ((y_ik − ½) f_ik − λ_ik f_ik²) − ½ Σ_p μ_pᵀ K_Z μ_p + constant, with f = K_XZ μ Φᵀ + terms without μ.

    Parameters
    ----------
    model : MLGPF
    parameters : mapping of str to ndarray
    batch : Batch
        All points.
    """

    def __init__(self, model, parameters, batch):
        covariances, _ = model.kernel.forward(parameters, batch.points)
        moments, _, _ = model.posterior.forward(parameters, covariances)
        self.loadings, self.mean = parameters["loadings"], parameters["posterior.mean"].astype(np.float64)
        utilities, variance = utility_moments(moments, self.loadings, parameters["bias"])
        self.cross, self.latent = covariances.K_BZ, moments.mean
        self.prior = jittered(covariances.K_Z)
        #: 2λ(ξ), N×K, and the gradient with respect to the utilities, N×K.
        self.weights = 2 * JaakkolaJordan().gradients(utilities, variance)[1]
        self.residuals = batch.labels.toarray() - utilities.dtype.type(0.5) - self.weights * utilities

    def sweep(self):
        """Return μ after setting each of its columns to its optimum, in turn."""
        mean = self.mean.copy()
        by_factor = self.weights @ np.square(self.loadings)
        for p, loading in enumerate(np.ascontiguousarray(self.loadings.T)):
            weight = by_factor[:, p]
            right = self.cross.T @ (self.residuals @ loading + weight * self.latent[:, p])
            left = self.prior + dense.gram(self.cross * np.sqrt(weight)[:, None])
            mean[:, p] = scipy.linalg.cho_solve(scipy.linalg.cho_factor(left), right)
            change = self.cross @ mean[:, p].astype(self.cross.dtype) - self.latent[:, p]
            self.residuals -= self.weights * np.outer(change, loading)
        return mean

    def joint_step(self):
        """Return μ after a joint step of all columns, in the direction from one decomposition."""
        gradient = self.cross.T @ (self.residuals @ self.loadings) - self.prior @ self.mean
        by_point, by_label = self.weights.mean(axis=1), self.weights.mean(axis=0) / self.weights.mean()
        information, directions = scipy.linalg.eigh(
            dense.gram(self.cross * np.sqrt(by_point)[:, None]).astype(np.float64), self.prior
        )
        scales, mixtures = np.linalg.eigh(dense.gram(self.loadings * np.sqrt(by_label)[:, None]).astype(np.float64))
        divisor = 1 + np.maximum(information, 0)[:, None] * np.maximum(scales, 0)
        direction = directions @ (directions.T @ gradient @ mixtures / divisor) @ mixtures.T
        change = self.cross @ direction.astype(self.cross.dtype) @ self.loadings.T
        curvature = (self.weights * change * change).sum(dtype=np.float64)
        curvature += np.vdot(direction, self.prior @ direction)
        return self.mean + np.vdot(gradient, direction) / curvature * direction


def jittered(covariance):
    """Return a covariance matrix in double precision, with jitter on its diagonal."""
    covariance = covariance.astype(np.float64)
    covariance[np.diag_indices_from(covariance)] += JITTER * np.trace(covariance) / len(covariance)
    return covariance


def report(train, test, settings, epochs, sweeps):
    """Print the rows of a data set, and return their numbers."""
    kept = {}

    def keep(epoch, model):
        if {epoch, epoch - 1} & set(epochs):
            kept[epoch] = model._replace(
                parameters={name: value.copy(order="K") for name, value in model.parameters.items()}
            )

    last, history = harness.fit(train, settings, keep)
    epoch_seconds, mlgpf = harness.epoch_seconds(history), MLGPF(settings)
    batch, results = all_points(train, last), []

    def measure(epoch, name, model, seconds, before=None):
        with one_blas_thread():
            value = mlgpf.bound.value_and_gradients(model.parameters, batch)[0] / train.N
        gain = 0.0 if before is None else value - before
        measures = list(model.precision(test).values())
        time_taken = f"{seconds / epoch_seconds:.2f}" if seconds else ""
        cells = [f"{epoch} epochs", name, time_taken, f"{value:.4f}", f"{gain:+.4f}" if seconds else ""]
        print(harness.markdown_row([*cells, *(f"{measure:.2f}" for measure in measures)]), flush=True)
        results.append([epoch, name, seconds, value, gain, *measures])
        return value

    for epoch in epochs:
        start = kept[epoch]
        before = measure(epoch, "", start, 0)
        measure(epoch, "one more epoch", kept[epoch + 1], epoch_seconds, before)
        for name, update in (("sweep", Quadratic.sweep), ("joint step", Quadratic.joint_step)):
            found, seconds = start, 0.0
            for count in range(1, sweeps + 1):
                began = time.perf_counter()
                with one_blas_thread():
                    mean = update(Quadratic(mlgpf, found.parameters, batch)).astype(settings.dtype)
                found = found._replace(parameters=found.parameters | {"posterior.mean": mean})
                seconds += time.perf_counter() - began
                measure(epoch, name if count == 1 else f"{count} of them", found, seconds, before)
    return {"epoch_s": epoch_seconds, "rows": results}


def all_points(train, model):
    """Return all points of a data set as one batch."""
    coordinates = model.preprocessed.coordinates(train.features, model.settings.dtype)
    return make_batch(coordinates, train.labels, np.arange(train.N))


def train_with(train, settings, joint):
    """Train, with a joint step after each epoch if `joint`; return the model and the seconds."""
    mlgpf, batch, spent = MLGPF(settings), None, 0.0

    def after_epoch(epoch, model):
        nonlocal batch, spent
        if joint:
            batch = batch or all_points(train, model)
            began = time.perf_counter()
            model.parameters["posterior.mean"][:] = Quadratic(mlgpf, model.parameters, batch).joint_step()
            spent += time.perf_counter() - began

    model, history = harness.fit(train, settings, after_epoch)
    return model, history[-1]["seconds"] + spent


def report_trainings(train, test, settings):
    """Print the final results with and without joint steps, and with twice as many epochs; return the numbers."""
    usual, results = settings.epochs, []
    for name, epochs, joint in [
        (f"{usual} epochs", usual, False),
        ("a joint step after each", usual, True),
        (f"{2 * usual} epochs", 2 * usual, False),
    ]:
        model, seconds = train_with(train, dataclasses.replace(settings, epochs=epochs), joint)
        values, measures = bounds(model, train), list(model.precision(test).values())
        cells = [f"{value:.3f}" for value in values] + [f"{measure:.2f}" for measure in measures]
        print(harness.markdown_row([name, f"{seconds:.1f}", *cells]), flush=True)
        results.append([name, seconds, *values, *measures])
    return results


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.folders_argument()
@click.option("--epochs", type=click.IntRange(1), multiple=True, default=[1, 5, 20], show_default=True)
@click.option("--sweeps", type=click.IntRange(1), default=2, show_default=True, help="Number of successive updates.")
@click.option("--recipe", default="default", show_default=True)
@harness.set_option
@harness.json_option
def main(folders, epochs, sweeps, recipe, chosen, as_json):
    results = {}
    for folder in folders:
        train, test = harness.read_folder(folder)
        settings = harness.resolve_settings(recipe, train, chosen | TRAINING | {"epochs": max(epochs)})
        harness.warm_up(settings)
        print(harness.markdown_row([folder.name, "update", "epochs' time", "bound", "gain", *MEASURES]))
        print(harness.markdown_row(["---"] * (5 + len(MEASURES))), flush=True)
        one_more = dataclasses.replace(settings, epochs=max(epochs) + 1)
        results[folder.name] = report(train, test, one_more, sorted(epochs), sweeps)
        print()
        print(harness.markdown_row([folder.name, "seconds", "bound", "by quadrature", *MEASURES]))
        print(harness.markdown_row(["---"] * (4 + len(MEASURES))), flush=True)
        results[folder.name]["trainings"] = report_trainings(train, test, settings)
        print()
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
