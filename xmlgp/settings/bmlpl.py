"""Settings of BMLPL, the model of topics of labels."""

from dataclasses import dataclass
from typing import ClassVar

from xmlgp.settings import shared
from xmlgp.settings.fields import EPOCHS_LIMIT, Settings, setting

__all__ = ["BMLPLSettings"]

#: Conjugate gradients end in far fewer.
CG_STEPS_LIMIT = 1000


@dataclass(frozen=True)
class BMLPLSettings(Settings):
    """Settings of a BMLPL model.

    Raises
    ------
    SettingsError
        For a value outside its limits, with the name and what is allowed.
    """

    model: ClassVar[str] = "bmlpl"

    weighting: str = shared.weighting()
    inference: str = setting(
        "em-cg",
        "Inference: em (exact M-steps), em-cg (conjugate gradients), online-em (minibatches) or gibbs (sampling).",
        choices=("em-cg", "em", "online-em", "gibbs"),
    )
    topics: int = setting(100, "Topics: distributions over labels.", symbol="T", minimum=1)
    iterations: int = setting(100, "Passes over the data.", minimum=1, maximum=EPOCHS_LIMIT)
    cg_steps: int = setting(2, "Conjugate gradient steps of an M-step with em-cg.", minimum=1, maximum=CG_STEPS_LIMIT)
    concentration: float = setting(0.1, "Concentration η of the Dirichlet prior of topics.", above=0)
    burn_in: int | None = setting(
        None, "Sweeps of gibbs before samples are kept; half of them when not given.", minimum=0, optional=True
    )
    thinning: int = setting(5, "Sweeps from one sample of gibbs that is kept to the next.", minimum=1)
    batch_size: int = shared.batch_size()
    dtype: str = shared.dtype()
    seed: int = shared.seed()
