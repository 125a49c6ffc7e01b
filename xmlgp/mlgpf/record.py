"""The record of MLGPF."""

from xmlgp.mlgpf.learning import learn
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.settings import FACTORS, MLGPFSettings
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


def _faster(settings):
    """Return what is faster than many latent functions, as docs/performance/index.md has it."""
    if settings.inducing == "features" and settings.factor_count > FACTORS:
        return f"--factors {FACTORS} takes about half the time, and lowers P@1 or P@5 by about half a percentage point"
    return None


def _details(description):
    """Yield what happened in a training, as titles and texts."""
    if "parameters.regression.weights" in description["arrays"]:
        yield "pooled", "with exact GP regression on all points"
    if rate := description["history"][-1].get("learning_rate"):
        yield "rate", f"learning rate {rate:g}, because training diverged with the one of the settings"


MLGPF = Model(
    settings=MLGPFSettings,
    summary="Gaussian-process factor model",
    preprocess=find_inducing_inputs,
    train=train,
    predictor=MLGPFPredictor,
    memory=lambda settings, dataset: settings.load_method().memory(dataset),
    unset=_unset,
    faster=_faster,
    details=_details,
    learn=learn,
    on_cluster=True,
)
