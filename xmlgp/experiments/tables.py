"""The tables of experiments as lines of Markdown, from rows of `collect`: the papers' numbers, ours, the difference."""

import numpy as np
from scipy.stats import linregress

__all__ = [
    "accuracy_table",
    "auc_table",
    "minutes_table",
    "precision_table",
    "restarts_table",
    "seconds_until_settled",
    "share_table",
]

PRECISIONS = ("P@1", "P@3", "P@5")

#: The seconds of the bound and of its KL terms.
TIMES = ("bound_s", "kl_s")

#: The measures of [L] besides precision.
FURTHER_MEASURES = ("nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "PSnDCG@3", "PSnDCG@5")

#: Percentage points: a method has arrived when its accuracy stays this close to the best.
NEAR = 0.5


def precision_table(rows):
    """Yield the lines of a table of precision in %, and of the seconds of the bound and of its KL terms."""
    yield from _head("data set", "method", *(f"{n} paper / ours / difference" for n in PRECISIONS), "bound s", "KL s")
    for row in rows:
        theirs = row["paper"] if isinstance(row["paper"], dict) else {"p": row["paper"]}
        paper, cells = theirs.get("p"), []
        for i, name in enumerate(PRECISIONS):
            ours = row["measures"][name]["mean"]
            cells.append(f"{paper[i]:.2f} / {ours:.2f} / {ours - paper[i]:+.2f}" if paper else f"— / {ours:.2f} / —")
        times = [f"{theirs[key]} / {row[key]:.4f}" if key in theirs else f"{row[key]:.4f}" for key in TIMES]
        yield _line(row["dataset"], row["method"], *cells, *times)
    for dataset, method, paper in _published(rows):
        if isinstance(paper, list):
            yield _line(dataset, method, *(f"{value:.2f} / — / —" for value in paper), "", "")


def _published(rows):
    """Yield data set, method and the paper's numbers of the methods that have no row of their own."""
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        others = next(row["others"] for row in rows if row["dataset"] == dataset)
        ran = {row["method"] for row in rows if row["dataset"] == dataset}
        yield from ((dataset, f"{method} (published)", paper) for method, paper in others.items() if method not in ran)


def minutes_table(rows):
    """Yield the lines of a table of minutes per epoch."""
    yield from _head("data set", "method", "minutes per epoch, paper", "ours", "times faster")
    for row in rows:
        ours, paper = row["minutes_an_epoch"], row["paper"]
        faster = f"{paper / ours:.0f}" if paper else "—"
        yield _line(row["dataset"], row["method"], paper or "—", f"{ours:.4f}", faster)


def auc_table(rows):
    """Yield the lines of a table of AUC, precision in % and seconds."""
    averages = ("AUC_instance", "AUC_micro", "AUC_macro")
    yield from _head("data set", "method", "topics", "AUC, paper", *averages, *PRECISIONS, "seconds")
    for row in rows:
        means = {name: value["mean"] for name, value in row["measures"].items()}
        paper = "—" if row["paper"] is None else f"{row['paper']:.4f}"
        ours = *(f"{means[name]:.4f}" for name in averages), *(f"{means[name]:.2f}" for name in PRECISIONS)
        yield _line(row["dataset"], row["method"], row["topics"], paper, *ours, f"{row['seconds']:.1f}")
    for dataset, method, paper in _published(rows):
        yield _line(dataset, method, "", f"{paper:.4f}", *[""] * 7)


def share_table(rows):
    """Yield the lines of a table of seconds by share of the positive labels, and the straight line through them."""
    yield from _head("data set", "method", "share of the positive labels", "topics", "seconds", "AUC_instance")
    for row in rows:
        area = row["measures"]["AUC_instance"]["mean"]
        share = f"{row['settings']['revealed']:.0%}"
        yield _line(row["dataset"], row["method"], share, row["topics"], f"{row['training_s']:.2f}", f"{area:.4f}")
    if len(rows) > 1:
        fit = linregress([row["settings"]["revealed"] for row in rows], [row["training_s"] for row in rows])
        yield ""
        line = f"{fit.intercept:.2f} + {fit.slope:.2f} × share"
        yield f"Seconds = {line}, which explains {fit.rvalue**2:.1%} of the variance."


def accuracy_table(rows):
    """Yield the lines of a table of final accuracies and of the time to near-best accuracy, then the learning rates."""
    arrived = f"seconds to within {NEAR} of the best"
    yield from _head("data set", "method", "accuracy %", "log loss", "bound", arrived, "seconds", "iterations", "ended")
    best = {}
    for row in rows:
        best[row["dataset"]] = max(best.get(row["dataset"], 0), row["measures"]["accuracy"]["mean"])
    for row in rows:
        last = row["history"][-1]
        settled = seconds_until_settled(row["history"], best[row["dataset"]] - NEAR)
        cells = [f"{last['accuracy']:.2f}", f"{last['log_loss']:.4f}", f"{last['bound']:.1f}"]
        cells += ["—" if settled is None else f"{settled:.3g}", f"{last['seconds']:.3g}", f"{last['epoch']:.4g}"]
        yield _line(row["dataset"], row["method"], *cells, row["ended"])
    for row in rows:
        if row["pilots"]:
            found = [f"{pilot['bound']:.1f}" if "bound" in pilot else pilot["ended"] for pilot in row["pilots"]]
            rates = [f"{pilot['learning_rate']:g}" for pilot in row["pilots"]]
            tried = ", ".join(map(": ".join, zip(rates, found, strict=True)))
            chosen, batch_size = row["settings"]["learning_rate"], row["settings"]["batch_size"]
            yield ""
            yield (
                f"{row['dataset']}, {row['method']}: minibatches of {batch_size}; learning rate {chosen:g}, which had "
                f"the highest bound after a quarter of the time ({tried})."
            )


def restarts_table(rows):
    """Yield the lines of a table of means ± standard deviations over restarts."""
    names = (*PRECISIONS, *FURTHER_MEASURES)
    yield from _head("data set", "method", "", "restarts", *names, "bound")
    for row in rows:
        cells = [_spread(row["measures"][name].values(), 2) for name in names]
        bound = (np.mean(row["bound"]), np.std(row["bound"], ddof=min(1, len(row["bound"]) - 1)))
        yield _line(row["dataset"], row["method"], row["variant"], row["restarts"], *cells, _spread(bound, 0))


def _spread(mean_and_std, digits):
    mean, std = mean_and_std
    return f"{mean:.{digits}f} ± {std:.{digits}f}" if std else f"{mean:.{digits}f}"


def _head(*names):
    return _line(*names), _line(*["---"] * len(names))


def _line(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def seconds_until_settled(history, least):
    """Return the seconds from which on every accuracy of a history is at least a given one, or None."""
    settled = None
    for moment in reversed(history):
        if moment["accuracy"] < least:
            break
        settled = moment["seconds"]
    return settled
