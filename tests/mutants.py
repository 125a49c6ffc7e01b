"""Mutants of the mathematics, and a program that shows that the tests catch them.

    python tests/mutants.py                  all mutants
    python tests/mutants.py kl-factor        some of them
    python tests/mutants.py --check          only check that each mutant still fits the code

A mutant is the project with one mistake in it: a wrong sign, a lost factor. For each, the program copies the project to
a temporary folder, makes the replacement and runs the tests that should fail. A mutant is killed if one does; otherwise
it survives, and the exit status is 1. The tests must pass without the mutation, so that a test that fails anyway kills
nothing. When code moves, keep the mistake the same.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[1]

#: What a copy of the project has.
COPIED = ("benchmarks", "tests", "xmlgp", "datasets.yaml", "setup.cfg")

#: Seconds that the tests of a mutant may take.
LIMIT = 600

FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


class Mutant(NamedTuple):
    """A mistake, what it breaks, and the files of the tests that should fail, divided by blanks.

    `old` is text that occurs exactly once in `file`, a path relative to the project, and `new` its replacement.
    """

    name: str
    breaks: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = [
    Mutant(
        "kl-factor",
        "The KL divergence of the diagonal posteriors counts the means twice; its gradient does not.",
        "xmlgp/gp/divergences.py",
        "= 0.5 * np.vdot",
        "= np.vdot",
        "tests/gp/test_posteriors.py tests/gp/test_bound.py",
    ),
    Mutant(
        "lengthscale-sign",
        "With fixed inducing inputs, the gradient of the lengthscale of an SE kernel has the wrong sign.",
        "xmlgp/gp/kernels.py",
        "d_log_lengthscale = -2 * sums[1]",
        "d_log_lengthscale = 2 * sums[1]",
        "tests/gp/test_kernels.py tests/gp/test_bound.py tests/models/gpc/test_collapsed.py",
    ),
    Mutant(
        "quadrature-half",
        "The gradient of the expected log likelihood by the variance is twice too large.",
        "xmlgp/gp/expectations/quadrature.py",
        "= real(0.5) * second[k]",
        "= second[k]",
        "tests/gp/expectations/test_quadrature.py",
    ),
    Mutant(
        "pairs-loadings-factor",
        "With sampled negatives, the gradient of the loadings has half of the contribution of the variances.",
        "xmlgp/gp/likelihood.py",
        "(2 * d_squares)",
        "d_squares",
        "tests/gp/test_likelihood.py tests/gp/test_bound.py",
    ),
    Mutant(
        "label-weights-prior",
        "The prior variance of a feature has only its last label weight, not the mean over all.",
        "xmlgp/models/mlgpf/label_weights/posterior.py",
        "total[columns[e]] += (",
        "total[columns[e]] = (",
        "tests/models/mlgpf/label_weights/test_updates.py",
    ),
    Mutant(
        "farthest-points",
        "The regression on neighbours predicts from the points that are farthest away.",
        "xmlgp/neighbours/search.py",
        "elif not product > products[count - 1]",
        "elif product > products[count - 1]",
        "tests/neighbours/test_search.py",
    ),
    Mutant(
        "neighbours-conjugacy",
        "The directions that solve the system of a regression on neighbours are not conjugate.",
        "xmlgp/neighbours/regression.py",
        "direction *= square / last",
        "direction *= last / square",
        "tests/neighbours/test_regression.py",
    ),
    Mutant(
        "neighbours-rest",
        "The weight of the frequencies of labels is one whatever the weights of the neighbours are.",
        "xmlgp/neighbours/regression.py",
        "rest = 1 - weights.sum(axis=2)",
        "rest = np.ones(weights.shape[:2], np.float32)",
        "tests/neighbours/test_regression.py",
    ),
    Mutant(
        "pool-variance",
        "The variance of the regression is multiplied by its weight in the pool, not by the square.",
        "xmlgp/neighbours/predictions.py",
        "variance += np.square(weights) * spread",
        "variance += weights * spread",
        "tests/neighbours/test_predictions.py",
    ),
    Mutant(
        "absent-labels",
        "Labels that no neighbour has are pooled as if their frequencies were zero.",
        "xmlgp/neighbours/predictions.py",
        "predicted[j] = frequencies[j] * rest[i]",
        "predicted[j] = 0",
        "tests/neighbours/test_predictions.py",
    ),
    Mutant(
        "dense-width",
        "Dense features count as much as if all columns together were one.",
        "xmlgp/neighbours/dense.py",
        "np.sqrt(variance * dense.shape[1])",
        "np.sqrt(variance)",
        "tests/neighbours/test_regression.py",
    ),
    Mutant(
        "unpooled-calibration",
        "The calibration is fitted to probabilities before they are pooled with neighbours.",
        "xmlgp/models/mlgpf/held_out.py",
        "ranked = self._rank(parameters)",
        "ranked = self._rank({name: value for name, value in parameters.items() if 'neighbours' not in name})",
        "tests/models/mlgpf/test_held_out.py",
    ),
    Mutant(
        "omega-half",
        "The means of the Polya-Gamma variables are twice too large.",
        "xmlgp/models/bmlpl/activations.py",
        "halves = 0.5 * (counts[rows]",
        "halves = (counts[rows]",
        "tests/models/bmlpl/test_activations.py tests/models/bmlpl/test_least_squares.py",
    ),
    Mutant(
        "counts-sign",
        "In the log likelihood of the latent counts, the rates of positive labels have the wrong sign.",
        "xmlgp/models/bmlpl/counts.py",
        "zero) + rate",
        "zero) - rate",
        "tests/models/bmlpl/test_counts.py",
    ),
    Mutant(
        "gibbs-shapes",
        "Gibbs sampling draws the shapes r from a gamma distribution with one table too many.",
        "xmlgp/models/bmlpl/gibbs.py",
        "standard_gamma(1 + tables)",
        "standard_gamma(2 + tables)",
        "tests/models/bmlpl/test_conditionals.py tests/models/bmlpl/test_gibbs.py",
    ),
    Mutant(
        "weights-noise-root",
        "Samples of the weights by conjugate gradients have noise of the wrong variance.",
        "xmlgp/models/bmlpl/least_squares.py",
        "np.sqrt(system.precisions[:, None])",
        "(system.precisions[:, None])",
        "tests/models/bmlpl/test_least_squares.py",
    ),
    Mutant(
        "predictive-series-sign",
        "In predictions, the second term of the series of log(1 + z) has the wrong sign.",
        "xmlgp/models/bmlpl/predictor.py",
        "in (-2, 3)[:more_terms]",
        "in (2, 3)[:more_terms]",
        "tests/models/bmlpl/test_predictor.py",
    ),
    Mutant(
        "collapsed-variance-sign",
        "The gradient of the collapsed bound with respect to point variances has the wrong sign.",
        "xmlgp/models/gpc/collapsed.py",
        "None, -0.5 * curvature)",
        "None, 0.5 * curvature)",
        "tests/models/gpc/test_collapsed.py tests/models/gpc/test_inference.py",
    ),
    Mutant(
        "taylor-keeps-last",
        "vi-taylor returns the hyperparameters of its last iteration, not those of the highest bound.",
        "xmlgp/models/gpc/inference.py",
        "if bound > highest:",
        "if bound is not None:",
        "tests/models/gpc/test_inference.py",
    ),
    Mutant(
        "ndcg-discount",
        "nDCG discounts the first label as if it were the second.",
        "xmlgp/metrics/ranking.py",
        "np.arange(deepest) + 2",
        "np.arange(deepest) + 3",
        "tests/metrics/test_ranking.py",
    ),
    Mutant(
        "propensity-constant",
        "The constant of propensities is log N, not log N - 1.",
        "xmlgp/metrics/propensity.py",
        "(np.log(n_points) - 1)",
        "np.log(n_points)",
        "tests/metrics/test_propensity.py",
    ),
    Mutant(
        "macro-absent",
        "Macro measures of some points are over all labels, not over those that these points have.",
        "xmlgp/metrics/macro.py",
        "np.count_nonzero(true, axis=1)",
        "true.shape[1]",
        "tests/metrics/test_macro.py",
    ),
    Mutant(
        "adam-correction",
        "Adam does not correct the bias of its mean of gradients.",
        "xmlgp/training/optimisers.py",
        " / (1 - self.decay_mean**self.step_count)",
        "",
        "tests/training/test_optimisers.py",
    ),
    Mutant(
        "minibatch-scale",
        "The likelihood of a minibatch is not scaled by N/B.",
        "xmlgp/training/minibatches.py",
        "choose_pairs(labels[rows]), labels.shape[0] / len(rows))",
        "choose_pairs(labels[rows]), 1.0)",
        "tests/training/test_minibatches.py tests/gp/test_minibatches.py",
    ),
    Mutant(
        "negative-weight",
        "Sampled negatives stand for as many pairs as labels there are, positives of the point too.",
        "xmlgp/training/minibatches.py",
        "(K - positive_counts) / np.maximum",
        "K / np.maximum",
        "tests/training/test_minibatches.py tests/gp/test_minibatches.py",
    ),
    Mutant(
        "choice-unpooled",
        "The weight of neighbours is chosen by utilities that are pooled with the wrong sign.",
        "xmlgp/neighbours/choice.py",
        "candidates.mean + weights * (log_odds",
        "candidates.mean - weights * (log_odds",
        "tests/neighbours/test_choice.py",
    ),
    Mutant(
        "checkpoint-moments",
        "Checkpoints lack the averages of the optimiser, so a resumed run makes different steps.",
        "xmlgp/models/mlgpf/train.py",
        'arrays |= {f"optimiser.',
        '{} | {f"optimiser.',
        "tests/training/test_contract.py",
    ),
    Mutant(
        "checkpoint-random",
        "A resumed run starts its random numbers from the seed again.",
        "xmlgp/training/loop.py",
        'state = facts["random"]',
        'state, facts["random"]',
        "tests/training/test_loop.py tests/training/test_contract.py",
    ),
    Mutant(
        "tied-labels",
        "Of labels with equal scores, the one with the higher number comes first.",
        "xmlgp/prediction/top_k.py",
        "while position > 0 and value > best[i, position - 1]:",
        "while position > 0 and value >= best[i, position - 1]:",
        "tests/prediction/test_top_k.py tests/prediction/test_predictor.py",
    ),
    Mutant(
        "standardise-variance",
        "Features are scaled by the variance with divisor N - 1.",
        "xmlgp/features/weighting.py",
        "np.sqrt(variance)",
        "np.sqrt(variance * values.shape[0] / (values.shape[0] - 1))",
        "tests/features/test_weighting.py",
    ),
    Mutant(
        "sampled-weight",
        "In a sweep, a sampled pair counts once, not for all pairs that it stands for.",
        "xmlgp/models/mlgpf/label_weights/pairs.py",
        "weight[e] = others / (end - sampled)",
        "weight[e] = 1",
        "tests/models/mlgpf/label_weights/test_pairs.py",
    ),
    Mutant(
        "second-sweep",
        "The second sweep lists negatives without the label weights of the first.",
        "xmlgp/models/mlgpf/sweep.py",
        "weights = data.weights if self._number else None",
        "weights = None",
        "tests/models/mlgpf/test_sweeps.py",
    ),
    Mutant(
        "calibration-tail",
        "Probabilities beyond rank R are not calibrated.",
        "xmlgp/prediction/calibration.py",
        "np.hstack([calibrated, ratio * tail])",
        "np.hstack([calibrated, tail])",
        "tests/prediction/test_calibration.py",
    ),
    Mutant(
        "calibrated-std",
        "The slope of the calibration, and so a standard deviation, has a term of the wrong sign.",
        "xmlgp/prediction/calibration.py",
        "a / head + b / (1 - head)",
        "a / head - b / (1 - head)",
        "tests/prediction/test_calibration.py",
    ),
    Mutant(
        "long-assignment",
        "A point with more labels above the threshold than are listed at first loses the others.",
        "xmlgp/prediction/assignment.py",
        "(sizes == k).any()",
        "(sizes > k).any()",
        "tests/prediction/test_assignment.py",
    ),
    Mutant(
        "assignment-limit",
        "The set of highest expected F1 may have more labels than the limit.",
        "xmlgp/prediction/assignment.py",
        "largest = K if limit is None else min(limit, K)",
        "largest = K",
        "tests/prediction/test_assignment.py",
    ),
    Mutant(
        "cholesky-gradient",
        "The gradient of a full posterior by the kernel is twice too large.",
        "xmlgp/gp/posteriors/cholesky.py",
        "d_K_Z = -0.5 * (inverse.T",
        "d_K_Z = -1.0 * (inverse.T",
        "tests/gp/test_posteriors.py tests/gp/test_bound.py",
    ),
    Mutant(
        "diagonal-gradient",
        "The divergence of a diagonal posterior has a gradient with a term of the wrong sign.",
        "xmlgp/gp/posteriors/diagonal.py",
        "(np.diagonal(inverse) - 1 / diagonal)",
        "(np.diagonal(inverse) + 1 / diagonal)",
        "tests/gp/test_posteriors.py tests/gp/test_bound.py",
    ),
    Mutant(
        "relevance-gradient",
        "The gradient of the relevances of features counts the means twice.",
        "xmlgp/gp/weight_space.py",
        "d_log_prior = 0.5 * from_mean",
        "d_log_prior = from_mean",
        "tests/gp/test_weight_space.py",
    ),
    Mutant(
        "weight-divergence",
        "The divergence of latent weights has the logarithms of the variances with the wrong sign.",
        "xmlgp/gp/weight_space.py",
        "(variance - 1 - np.log(variance))",
        "(variance - 1 + np.log(variance))",
        "tests/gp/test_weight_space.py",
    ),
    Mutant(
        "norms-gradient",
        "The gradient of an SE kernel by the norms of inducing inputs is twice too large.",
        "xmlgp/gp/kernels.py",
        "d_inducing_norms = -0.5 * (d_exponent_BZ",
        "d_inducing_norms = -1.0 * (d_exponent_BZ",
        "tests/gp/test_kernels.py",
    ),
    Mutant(
        "collapsed-determinant",
        "The collapsed bound counts the determinant twice.",
        "xmlgp/models/gpc/collapsed.py",
        "- 0.5 * self._precision.log_determinant",
        "- self._precision.log_determinant",
        "tests/models/gpc/test_collapsed.py",
    ),
    Mutant(
        "log-loss-negatives",
        "The log loss takes every label as present.",
        "xmlgp/metrics/probabilities.py",
        "np.where(y, clipped, 1 - clipped)",
        "np.where(y, clipped, clipped)",
        "tests/metrics/test_probabilities.py",
    ),
    Mutant(
        "interval-width",
        "Intervals cover 90 %, not 95 %.",
        "xmlgp/metrics/intervals.py",
        "stdtrit(count - 1, 1 - ALPHA / 2)",
        "stdtrit(count - 1, 1 - ALPHA)",
        "tests/metrics/test_intervals.py",
    ),
]


def main():
    """Run mutants; return the exit status: 0, 1 if a mutant survives, or 2 if one does not fit the code."""
    named = {mutant.name: mutant for mutant in MUTANTS}
    parser = argparse.ArgumentParser(description="Show which mutants of xmlgp the tests catch.")
    parser.add_argument("names", nargs="*", metavar="MUTANT", help="mutants to run (default: all)")
    parser.add_argument("--check", action="store_true", help="only check that each mutant fits the code")
    options = parser.parse_args()
    if unknown := set(options.names) - named.keys():
        parser.error(f"unknown mutants: {', '.join(sorted(unknown))}")
    mutants = [named[name] for name in options.names] or MUTANTS
    misfits = [mutant.name for mutant in mutants if not fits(mutant)]
    print(f"{len(mutants) - len(misfits)} of {len(mutants)} mutants fit the code", *misfits)
    if misfits or options.check:
        return 2 if misfits else 0
    passing = {}
    killed = 0
    for mutant in mutants:
        if mutant.tests not in passing:
            passing[mutant.tests] = first_failure(mutant.tests) is None
        failure = first_failure(mutant.tests, mutant)
        verdict = f"killed by {failure}" if failure else "SURVIVED"
        if not passing[mutant.tests]:
            verdict = "DOUBTFUL: its tests fail without the mutation, too"
        killed += verdict.startswith("killed")
        print(f"{mutant.name:24} {verdict}", flush=True)
    print(f"{killed} of {len(mutants)} killed")
    return 0 if killed == len(mutants) else 1


def fits(mutant):
    """Return whether a mutant fits the code, and its tests exist."""
    file = PROJECT / mutant.file
    found = file.is_file() and file.read_text(encoding="utf-8").count(mutant.old) == 1
    return found and all((PROJECT / test).is_file() for test in mutant.tests.split())


def first_failure(tests, mutant=None):
    """Run tests of a copy of the project, with a mistake if one is given; return the first that fails, or None."""
    with tempfile.TemporaryDirectory(prefix="xmlgp-mutant-") as folder:
        project = Path(folder, "project")
        project.mkdir()
        for name in COPIED:
            copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy2
            copy(PROJECT / name, project / name)
        if mutant:
            file = project / mutant.file
            text = file.read_text(encoding="utf-8")
            file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
            # Numba compiles a loop again if its own file changes, but not if that of a loop that it calls does.
            for compiled in [*project.rglob("*.nbi"), *project.rglob("*.nbc")] if "@compiled" in text else []:
                compiled.unlink()
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
        environment = os.environ | {"PYTHONPATH": str(project), "HOME": folder}
        command += [f"--basetemp={folder}/tests", *tests.split()]
        try:
            done = subprocess.run(
                command, cwd=project, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no end in {LIMIT} s"
        found = FAILED.search(done.stdout)
        return None if done.returncode == 0 else found[1] if found else f"status {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
