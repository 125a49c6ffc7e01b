"""The record of MLGPF."""

from xmlgp.mlgpf.learning import learn
from xmlgp.mlgpf.memory import memory_parts
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.settings import PAIRS_LIMIT, MLGPFSettings
from xmlgp.mlgpf.train import train
from xmlgp.model import Model
from xmlgp.preprocess.pipeline import find_inducing_inputs

__all__ = ["MLGPF"]


def _notes(settings, dataset):
    """Yield which way of training was chosen, in a sentence."""
    if settings.in_weight_space and dataset.N * dataset.K > PAIRS_LIMIT:
        pairs = f"{dataset.N * dataset.K / 1e6:,.0f} million pairs of points and labels"
        yield f"with {pairs} the default is --inducing features, without early stopping"


def _review(settings, description):
    """Yield what happened in a training, in sentences."""
    last, validation = description["history"][-1], description["validation"]
    if validation and settings.refit:
        count, epochs = len(validation), last["epoch"]
        if epochs > count:
            score = validation[-1]["ndcg@5"]
            yield (
                f"nDCG@5 of the held-out points was highest near the end of {count} epochs ({score:.2f}); "
                f"all points were then trained on for {epochs}"
            )
        else:
            score = validation[epochs - 1]["ndcg@5"]
            yield (
                f"nDCG@5 of the held-out points was highest after {epochs} of {count} epochs ({score:.2f}); "
                "all points were then trained on for as many"
            )
    elif validation:
        yield "the parameters are those of the epoch that ranked the held-out points best"
    if "parameters.regression.weights" in description["arrays"]:
        reason = ", which did not rank the held-out points worse" if validation else ""
        yield f"scores are pooled with those of exact GP regression on all points{reason}"
    if "parameters.calibration" in description["arrays"]:
        yield "probabilities are calibrated on the held-out points"
    if "learning_rate" in last:
        yield f"trained with the learning rate {last['learning_rate']:g} at the end"


MLGPF = Model(
    settings=MLGPFSettings,
    summary="Gaussian-process factor model",
    preprocess=find_inducing_inputs,
    train=train,
    predictor=MLGPFPredictor,
    memory=memory_parts,
    notes=_notes,
    review=_review,
    learn=learn,
    on_cluster=True,
)
