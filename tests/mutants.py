"""Mutants of xmlgp, and a program that shows which of them the tests catch.

A mutant is the project with one mistake in it: a wrong sign, a lost factor, a missing fsync, an ignored signal. A suite
is as good as the mistakes it catches, so run this program before and after you make the suite faster or smaller:

    python tests/mutants.py                     all mutants
    python tests/mutants.py kl-factor no-fsync  some of them
    python tests/mutants.py --check             only check that each mutant still fits the code (a second)
    python tests/mutants.py --likely-only       do not run the whole suite where the likely tests pass
    python tests/mutants.py --markdown out.md   also write the results as a table

For each mutant, the program copies the project to a temporary folder, makes the replacement and runs the likely tests:
those named in the list. If they pass, it runs the whole suite. A mutant is *killed* if a test fails or does not end.
That test must also pass without the mutation, so that a test that fails anyway kills nothing. Otherwise the mutant
*survives*. The exit status is 1 if a mutant survives. Use a machine without other load.

When code moves, change `file`, `old` and `new` of its mutants and keep the mistake the same. When a test moves, change
`tests`. `tests/test_mutants.py` fails until the list fits the code.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[1]

#: What a copy of the project omits: files that are not part of it, or that are generated.
OMITTED = shutil.ignore_patterns(".git", ".venv", ".hypothesis", ".pytest_cache", ".ruff_cache", "*.pyc", "*.egg-info")

#: Folders beside the code that a copy omits; packages have these names as well.
OMITTED_FOLDERS = ("data", "models", "build")

#: Seconds that the likely tests and the whole suite may take. A mutant can wait forever.
LIKELY_LIMIT, SUITE_LIMIT = 900, 5400

#: Test identifiers in pytest's summary; a parameter may contain blanks.
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/\S+\.py(?:::\w+)*(?:\[.*?\])?)(?: - |$)", re.MULTILINE)


class Mutant(NamedTuple):
    """A mistake of some kind, what it breaks, and the files of the likely tests, which are run first.

    `old` is text that occurs exactly once in `file`, a path relative to the project, and `new` its replacement.
    """

    name: str
    kind: str
    breaks: str
    file: str
    old: str
    new: str
    tests: tuple


MUTANTS = [
    # Mathematics that MLGPF and GPC share.
    Mutant(
        "kl-factor",
        "factor 1/2",
        "The KL divergence of the diagonal posteriors counts the means twice; its gradient does not.",
        "xmlgp/gp/divergences.py",
        "= 0.5 * np.vdot",
        "= np.vdot",
        ("tests/gp/test_posteriors.py", "tests/gp/test_bound.py"),
    ),
    Mutant(
        "lengthscale-sign",
        "sign",
        "With fixed inducing inputs, the gradient of the lengthscale of an SE kernel has the wrong sign.",
        "xmlgp/gp/kernels.py",
        "d_log_lengthscale = -2 * sums[1]",
        "d_log_lengthscale = 2 * sums[1]",
        ("tests/gp/test_kernels.py", "tests/gp/test_bound.py", "tests/gpc/test_collapsed.py"),
    ),
    Mutant(
        "quadrature-half",
        "factor 1/2",
        "The gradient of the expected log likelihood by the variance is twice too large.",
        "xmlgp/gp/expectations/quadrature.py",
        "= real(0.5) * second[k]",
        "= second[k]",
        ("tests/gp/expectations/test_quadrature.py",),
    ),
    Mutant(
        "pairs-loadings-factor",
        "factor 2",
        "With sampled negatives, the gradient of the loadings has half of the contribution of the variances.",
        "xmlgp/gp/likelihood.py",
        "(2 * d_squares)",
        "d_squares",
        ("tests/gp/test_likelihood.py", "tests/gp/test_bound.py"),
    ),
    Mutant(
        "label-weights-prior",
        "lost sum",
        "The prior variance of a feature has only its last label weight, not the mean over all.",
        "xmlgp/label_weights/posterior.py",
        "total[columns[e]] += (",
        "total[columns[e]] = (",
        ("tests/label_weights/test_updates.py",),
    ),
    Mutant(
        "pooled-variance",
        "factor 1/2",
        "Pooling with regression divides the variance of utilities by 2, not by 4.",
        "xmlgp/regression/regression.py",
        "variance *= self.weight**2",
        "variance *= self.weight",
        ("tests/regression/test_regression.py", "tests/mlgpf/test_predictor.py"),
    ),
    Mutant(
        "farthest-points",
        "wrong end",
        "The regression on neighbours predicts from the points that are farthest away.",
        "xmlgp/regression/neighbours.py",
        "[:, U - size :]",
        "[:, :size]",
        ("tests/regression/test_neighbours.py",),
    ),
    Mutant(
        "absent-labels",
        "lost term",
        "Labels that no neighbour has are pooled as if their predictions were one half.",
        "xmlgp/regression/neighbours.py",
        "mean += self.weight * logit(",
        "mean += 0 * logit(",
        ("tests/regression/test_neighbours.py",),
    ),
    Mutant(
        "dense-divergence",
        "lost term",
        "The divergence of dense weights has no gradient.",
        "xmlgp/gp/weight_space.py",
        "np.full(len(root), -1, dtype)",
        "np.full(len(root), 0, dtype)",
        ("tests/mlgpf/test_dense.py",),
    ),
    Mutant(
        "leave-one-out",
        "lost factor",
        "The errors of points left out are not divided by the diagonal of the inverse.",
        "xmlgp/regression/lengthscales.py",
        "errors = solved / diagonal[:, None]",
        "errors = solved",
        ("tests/regression/test_dense.py",),
    ),
    Mutant(
        "dense-center",
        "lost term",
        "Dense features are not centred.",
        "xmlgp/data/features.py",
        "values -= self.center[start:stop].astype(values.dtype)",
        "pass",
        ("tests/mlgpf/test_dense.py",),
    ),
    Mutant(
        "dense-pool-weight",
        "wrong value",
        "The pool takes the first weight, whichever ranks held-out points best.",
        "xmlgp/mlgpf/held_out.py",
        "best = int(np.argmax([self._ndcg(ranked) for ranked in rankings]))",
        "best = 0",
        ("tests/mlgpf/test_dense.py",),
    ),
    Mutant(
        "dense-never-zero",
        "wrong condition",
        "Dense features join even where words alone rank held-out points better.",
        "xmlgp/mlgpf/dense_weights.py",
        "if score <= alone:",
        "if weights[:2] == (0, 0):",
        ("tests/mlgpf/test_dense_weights.py",),
    ),
    Mutant(
        "joint-overwrites",
        "wrong value",
        "The joint latent functions take the place of those of words.",
        "xmlgp/mlgpf/dense_weights.py",
        "np.hstack([words[mean], joint[mean]])",
        "np.hstack([joint[mean], joint[mean]])",
        ("tests/mlgpf/test_dense_weights.py",),
    ),
    Mutant(
        "dropped-blocks-stay",
        "wrong condition",
        "No block of dense features is dropped.",
        "xmlgp/mlgpf/dense_weights.py",
        "if without[best] < score:",
        "if without:",
        ("tests/mlgpf/test_dense_weights.py",),
    ),
    Mutant(
        "search-before-pool",
        "wrong value",
        "The first of many labels are sought by their probabilities before the pool with neighbours.",
        "xmlgp/mlgpf/predictor.py",
        "self._pooled_with_absent.best_labels(self._weakened(points.batch), count, nodes)",
        "self._utilities.best_labels(points.batch, count, nodes)",
        ("tests/mlgpf/test_dense_weights.py",),
    ),
    # Mathematics of BMLPL.
    Mutant(
        "omega-half",
        "factor 1/2",
        "The means of the Polya-Gamma variables are twice too large.",
        "xmlgp/bmlpl/activations.py",
        "mean = real(0.5) * total * ratio",
        "mean = total * ratio",
        ("tests/bmlpl/test_activations.py", "tests/bmlpl/test_least_squares.py"),
    ),
    Mutant(
        "counts-sign",
        "sign",
        "In the log likelihood of the latent counts, the rates of positive labels have the wrong sign.",
        "xmlgp/bmlpl/counts.py",
        "zero) + rate",
        "zero) - rate",
        ("tests/bmlpl/test_counts.py",),
    ),
    Mutant(
        "gibbs-shapes",
        "off by one",
        "Gibbs sampling draws the shapes r from a gamma distribution with one table too many.",
        "xmlgp/bmlpl/gibbs.py",
        "standard_gamma(1 + tables)",
        "standard_gamma(2 + tables)",
        ("tests/bmlpl/test_conditionals.py", "tests/bmlpl/test_gibbs.py"),
    ),
    Mutant(
        "weights-noise-root",
        "lost root",
        "Samples of the weights by conjugate gradients have noise of the wrong variance.",
        "xmlgp/bmlpl/least_squares.py",
        "np.sqrt(system.precision_matrix)",
        "(system.precision_matrix)",
        ("tests/bmlpl/test_least_squares.py",),
    ),
    Mutant(
        "predictive-series-sign",
        "sign",
        "In predictions, the second term of the series of log(1 + z) has the wrong sign.",
        "xmlgp/bmlpl/predictor.py",
        "in (-2, 3)[:terms]",
        "in (2, 3)[:terms]",
        ("tests/bmlpl/test_predictor.py",),
    ),
    # Mathematics and training of GPC.
    Mutant(
        "collapsed-variance-sign",
        "sign",
        "The gradient of the collapsed bound with respect to point variances has the wrong sign.",
        "xmlgp/gpc/collapsed.py",
        "None, -0.5 * curvature)",
        "None, 0.5 * curvature)",
        ("tests/gpc/test_collapsed.py", "tests/gpc/test_inference.py"),
    ),
    Mutant(
        "taylor-keeps-last",
        "lost comparison",
        "vi-taylor returns the hyperparameters of its last iteration, not those of the highest bound.",
        "xmlgp/gpc/inference.py",
        "if bound > highest:",
        "if bound is not None:",
        ("tests/gpc/test_inference.py",),
    ),
    # Metrics.
    Mutant(
        "ndcg-discount",
        "off by one",
        "nDCG discounts the first label as if it were the second.",
        "xmlgp/metrics/ranking.py",
        "np.arange(deepest) + 2",
        "np.arange(deepest) + 3",
        ("tests/metrics/test_ranking.py",),
    ),
    Mutant(
        "propensity-constant",
        "off by one",
        "The constant of propensities is log N, not log N - 1.",
        "xmlgp/metrics/propensity.py",
        "(np.log(n_points) - 1)",
        "np.log(n_points)",
        ("tests/metrics/test_propensity.py",),
    ),
    Mutant(
        "macro-absent",
        "wrong set",
        "Macro measures of some points are over all labels, not over those that these points have.",
        "xmlgp/metrics/macro.py",
        "np.count_nonzero(true, axis=1)",
        "true.shape[1]",
        ("tests/metrics/test_macro.py",),
    ),
    Mutant(
        "decile-middle",
        "off by one",
        "A label is in the decile where its pairs end, not in that of their middle.",
        "xmlgp/metrics/deciles.py",
        "ends - counts[order] / 2",
        "ends",
        ("tests/metrics/test_deciles.py",),
    ),
    Mutant(
        "table-rows",
        "off by one",
        "A point without a row in a table of labels gets those of the last point.",
        "xmlgp/runs/matching.py",
        "np.append(np.diff(listed.scores.indptr), 0)",
        "np.diff(listed.scores.indptr)",
        ("tests/cli/test_evaluate.py",),
    ),
    Mutant(
        "open-labels",
        "lost factor",
        "Lines of scores without a number of labels have as many as they list, whatever the data have.",
        "xmlgp/runs/matching.py",
        "K=max(listed.scores.K, declared)",
        "K=listed.scores.K",
        ("tests/cli/test_evaluate.py",),
    ),
    Mutant(
        "auc-negatives",
        "lost term",
        "The interval of an area under the ROC curve leaves out chance in the choice of the negatives.",
        "xmlgp/metrics/auc.py",
        " + losses / negatives / n_positive - area",
        "",
        ("tests/metrics/test_auc.py",),
    ),
    # Training.
    Mutant(
        "adam-correction",
        "lost factor",
        "Adam does not correct the bias of its mean of gradients.",
        "xmlgp/training/optimisers.py",
        " / (1 - self.decay_mean**self.step_count)",
        "",
        ("tests/training/test_optimisers.py",),
    ),
    Mutant(
        "minibatch-scale",
        "lost factor",
        "The likelihood of a minibatch is not scaled by N/B.",
        "xmlgp/training/minibatches.py",
        "pairs, labels.shape[0] / len(rows), sample)",
        "pairs, 1.0, sample)",
        ("tests/training/test_minibatches.py", "tests/gp/test_minibatches.py"),
    ),
    Mutant(
        "negative-weight",
        "lost factor",
        "A negative label that is sampled several times counts once.",
        "xmlgp/training/minibatches.py",
        "times / (count * probability",
        "1 / (count * probability",
        ("tests/training/test_minibatches.py", "tests/gp/test_minibatches.py"),
    ),
    Mutant(
        "pool-tolerance",
        "wrong sign",
        "Regression joins only if held-out points are ranked better with it, not unless they are ranked worse.",
        "xmlgp/mlgpf/held_out.py",
        "self._ndcg(ranked) - POOL_TOLERANCE",
        "self._ndcg(ranked) + POOL_TOLERANCE",
        ("tests/mlgpf/test_held_out.py",),
    ),
    Mutant(
        "checkpoint-moments",
        "missing state",
        "Checkpoints lack the averages of the optimiser, so a resumed run makes different steps.",
        "xmlgp/mlgpf/stochastic.py",
        'arrays |= {f"optimiser.',
        '{} | {f"optimiser.',
        ("tests/training/test_contract.py",),
    ),
    Mutant(
        "checkpoint-random",
        "missing state",
        "A resumed run starts its random numbers from the seed again.",
        "xmlgp/training/loop.py",
        'state = facts["random"]',
        'state, facts["random"]',
        ("tests/training/test_loop.py", "tests/training/test_contract.py"),
    ),
    # Files, signals, locks and threads.
    Mutant(
        "no-fsync",
        "missing fsync",
        "A new file is renamed into place before its content is on the disk.",
        "xmlgp/runtime/atomic_files.py",
        "sync_file(stream.fileno())",
        "stream.tell()",
        ("tests/runtime/test_atomic_files.py", "tests/model_folder/test_folder.py", "tests/cli/test_full_disk.py"),
    ),
    Mutant(
        "leftover",
        "missing clean-up",
        "When a file cannot be written, its temporary file remains.",
        "xmlgp/runtime/atomic_files.py",
        "_remove(temporary)",
        "temporary.exists()",
        ("tests/runtime/test_atomic_files.py",),
    ),
    Mutant(
        "swallowed-signal",
        "ignored signal",
        "A signal that arrives while signals are deferred is lost at the end of the block.",
        "xmlgp/runtime/interrupts.py",
        "        _state.deferred = False\n    raise_pending_signal()",
        "        _state.deferred = False",
        ("tests/runtime/test_interrupts.py", "tests/cli/test_interruption.py"),
    ),
    Mutant(
        "signal-status",
        "exit status",
        "A command that a signal ends exits with status 1, not 128 + n.",
        "xmlgp/cli/__init__.py",
        "Exit(error.status)",
        "Exit(1)",
        ("tests/cli/test_main.py", "tests/cli/test_interruption.py"),
    ),
    Mutant(
        "shared-lock",
        "lost lock",
        "Two processes can write a model folder at the same time, because none takes the lock.",
        "xmlgp/runtime/locks.py",
        "lock.acquire(timeout=PATIENCE_SECONDS)",
        "pass",
        ("tests/model_folder/test_lock.py", "tests/runtime/test_locks.py"),
    ),
    Mutant(
        "refusing-look",
        "lost lock",
        "A look at who holds a lock has a process that wants it refused.",
        "xmlgp/runtime/locks.py",
        "acquire(timeout=PATIENCE_SECONDS)",
        "acquire(timeout=0)",
        ("tests/runtime/test_locks.py",),
    ),
    Mutant(
        "abandoned",
        "missing check",
        "What a living process is writing is taken for what a killed one has left, and removed.",
        "xmlgp/runtime/atomic_files.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n        # Another",
        "        # Another",
        ("tests/runtime/test_atomic_files.py", "tests/runtime/test_locks.py"),
    ),
    Mutant(
        "lost-exception",
        "lost exception",
        "An error in another thread is not raised, and the caller continues with a part of the results.",
        "xmlgp/runtime/threads.py",
        "            future.result()\n    return [",
        "            future.exception()\n    return [",
        ("tests/runtime/test_threads.py",),
    ),
    # Data.
    Mutant(
        "line-number",
        "off by one",
        "Errors in data files name the line after the wrong one.",
        "xmlgp/data/repository_format.py",
        "raise DataFormatError(path, first_line + row, reason)",
        "raise DataFormatError(path, first_line + row + 1, reason)",
        ("tests/data/test_repository_format.py",),
    ),
    Mutant(
        "duplicate-features",
        "missing check",
        "The reader accepts a point that has a feature twice.",
        "xmlgp/data/repository_format.py",
        "in ((label_matrix, indices.label), (features, indices.feature)):",
        "in ((label_matrix, indices.label),):",
        ("tests/data/test_repository_format.py",),
    ),
    Mutant(
        "stale-cache",
        "missing check",
        "The cached copy of another file is used.",
        "xmlgp/data/cache.py",
        "if digests[TEXT] != text_digest:",
        "if not digests[TEXT]:",
        ("tests/data/test_cache.py",),
    ),
    Mutant(
        "fetch-checksum",
        "missing check",
        "A downloaded file with a wrong checksum is accepted.",
        "xmlgp/data/fetch.py",
        "if file.checksums and {",
        "if file.checksums is None and {",
        ("tests/data/test_fetch.py", "tests/cli/test_fetch.py"),
    ),
    # Prediction.
    Mutant(
        "tied-labels",
        "order",
        "Of labels with equal scores, the one with the higher number comes first.",
        "xmlgp/prediction/top_k.py",
        "while position > 0 and value > best[i, position - 1]:",
        "while position > 0 and value >= best[i, position - 1]:",
        ("tests/prediction/test_top_k.py", "tests/prediction/test_predictor.py"),
    ),
    Mutant(
        "prediction-memory",
        "missing limit",
        "All points are scored at once; --memory has no effect.",
        "xmlgp/prediction/predictor.py",
        "chunk = max(1, (memory << 20) // needed)",
        "chunk = max(1, features.shape[0])",
        ("tests/prediction/test_predictor.py", "tests/mlgpf/test_predictor.py", "tests/cli/test_predict.py"),
    ),
    # The model folder.
    Mutant(
        "path-outside",
        "missing check",
        "model.json may name arrays outside the model folder.",
        "xmlgp/model_folder/arrays.py",
        """entry["file"] == f"{FOLDER}/{Path(entry['file']).name}\"""",
        """entry["file"].startswith(f"{FOLDER}/")""",
        ("tests/model_folder/test_folder.py", "tests/model_folder/test_folder_damage.py"),
    ),
    Mutant(
        "index-out-of-range",
        "off by one",
        "A damaged model whose sparse arrays name a feature too many is accepted.",
        "xmlgp/linear_algebra/array_groups.py",
        "values < sizes[letter]",
        "values <= sizes[letter]",
        ("tests/linear_algebra/test_array_groups.py", "tests/mlgpf/test_damage.py"),
    ),
    # Settings, preprocessing, estimators, experiments.
    Mutant(
        "default-factors",
        "default",
        "Models have at least 50 latent functions by default, not 100.",
        "xmlgp/mlgpf/settings.py",
        "\nFACTORS = 100\n",
        "\nFACTORS = 50\n",
        ("tests/settings/test_settings.py", "tests/test_estimators.py", "tests/benchmarks/papers/test_papers.py"),
    ),
    Mutant(
        "standardise-variance",
        "off by one",
        "Features are scaled by the variance with divisor N - 1.",
        "xmlgp/preprocess/weighting.py",
        "squares / N",
        "squares / (N - 1)",
        ("tests/preprocess/test_weighting.py",),
    ),
    Mutant(
        "stored-zeros",
        "missing step",
        "Estimators treat zeros that a sparse Y stores as labels.",
        "xmlgp/inputs/memory.py",
        "labels.eliminate_zeros()",
        "labels.sort_indices()",
        ("tests/test_estimators.py",),
    ),
    Mutant(
        "running-clock",
        "missing step",
        "The time of measuring counts as training time in the curves of experiments.",
        "benchmarks/papers/gpc.py",
        "+= time.perf_counter() - now",
        "+= 0.0",
        ("tests/benchmarks/papers/test_gpc.py",),
    ),
    # Sweeps over the labels, calibration, assignment, text, learning on, clusters and reports.
    Mutant(
        "sweep-prior-mean",
        "lost term",
        "Updates of label weights draw towards zero, not towards the means of their prior.",
        "xmlgp/label_weights/updates.py",
        "precision[j] * (center[j] - m[j])",
        "precision[j] * -m[j]",
        ("tests/label_weights/test_updates.py", "tests/mlgpf/test_learning.py"),
    ),
    Mutant(
        "bar-number",
        "wrong type",
        "A bar gets numbers of NumPy, of which tqdm makes dates: training of thousands of points ends in a traceback.",
        "xmlgp/runtime/progress.py",
        'number = getattr(number, "item", lambda: number)()',
        "pass",
        ("tests/runtime/test_progress.py", "tests/terminal/test_commands.py"),
    ),
    Mutant(
        "bar-left",
        "lost clean-up",
        "Bars that an interruption leaves stay on the terminal beside its message.",
        "xmlgp/runtime/progress.py",
        "        bar.close()\n    if echoed",
        "        pass\n    if echoed",
        ("tests/runtime/test_progress.py", "tests/terminal/test_interaction.py"),
    ),
    Mutant(
        "orphan",
        "lost clean-up",
        "A worker of a server goes on after the process that started it was killed.",
        "xmlgp/runtime/processes.py",
        "prctl(PR_SET_PDEATHSIG, signal.SIGKILL)",
        "prctl(PR_SET_PDEATHSIG, 0)",
        ("tests/serving/test_server.py",),
    ),
    Mutant(
        "sampled-weight",
        "lost factor",
        "In a sweep, a sampled pair counts once, not for all pairs that it stands for.",
        "xmlgp/label_weights/pairs.py",
        "weight[e] = others / (end - sampled)",
        "weight[e] = 1",
        ("tests/label_weights/test_pairs.py",),
    ),
    Mutant(
        "second-sweep",
        "ignored argument",
        "The second sweep lists negatives without the label weights of the first.",
        "xmlgp/mlgpf/weight_space.py",
        "with_weights=i > 0",
        "with_weights=False",
        ("tests/mlgpf/test_sweeps.py",),
    ),
    Mutant(
        "held-out-leak",
        "leak",
        "Sweeps before the last see the labels of held-out points.",
        "xmlgp/mlgpf/sweep.py",
        "return without_labels_of(pairs, self._left_out)",
        "return pairs",
        ("tests/mlgpf/test_held_out.py",),
    ),
    Mutant(
        "calibration-tail",
        "lost factor",
        "Probabilities beyond rank R are not calibrated.",
        "xmlgp/prediction/calibration.py",
        "probabilities[:, RANKS:] * self._ratio(head)",
        "probabilities[:, RANKS:]",
        ("tests/prediction/test_calibration.py",),
    ),
    Mutant(
        "calibrated-std",
        "sign",
        "The slope of the calibration, and so a standard deviation, has a term of the wrong sign.",
        "xmlgp/prediction/calibration.py",
        "a / head + b / (1 - head)",
        "a / head - b / (1 - head)",
        ("tests/prediction/test_calibration.py",),
    ),
    Mutant(
        "long-assignment",
        "missing step",
        "A point with more labels above the threshold than are listed at first loses the others.",
        "xmlgp/prediction/assignment.py",
        "np.flatnonzero(sizes == k) if k < most",
        "np.flatnonzero(sizes > k) if k < most",
        ("tests/prediction/test_assignment.py",),
    ),
    Mutant(
        "assignment-limit",
        "ignored argument",
        "The set of highest expected F1 may have more labels than the limit.",
        "xmlgp/prediction/assignment.py",
        "largest = K if limit is None else min(limit, K)",
        "largest = K",
        ("tests/prediction/test_assignment.py",),
    ),
    Mutant(
        "choice-of-others",
        "ignored argument",
        "Labels chosen for a measure of all points count what the point itself had before.",
        "xmlgp/prediction/label_choice.py",
        "hits[label] -= amount",
        "hits[label] -= 0.0",
        ("tests/prediction/test_label_choice.py",),
    ),
    Mutant(
        "choice-of-all-points",
        "ignored argument",
        "Labels are chosen for a measure of each block of points by itself.",
        "xmlgp/prediction/label_choice.py",
        'if self.measure == "psp":',
        "if self.measure:",
        ("tests/prediction/test_label_choice.py",),
    ),
    Mutant(
        "tuned-ties",
        "comparison",
        "Tuning splits labels with equal scores, which no threshold can.",
        "xmlgp/prediction/tuning.py",
        "if scores[i] < last and last < np.inf",
        "if scores[i] <= last and last < np.inf",
        ("tests/prediction/test_tuning.py",),
    ),
    Mutant(
        "minimum-count",
        "off by one",
        "The vocabulary lacks words that occur exactly as often as --min-count asks.",
        "xmlgp/text/word_counts.py",
        "self._occurrences >= analysis.min_count",
        "self._occurrences > analysis.min_count",
        ("tests/text/test_vectorize.py",),
    ),
    Mutant(
        "empty-label",
        "lost case",
        "Where a corpus is added, a document without labels gets the last known label.",
        "xmlgp/text/labels.py",
        "np.full(len(names) + 1, -1, np.int32)",
        "np.full(len(names) + 1, count - 1, np.int32)",
        ("tests/text/test_vectorize.py",),
    ),
    Mutant(
        "learned-bias",
        "sign",
        "Learning on adds the earlier log odds of known labels instead of subtracting them.",
        "xmlgp/mlgpf/growth.py",
        "change[: earlier.K] -= log_odds(",
        "change[: earlier.K] += log_odds(",
        ("tests/mlgpf/test_learning.py",),
    ),
    Mutant(
        "learned-copy",
        "forgotten copy",
        "Learning on changes the arrays of the model that it starts from, so that it does not write them.",
        "xmlgp/mlgpf/learning_steps.py",
        'parameters[name] = self._model[name].copy("K")',
        "parameters[name] = self._model[name]",
        ("tests/mlgpf/test_learning.py", "tests/runs/test_learn.py"),
    ),
    Mutant(
        "thinned-weight",
        "lost factor",
        "A point that stays in a thinned memory does not stand for those that go.",
        "xmlgp/mlgpf/replay.py",
        "self.weights[rows] / probabilities[rows]",
        "self.weights[rows] / 1",
        ("tests/mlgpf/test_replay.py",),
    ),
    Mutant(
        "replayed-twice",
        "counted twice",
        "Points that are replayed count in the prior of the label weights as well.",
        "xmlgp/mlgpf/learned_sweep.py",
        "rest = np.repeat(1 - shares, ",
        "rest = np.repeat(1 - 0 * shares, ",
        ("tests/mlgpf/test_replaying.py", "tests/mlgpf/test_learning.py"),
    ),
    Mutant(
        "measuring-moves",
        "wrong order",
        "Steps over all points move before the optimiser has the statistics of the trained parameters.",
        "xmlgp/mlgpf/stochastic.py",
        "if number >= self._measuring else 0.0",
        "if number >= 0 else 0.0",
        ("tests/mlgpf/test_stochastic.py",),
    ),
    Mutant(
        "replayed-negatives",
        "lost factor",
        "A replayed point without a label counts fully, also where the posterior of before stands for some points.",
        "xmlgp/label_weights/pairs.py",
        "self.weights[pairs.points[negative]] * shares[negative]",
        "self.weights[pairs.points[negative]]",
        ("tests/label_weights/test_pairs.py", "tests/mlgpf/test_learning.py"),
    ),
    Mutant(
        "unlisted-points",
        "ignored state",
        "Learning on lists the negatives of all points again, not only of those that no sweep has listed.",
        "xmlgp/mlgpf/incremental.py",
        "unlisted = replayed.points.shortlist[:, 0] == NOT_LISTED",
        "unlisted = replayed.points.shortlist[:, 0] != NOT_LISTED - 1",
        ("tests/mlgpf/test_replaying.py",),
    ),
    Mutant(
        "earlier-counts",
        "lost term",
        "BMLPL forgets the counts of earlier points when it learns on.",
        "xmlgp/bmlpl/learning.py",
        "= self._prior.counts + self._label_counts",
        "= self._label_counts",
        ("tests/bmlpl/test_learning.py",),
    ),
    Mutant(
        "learned-twice",
        "missing step",
        "Points are learned a second time if labels or features were added after them.",
        "xmlgp/runs/batch.py",
        'D = D - batch["D"]\n        K = K - batch["K"]',
        "pass",
        ("tests/runs/test_learn.py",),
    ),
    Mutant(
        "added-points-noise",
        "lost term",
        "Learning on ignores the noise variance in the residuals of the regression.",
        "xmlgp/regression/fitting.py",
        "residual -= noise_of(features) * weights[computed]",
        "residual -= 0",
        ("tests/regression/test_regression.py",),
    ),
    Mutant(
        "work-ahead",
        "missing limit",
        "All blocks of work are sent to a cluster at once, however many there are.",
        "xmlgp/work/cluster.py",
        "count = AHEAD * max(1, self._threads) - len(futures)",
        "room = 1 << 30",
        ("tests/work/test_cluster.py",),
    ),
    Mutant(
        "reliability-blocks",
        "lost factor",
        "In the reliability of a report, every block of points counts the same, however many probabilities it has.",
        "xmlgp/metrics/probabilities.py",
        "sums[:, : len(fewer.names)] += fewer.sums",
        "sums[:, : len(fewer.names)] += fewer.sums / np.maximum(fewer.sums[0], 1)",
        ("tests/report/test_evidence.py",),
    ),
    Mutant(
        "prediction-shards",
        "lost term",
        "Points are predicted in shards that depend on how a file was read in blocks.",
        "xmlgp/runs/shards.py",
        "min(len(ids), start + ROWS - count)",
        "min(len(ids), start + ROWS)",
        ("tests/work/test_on_cluster.py",),
    ),
    Mutant(
        "few-points",
        "lost term",
        "Few points are multiplied as small matrices, so that their last digits are others than among many.",
        "xmlgp/linear_algebra/dense.py",
        "max(2, count, -(-LARGE_PRODUCT // columns))",
        "count",
        ("tests/prediction/test_few_points.py",),
    ),
    Mutant(
        "any-token",
        "wrong condition",
        "Any token is right.",
        "xmlgp/serving/app.py",
        'if kind.lower() == "bearer" and hmac',
        'if kind.lower() == "bearer" or hmac',
        ("tests/serving/test_refusals.py",),
    ),
    Mutant(
        "stale-model",
        "wrong condition",
        "A server goes on with the model that it started with.",
        "xmlgp/serving/projects.py",
        "if stamp is None or stamp == self._stamp:",
        "if stamp is None or self._stamp:",
        ("tests/serving/test_projects.py",),
    ),
    Mutant(
        "endless-merge",
        "missing check",
        "Merge keys of a YAML file may stand for any number of pairs.",
        "xmlgp/data/checked_yaml.py",
        "if self.merged > MAX_MERGED:",
        "if self.merged < 0:",
        ("tests/data/test_catalogue.py",),
    ),
    Mutant(
        "raw-terminal",
        "missing check",
        "Names reach a terminal with the characters that reverse text.",
        "xmlgp/runtime/untrusted_text.py",
        'visible(text, "\\n\\t").encode',
        "text.encode",
        ("tests/runtime/test_untrusted_text.py",),
    ),
    Mutant(
        "forged-entry",
        "wrong condition",
        "A forged checkpoint names any file as an array, which is removed with the run.",
        "xmlgp/runs/interrupted.py",
        "all(is_entry(Path(path), entry) for entry in entries.values())",
        "all(isinstance(entry, dict) for entry in entries.values())",
        ("tests/runs/test_interrupted.py",),
    ),
    Mutant(
        "many-values",
        "wrong condition",
        "JSON of a few megabytes fills the memory with empty lists.",
        "xmlgp/runtime/untrusted_json.py",
        "> MOST_VALUES",
        "> MOST_VALUES**2",
        ("tests/runs/test_interrupted.py",),
    ),
    Mutant(
        "linked-lock",
        "lost clean-up",
        "A lock of a stranger's folder that is a hard link destroys the other file.",
        "xmlgp/runtime/locks.py",
        "status.st_nlink <= 1:",
        "status.st_nlink <= 9:",
        ("tests/runtime/test_locks.py",),
    ),
    Mutant(
        "file-vectorizer",
        "wrong condition",
        "A vectorizer in a model opens texts as files.",
        "xmlgp/text/vectorizer_parts.py",
        '"input": (lambda value: value == "content", "reads files"),',
        '"input": (lambda value: value != "nothing", "reads files"),',
        ("tests/text/test_fitted_vectorizer.py",),
    ),
    Mutant(
        "unreadable-names",
        "wrong condition",
        "Names are written that no one can read again.",
        "xmlgp/data/names.py",
        '    check_names(names)\n    return "".join',
        '    return "".join',
        ("tests/data/test_names.py",),
    ),
    Mutant(
        "document-link",
        "wrong condition",
        "A document may be a link to any file, whose words get into the model.",
        "xmlgp/text/document_folder.py",
        "if os.path.islink(file) and not",
        "if os.path.islink(file) and False and not",
        ("tests/text/test_document_folder.py",),
    ),
    Mutant(
        "merged-identifiers",
        "wrong condition",
        "Points whose identifiers differ in leading zeros only are taken as one.",
        "xmlgp/runs/identifiers.py",
        "return canonical if distinct and more else",
        "return canonical if more else",
        ("tests/runs/test_identifiers.py",),
    ),
    Mutant(
        "no-common-label",
        "lost case",
        "Labels that differ in case only are compared, and all measures are 0.",
        "xmlgp/runs/matching.py",
        "if listed and true and not listed & (true | known):",
        "if False:",
        ("tests/runs/test_common_names.py",),
    ),
    Mutant(
        "scores-as-truth",
        "missing check",
        "Scores that are given in the place of the data are taken for true labels.",
        "xmlgp/data/two_files.py",
        "wrong = rows.data != 1 if strict else rows.data < 0",
        "wrong = rows.data < 0",
        ("tests/data/test_two_files.py",),
    ),
    Mutant(
        "text-as-labels",
        "lost case",
        "The words of texts become labels where the columns are in another order.",
        "xmlgp/text/doubts.py",
        "longer = labels.total() > texts.total() and",
        "longer = False and",
        ("tests/text/test_files_of_people.py",),
    ),
    Mutant(
        "merged-rows",
        "lost case",
        "Rows of a table that a quote made one are read as one without a word.",
        "xmlgp/text/table_rows.py",
        "        if merged:",
        "        if False:",
        ("tests/text/test_files_of_people.py",),
    ),
    Mutant(
        "torn-words",
        "missing step",
        "Accents that are characters of their own tear words and make two labels of one.",
        "xmlgp/text/characters.py",
        'return unicodedata.normalize("NFC", INVISIBLE.sub("", text))',
        "return text",
        ("tests/text/test_word_counts.py",),
    ),
    Mutant(
        "endless-list",
        "missing check",
        "A cell of objects in Python's notation takes hundreds of times its size in memory.",
        "xmlgp/text/written_lists.py",
        "if len(text) > LONGEST:",
        "if False:",
        ("tests/text/test_files_of_people.py",),
    ),
    Mutant(
        "unlimited-piece",
        "missing limit",
        "A few bytes of a compressed file become any number of them in memory at once.",
        "xmlgp/data/streams.py",
        "    yield decompressor.decompress(piece, MOST_AT_ONCE)\n",
        "    yield decompressor.decompress(piece)\n",
        ("tests/text/test_vocabulary.py",),
    ),
    Mutant(
        "xz-dictionary",
        "missing limit",
        "A small xz file may ask for gigabytes to be decompressed.",
        "xmlgp/data/streams.py",
        "LZMADecompressor(memlimit=XZ_MEMORY)",
        "LZMADecompressor()",
        ("tests/data/test_streams.py",),
    ),
    Mutant(
        "workbook-bomb",
        "missing check",
        "A small workbook may expand to any size.",
        "xmlgp/text/table_files.py",
        "    if size > max(free, times * os.fstat(stream.fileno()).st_size):\n",
        "    if size < 0:\n",
        ("tests/text/test_table_files.py",),
    ),
    Mutant(
        "equal-texts",
        "missing limit",
        "Each of the equal texts that a few bytes of a Parquet file stand for takes memory.",
        "xmlgp/text/table_files.py",
        "read_dictionary=texts",
        "read_dictionary=[]",
        ("tests/text/test_table_files.py",),
    ),
    Mutant(
        "formula-cell",
        "missing step",
        "Names that begin like formulas become formulas of a workbook.",
        "xmlgp/prediction/table_output.py",
        '    cell.data_type = "s"\n',
        "    pass\n",
        ("tests/prediction/test_table_output.py",),
    ),
    Mutant(
        "split-share",
        "lost term",
        "Test points of a label are chosen without regard to those that rarer labels have.",
        "xmlgp/data/division.py",
        " - np.count_nonzero(part[some] == 1)",
        "",
        ("tests/data/test_division.py",),
    ),
    Mutant(
        "split-groups",
        "missing step",
        "Points of a second grouping may be in both parts.",
        "xmlgp/data/division.py",
        "    for values in groups:",
        "    for values in groups[:1]:",
        ("tests/data/test_division.py",),
    ),
    Mutant(
        "cut-cell",
        "missing check",
        "Texts too long for a cell of a workbook are cut without a word.",
        "xmlgp/prediction/table_output.py",
        "if len(value) > MOST_CHARACTERS:",
        "if len(value) < 0:",
        ("tests/prediction/test_table_output.py",),
    ),
    Mutant(
        "separator-trained",
        "missing check",
        "A model is trained on labels that another separator makes.",
        "xmlgp/text/label_rows.py",
        "_moving_share(division.separator, self._texts) < MOVING",
        "_moving_share(division.separator, self._texts) < 2",
        ("tests/text/test_label_rows.py",),
    ),
]


def main(arguments=None):
    """Run mutants; return the exit status: 0, 1 if a mutant survives, or 2 if one does not fit the code."""
    known = {mutant.name: mutant for mutant in MUTANTS}
    parser = argparse.ArgumentParser(description="Show which mutants of xmlgp the tests catch.")
    parser.add_argument("names", nargs="*", metavar="MUTANT", help="mutants to run (default: all)")
    parser.add_argument("--check", action="store_true", help="only check that each mutant fits the code")
    parser.add_argument("--likely-only", action="store_true", help="never run the whole suite")
    parser.add_argument("--markdown", type=Path, help="write the results to this file as a table")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - known.keys():
        parser.error(f"unknown mutants: {', '.join(sorted(unknown))}")
    mutants = [known[name] for name in options.names] or MUTANTS
    misfits = [text for text in map(misfit, mutants) if text]
    if misfits or options.check:
        print(*misfits, f"{len(mutants) - len(misfits)} of {len(mutants)} mutants fit the code", sep="\n")
        return 2 if misfits else 0
    results = []
    with tempfile.TemporaryDirectory(prefix="xmlgp-clean-") as clean:
        copy_project(Path(clean))
        for mutant in mutants:
            start = time.monotonic()
            verdict = run_mutant(mutant, Path(clean), options.likely_only)
            results.append((mutant, verdict))
            print(f"{mutant.name:24} {verdict}  ({time.monotonic() - start:.0f} s)", flush=True)
            if options.markdown:
                options.markdown.write_text(table(results), encoding="utf-8")
    killed = count_killed(results)
    print(f"{killed} of {len(results)} killed")
    return 0 if killed == len(results) else 1


def misfit(mutant):
    """Return why a mutant does not fit the code, or None if it does."""
    file = PROJECT / mutant.file
    if not file.is_file():
        return f"{mutant.name}: there is no {mutant.file}"
    text = file.read_text(encoding="utf-8")
    if (count := text.count(mutant.old)) != 1:
        return f"{mutant.name}: {mutant.file} has {mutant.old!r} {count} times, not once"
    try:
        compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
    except SyntaxError as error:
        return f"{mutant.name}: {mutant.file} with {mutant.new!r} does not compile: {error}"
    missing = [test for test in mutant.tests if not (PROJECT / test).exists()]
    return f"{mutant.name}: there are no tests {', '.join(missing)}" if missing else None


def run_mutant(mutant, clean, likely_only):
    """Return the verdict on a mutant, which starts with "killed", "survived" or "doubtful"."""
    with tempfile.TemporaryDirectory(prefix="xmlgp-mutant-") as folder:
        copy_project(Path(folder))
        mutate(mutant, Path(folder))
        runs = [(mutant.tests, LIKELY_LIMIT)]
        if not likely_only:
            runs.append((["tests"], SUITE_LIMIT))
        for tests, limit in runs:
            test = first_failure(Path(folder), tests, limit)
            # Without its parameter, which pytest may not accept in the form in which it prints it.
            if test and first_failure(clean, [test.partition("[")[0]] if "::" in test else tests, limit):
                return f"doubtful: {test} fails without the mutation, too"
            if test:
                return f"killed by {test}"
    return "survived"


def copy_project(folder):
    """Copy the project, with the loops that Numba has compiled: they are valid while files do not change."""

    def omitted(place, names):
        return OMITTED(place, names) | (set(OMITTED_FOLDERS) & set(names) if Path(place) == PROJECT else set())

    shutil.copytree(PROJECT, folder, ignore=omitted, dirs_exist_ok=True, symlinks=True)


def mutate(mutant, project):
    """Make the mistake in a copy of the project."""
    file = project / mutant.file
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    if "@compiled" in text:
        # Numba compiles a loop again if its own file changes, but not if the file of a loop that it calls does.
        for compiled in [*project.rglob("*.nbi"), *project.rglob("*.nbc")]:
            compiled.unlink()


def first_failure(project, tests, limit):
    """Run tests of a copy of the project; return the first that fails, or None if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider"]
    # The check of the mutants themselves fails for every mutant.
    command += ["--ignore=tests/test_mutants.py", *tests]
    with tempfile.TemporaryDirectory(prefix="xmlgp-home-") as home:
        # Tests must see neither an installed xmlgp nor the cache of the user.
        environment = os.environ | {"PYTHONPATH": str(project), "HOME": home}
        environment.pop("XDG_CACHE_HOME", None)
        imported = subprocess.run(
            [sys.executable, "-c", "import xmlgp; print(xmlgp.__file__)"],
            cwd=home, env=environment, capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        if Path(imported).parents[1].resolve() != project.resolve():
            raise SystemExit(f"tests would import {imported}, not the copy in {project}")
        process = subprocess.Popen(
            [*command, f"--basetemp={home}/tests"],
            cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return f"{' '.join(tests)} (no end in {limit} s)"
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode == 0:
        return None
    found = FAILED.search(output)
    if process.returncode not in (1, 2) and process.returncode >= 0 and not found:
        raise SystemExit(f"pytest ended with status {process.returncode}:\n{output}")
    return found[1] if found else f"{' '.join(tests)} (status {process.returncode})"


def count_killed(results):
    """Return the number of mutants that are killed."""
    return sum(verdict.startswith("killed") for _, verdict in results)


def table(results):
    """Return the results as a table in Markdown."""
    lines = [
        f"{count_killed(results)} of {len(results)} mutants are killed.",
        "",
        "| mutant | kind | file | result |",
        "|---|---|---|---|",
    ]
    for mutant, verdict in results:
        shown = verdict.replace("|", "\\|")
        lines.append(f"| {mutant.name} | {mutant.kind} | `{mutant.file}` | {shown} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
