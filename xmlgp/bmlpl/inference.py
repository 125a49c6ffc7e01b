"""The base class of the inference methods of BMLPL."""

from xmlgp.training.inference import Inference

__all__ = ["BMLPLInference"]


class BMLPLInference(Inference):
    """Base class of the inference methods of BMLPL; they maximise or sample from the posterior."""

    objective = "log_posterior"
    advice = "try another weighting or precision"
