"""Settings of BMLPL, the model of topics of labels."""

from dataclasses import dataclass
from typing import ClassVar

from xmlgp.models import shared_settings
from xmlgp.models.fields import (
    EPOCHS_LIMIT,
    InferenceMethod,
    InferenceSettings,
    inference_setting,
    iterations_setting,
    setting,
)
from xmlgp.runtime.errors import SettingsError

__all__ = ["DEFAULT_TOPICS", "INFERENCES", "BMLPLSettings"]

#: Default number of topics, at most K.
DEFAULT_TOPICS = 200

#: The inference methods, by the value of the setting `inference`.
INFERENCES = {
    "em-cg": InferenceMethod(
        "xmlgp.models.bmlpl.inference:EM", "EM with conjugate gradient M-steps", iterations=100, settings=("cg_steps",)
    ),
    "em": InferenceMethod(
        "xmlgp.models.bmlpl.inference:ExactEM",
        "EM with exact M-steps, for at most 16000 features; hundreds of times slower",
        iterations=100,
    ),
    "online-em": InferenceMethod(
        "xmlgp.models.bmlpl.online_em:OnlineEM", "EM with minibatches", iterations=20, settings=("batch_size",)
    ),
    "gibbs": InferenceMethod(
        "xmlgp.models.bmlpl.gibbs:Gibbs",
        "Gibbs sampling; minutes to hours",
        iterations=200,
        settings=("burn_in", "thinning"),
    ),
}

#: Conjugate gradients converge in far fewer.
CG_STEPS_LIMIT = 1000


@dataclass(frozen=True)
class BMLPLSettings(InferenceSettings):
    """Settings of a BMLPL model.

    Raises
    ------
    SettingsError
        For a value that is not allowed, with the name and the limits, or values that do not fit each other.
    """

    model: ClassVar[str] = "bmlpl"
    inferences: ClassVar[dict[str, InferenceMethod]] = INFERENCES

    weighting: str = shared_settings.weighting()
    inference: str = inference_setting("em-cg", INFERENCES)
    topics: int | None = setting(
        None, "Topics, which are distributions over labels; at most K.", minimum=1, if_unset=str(DEFAULT_TOPICS)
    )
    iterations: int | None = iterations_setting(INFERENCES, "passes over the data")
    cg_steps: int = setting(2, "Conjugate gradient steps in an M-step of em-cg.", minimum=1, maximum=CG_STEPS_LIMIT)
    concentration: float = setting(0.01, "Concentration η of the Dirichlet prior of topics.", above=0)
    precision: float = setting(
        0.3,
        "Precision τ of the Gaussian prior of the feature weights; the initial one if precisions are learned.",
        above=0,
    )
    learn_precision: bool = setting(
        False,
        "Learn a precision τ for each feature by type-II maximum likelihood; with rare labels it can become too large.",
    )
    burn_in: int | None = setting(
        None, "Iterations of gibbs before samples are kept.", minimum=0, maximum=EPOCHS_LIMIT, if_unset="half of all"
    )
    thinning: int = setting(5, "Iterations of gibbs between kept samples.", minimum=1)
    revealed: float = setting(
        1.0,
        "Random share of the positive labels that training sees; the others count as negative, to measure the cost of "
        "missing labels.",
        above=0,
        maximum=1.0,
    )
    batch_size: int = shared_settings.batch_size()
    dtype: str = shared_settings.dtype()
    seed: int = shared_settings.seed()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inference == "gibbs" and self.burned >= self.passes:
            default = "" if self.iterations else " by default"
            raise SettingsError(f"burn_in is {self.burned}, but must be less than iterations, {self.passes}{default}")
        if self.inference == "online-em" and self.learn_precision:
            raise SettingsError("inference=online-em does not support learn_precision=true")

    @property
    def burned(self) -> int:
        """Number of sweeps of gibbs before samples are kept."""
        return self.passes // 2 if self.burn_in is None else self.burn_in
