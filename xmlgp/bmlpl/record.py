"""The record of BMLPL."""

from xmlgp.bmlpl.learning import learn
from xmlgp.bmlpl.predictor import BMLPLPredictor
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.bmlpl.topics import list_topics
from xmlgp.bmlpl.train import train
from xmlgp.model import Model
from xmlgp.preprocess.pipeline import weight_features

__all__ = ["BMLPL"]


def _notes(settings, dataset):
    """Yield what a user should know before training."""
    if (settings.topics or 0) > dataset.K:
        yield f"there are only {dataset.K} labels, so {dataset.K} topics are used"


BMLPL = Model(
    settings=BMLPLSettings,
    summary="topics of labels, learned from positive labels alone",
    preprocess=weight_features,
    train=train,
    predictor=BMLPLPredictor,
    objective="log_posterior",
    epoch="iteration",
    notes=_notes,
    learn=learn,
    topics=list_topics,
)
