"""A cell of BMLPL: trained with the number of topics that held-out points choose, and measured by AUC as well."""

import dataclasses

import numpy as np

from xmlgp.bmlpl.predictor import BMLPLPredictor
from xmlgp.bmlpl.train import train_topics
from xmlgp.experiments.scored import KS, stacked
from xmlgp.metrics.auc import areas_under_roc
from xmlgp.metrics.ranking import evaluate_ranking
from xmlgp.training.stopping import hold_out

__all__ = ["CHOOSE_BY", "run_bmlpl"]

#: Share of the training points that are held out to choose the number of topics, and the measure that chooses.
HELD_OUT, CHOOSE_BY = 0.2, "AUC_instance"


def run_bmlpl(cell, preprocessed, coordinates, data, test, propensity):
    """Return what a cell keeps: measures on the test points, history, curve, and how the topics were chosen.

    Parameters
    ----------
    cell : Cell
    preprocessed : Preprocessed
    coordinates : Coordinates
        Of the training points.
    data, test : Dataset
    propensity : ndarray, K
    """
    settings, curve = cell.settings, []

    def measures(parameters, features, labels):
        scores = stacked(BMLPLPredictor(settings, preprocessed, parameters).top(features, None))
        return evaluate_ranking(scores, labels, KS, propensity) | areas_under_roc(scores, labels)

    choice = {}
    counts = [max(1, round(share * data.K)) for share in cell.topic_shares]
    if len(counts) > 1:
        rows, held = hold_out(data.N, HELD_OUT, np.random.default_rng([settings.seed, 1]))
        others = data.features[held], data.labels[held]
        for count in counts:
            tried = dataclasses.replace(settings, topics=count)
            parameters, _ = train_topics(coordinates.select(rows), data.labels[rows], tried)
            choice[count] = measures(parameters, *others)[CHOOSE_BY]
        counts = [max(choice, key=choice.get)]
    if counts:
        settings = dataclasses.replace(settings, topics=counts[0])

    def after_pass(epoch, parameters):
        if cell.test_every and (epoch % cell.test_every == 0 or epoch == settings.passes):
            curve.append({"epoch": epoch} | measures(parameters(), test.features, test.labels))

    parameters, history = train_topics(coordinates, data.labels, settings, after_pass=after_pass)
    for point in curve:
        point["seconds"] = history[point["epoch"] - 1]["seconds"]
    return {
        "measures": measures(parameters, test.features, test.labels),
        "history": history,
        "curve": curve,
        "topics": len(parameters["shapes"]),
        "choice": choice,
    }
