"""The record of MLGPF."""

from xmlgp.mlgpf.memory import memory_parts
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import train
from xmlgp.model import Model
from xmlgp.preprocess.pipeline import find_inducing_inputs

__all__ = ["MLGPF"]


def _review(settings, description):
    """Yield what happened in a training, in sentences."""
    last, validation = description["history"][-1], description["validation"]
    if validation and settings.refit:
        count, epochs = len(validation), last["epoch"]
        if epochs > count:
            yield f"nDCG@5 of the held-out points was still rising after {count} epochs: {validation[-1]['ndcg@5']:.2f}"
        else:
            score = validation[epochs - 1]["ndcg@5"]
            yield f"nDCG@5 of the held-out points was highest after {epochs} of {count} epochs: {score:.2f}"
    elif validation:
        yield "the parameters are those of the epoch that ranked the held-out points best"
    if "parameters.regression.weights" in description["arrays"]:
        yield "utilities are pooled with those of exact GP regression on all points"
    if "learning_rate" in last:
        yield f"trained with the learning rate {last['learning_rate']:g} at the end"


MLGPF = Model(
    settings=MLGPFSettings,
    summary="Gaussian-process factor model",
    preprocess=find_inducing_inputs,
    train=train,
    predictor=MLGPFPredictor,
    memory=memory_parts,
    review=_review,
)
