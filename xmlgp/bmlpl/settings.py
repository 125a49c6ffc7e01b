"""Settings of BMLPL, the model of topics of labels."""

from dataclasses import dataclass
from typing import ClassVar

from xmlgp.errors import ClashError
from xmlgp.settings import shared
from xmlgp.settings.fields import EPOCHS_LIMIT, Settings, setting

__all__ = ["BMLPLSettings"]

#: Iterations where none are asked for, by inference.
USUAL_ITERATIONS = {"em-cg": 100, "em": 100, "online-em": 20, "gibbs": 200}

#: Conjugate gradients end in far fewer.
CG_STEPS_LIMIT = 1000


@dataclass(frozen=True)
class BMLPLSettings(Settings):
    """Settings of a BMLPL model.

    Raises
    ------
    SettingsError
        For a value outside its limits, with the name and what is allowed; `ClashError` for values that do not fit each
        other.
    """

    model: ClassVar[str] = "bmlpl"
    only_of: ClassVar[dict] = {
        "cg_steps": ("em-cg",),
        "burn_in": ("gibbs",),
        "thinning": ("gibbs",),
        "batch_size": ("online-em",),
    }

    weighting: str = shared.weighting()
    inference: str = setting(
        "em-cg",
        "Inference by em-cg (EM by conjugate gradients), em (with exact M-steps, for at most 16000 features; hundreds "
        "of times slower), online-em (in minibatches) or gibbs (sampling; minutes to hours).",
        choices=("em-cg", "em", "online-em", "gibbs"),
    )
    topics: int | None = setting(
        None,
        "Topics: distributions over labels; when not given 200. There are at most as many as labels.",
        symbol="T",
        minimum=1,
        optional=True,
    )
    iterations: int | None = shared.iterations(USUAL_ITERATIONS, "passes over the data")
    cg_steps: int = setting(2, "Conjugate gradient steps of an M-step with em-cg.", minimum=1, maximum=CG_STEPS_LIMIT)
    concentration: float = setting(0.01, "Concentration η of the Dirichlet prior of topics.", above=0)
    precision: float = setting(
        0.3,
        "Precision τ of the Gaussian prior of the weights of features; where it is learned, to start from.",
        above=0,
    )
    learn_precision: bool = setting(
        False,
        "Learn a precision τ of each feature by type-II maximum likelihood; with rare labels it can grow too large.",
    )
    burn_in: int | None = setting(
        None,
        "Iterations of gibbs before samples are kept; half of all when not given.",
        minimum=0,
        maximum=EPOCHS_LIMIT,
        optional=True,
    )
    thinning: int = setting(5, "Iterations of gibbs from one sample that is kept to the next.", minimum=1)
    revealed: float = setting(
        1.0,
        "Share of the positive labels that training sees, a random one: the others are taken for unknown, to measure "
        "what missing labels cost.",
        above=0,
        maximum=1.0,
    )
    batch_size: int = shared.batch_size()
    dtype: str = shared.dtype()
    seed: int = shared.seed()

    def __post_init__(self):
        super().__post_init__()
        if self.inference == "gibbs" and self.burned >= self.passes:
            usual = "" if self.iterations else " when not given"
            told = f"{{burn_in}} is {self.burned}, but must be less than {{iterations}}, {self.passes}{usual}"
            raise ClashError(told, ("burn_in", "iterations"))
        if self.inference == "online-em" and self.learn_precision:
            told = "{inference} online-em learns no precisions, which {learn_precision} asks for"
            raise ClashError(told, ("inference", "learn_precision"))

    @property
    def passes(self):
        """Passes over the data."""
        return self.iterations or USUAL_ITERATIONS[self.inference]

    @property
    def burned(self):
        """Sweeps of gibbs before samples are kept."""
        return self.passes // 2 if self.burn_in is None else self.burn_in
