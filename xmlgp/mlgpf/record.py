"""The record of MLGPF."""

from xmlgp.mlgpf.learning import learn
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.stochastic import default_rate
from xmlgp.mlgpf.train import train
from xmlgp.mlgpf.weight_space import sweep_count
from xmlgp.model import Model
from xmlgp.preprocess.pipeline import find_inducing_inputs

__all__ = ["MLGPF"]


def _unset(settings, N, D, K):
    """Return what training uses where settings are unset."""
    settings = settings.for_shape(N, D, K)
    return {
        "inducing": settings.inducing,
        "factors": settings.factors,
        "label_weights": settings.inducing == "features" and sweep_count(settings, N, D, K) > 0,
        "negatives": "all",
        "optimiser": settings.optimiser or settings.method.optimiser,
        "learning_rate": default_rate(settings),
        "epochs": settings.epoch_count(N),
    }


def _review(settings, description):
    """Yield what happened in a training, in sentences."""
    last = description["history"][-1]
    if "parameters.regression.weights" in description["arrays"]:
        yield "scores are pooled with those of exact GP regression on all points"
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
    memory=lambda settings, dataset: settings.load_method().memory(dataset),
    unset=_unset,
    review=_review,
    learn=learn,
    on_cluster=True,
)
