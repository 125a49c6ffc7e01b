"""Every setting of a model: names, defaults and what is allowed, in one place.

The command line has one option for each field and takes its help from here; recipes of datasets.yaml are
mappings of these names; the model folder stores them.
"""

import dataclasses
import re
import sys
from dataclasses import dataclass, field

from xmlgp.errors import SettingsError
from xmlgp.excerpt import excerpt

__all__ = ["PREPROCESS_FIELDS", "Settings", "describe", "fields", "kind"]

#: NumPy's Gauss–Hermite nodes are tested up to this degree; from some hundreds on they overflow.
NODES_LIMIT = 100

#: Seeds of scikit-learn, which k-means and the randomised SVD come from, have 32 bits.
SEED_LIMIT = 2**32 - 1

#: A list of epochs fits into memory.
EPOCHS_LIMIT = 10**6

#: Any other integer counts something; a greater one is a slip and overflows somewhere.
COUNT_LIMIT = 10**9

#: Names that a message can show as they are.
NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def _setting(default, help_text, *, symbol=None, preprocess=False, optional=False, **limits):
    limits = {"choices": None, "minimum": None, "maximum": None, "above": None} | limits
    about = {"help": help_text, "symbol": symbol, "preprocess": preprocess, "optional": optional}
    return field(default=default, metadata=about | limits)


@dataclass(frozen=True)
class Settings:
    """Settings of an MLGPF model; each field's metadata holds its help text and limits.

    Raises
    ------
    SettingsError
        For a value outside its limits, with the name and what is allowed.
    """

    weighting: str = _setting(
        "root-idf",
        "Feature weighting: root-idf (log(1 + x) in place of x, times the root of the inverse document frequency), idf "
        "(times the inverse document frequency), both with rows then scaled to unit length, unit (that alone) or none.",
        choices=("root-idf", "idf", "unit", "none"),
        preprocess=True,
    )
    inducing: str = _setting(
        "free",
        "Inducing inputs: subspace (Z = A X̃ in a truncated SVD basis X̃) or free (Z itself).",
        choices=("subspace", "free"),
        preprocess=True,
    )
    basis_size: int = _setting(
        1000, "Basis vectors of the subspace; at most min(N, D) are used.", symbol="R", minimum=1, preprocess=True
    )
    inducing_count: int = _setting(200, "Inducing inputs; at most N are used.", symbol="M", minimum=1, preprocess=True)
    inducing_start: str = _setting(
        "rows",
        "Inducing inputs start from k-means centroids (kmeans) or random training points (rows).",
        choices=("kmeans", "rows"),
        preprocess=True,
    )
    inducing_fixed: bool = _setting(False, "Keep the inducing inputs at their start instead of optimising them.")
    kernel: str = _setting("linear", "Covariance function.", choices=("linear", "se", "se+linear"))
    ard: bool = _setting(True, "Automatic relevance determination: one weight a basis dimension or feature.")
    lengthscale: float = _setting(0.7, "Start of the lengthscale ℓ of an se kernel.", above=0)
    posterior: str = _setting(
        "shared-diagonal",
        "Family of q(u_p).",
        choices=("shared-diagonal", "diagonal", "cholesky"),
    )
    diagonal: float = _setting(1.0, "Start of the diagonal of Σ of q(u_p).", above=0)
    start: str = _setting(
        "newton",
        "Start of the loadings and of the means of q(u_p): newton (a damped Newton step for every label, its best "
        "approximation of rank P) or random.",
        choices=("newton", "random"),
    )
    factors: int = _setting(100, "Latent functions.", symbol="P", minimum=1)
    label_weights: bool | None = _setting(
        None,
        "Weights W of each label on its own features, beside the latent functions: f = Φ h + b + W x; when not given "
        "where there are ten times as many features as latent functions.",
        optional=True,
    )
    regression_points: int = _setting(
        25_000,
        "Where there are at most so many training points, and 5000 labels, utilities are pooled with those of Gaussian "
        "process regression on all points, if held-out points, where there are any, are ranked better by it; 0 for "
        "never.",
        minimum=0,
    )
    nodes: int = _setting(
        10,
        "Gauss–Hermite quadrature nodes; training uses fewer where variances are small.",
        minimum=1,
        maximum=NODES_LIMIT,
    )
    negatives: int | None = _setting(
        None,
        "Sampled negative labels a point in each step; all when not given. With few, larger minibatches do better.",
        minimum=1,
        optional=True,
    )
    sampling: str = _setting(
        "frequency",
        "How negatives are sampled: frequency (half of them in proportion to the frequencies of labels, the others "
        "uniformly) or uniform.",
        choices=("frequency", "uniform"),
    )
    optimiser: str = _setting("adam", "Optimiser.", choices=("adam", "adadelta"))
    learning_rate: float | None = _setting(
        None, "Learning rate; where not given 0.02 with adam and 1 with adadelta.", above=0, optional=True
    )
    schedule: str = _setting(
        "linear",
        "Learning rate over time: constant, or linear (constant for half of the steps, then falling to zero).",
        choices=("constant", "linear"),
    )
    epochs: int | None = _setting(
        None,
        "Passes over the data, at most; when not given as many as make 800 steps, and from 5 to 60.",
        minimum=1,
        maximum=EPOCHS_LIMIT,
        optional=True,
    )
    validation: float = _setting(
        0.1,
        "Share of the training points that training is stopped by; 0 to train on all to the last epoch.",
        minimum=0,
        maximum=0.5,
    )
    patience: int = _setting(10, "Epochs in a row without better nDCG@5 of these points that end training.", minimum=1)
    refit: bool = _setting(
        True, "Then train anew on all points, for as many epochs as were best, in place of keeping the best parameters."
    )
    batch_size: int = _setting(500, "Points a minibatch.", minimum=1)
    batch_size_first: int | None = _setting(
        None,
        "Points a minibatch of the first epoch, growing to the batch size by the last; when not given all are alike.",
        minimum=1,
        optional=True,
    )
    dtype: str = _setting("float32", "Precision of training.", choices=("float32", "float64"))
    seed: int = _setting(0, "Seed of everything random.", minimum=0, maximum=SEED_LIMIT, preprocess=True)

    def __post_init__(self):
        for spec in fields():
            _check(spec, getattr(self, spec.name))

    @classmethod
    def from_mapping(cls, mapping, where):
        """Return settings from a mapping of names to values, defaults for the rest.

        Parameters
        ----------
        mapping : mapping of str to object
        where : str
            Where the mapping comes from, for messages.

        Raises
        ------
        SettingsError
            For an unknown name or a value that is not allowed.
        """
        known = {spec.name for spec in fields()}
        unknown = sorted(map(_shown, set(mapping) - known))
        if unknown:
            raise SettingsError(f"{where}: {unknown[0]} is not a setting; there are {', '.join(sorted(known))}")
        try:
            return cls(**mapping)
        except SettingsError as error:
            raise SettingsError(f"{where}: {error}") from None

    def mapping(self):
        """Return all settings as a mapping of names to values."""
        return dict(vars(self))

    def preprocess_part(self):
        """Return the settings that preprocessing depends on, as a mapping."""
        return {name: getattr(self, name) for name in PREPROCESS_FIELDS}


def fields():
    """Return the dataclass fields of `Settings`, in order."""
    return dataclasses.fields(Settings)


PREPROCESS_FIELDS = tuple(spec.name for spec in fields() if spec.metadata["preprocess"])


def describe(spec):
    """Return the limits of a field in words, for messages: "an integer from 1 to 100"."""
    meta = spec.metadata
    if meta["choices"]:
        return "one of " + ", ".join(meta["choices"])
    if kind(spec) is bool:
        return "true or false"
    if kind(spec) is int:
        return f"an integer from {meta['minimum']} to {_greatest(meta)}"
    if meta["minimum"] is not None:
        return f"a number from {meta['minimum']} to {meta['maximum']}"
    return f"a finite number above {meta['above']}"


def kind(spec):
    """Return the type of a field's values: str, int, float or bool."""
    return spec.type.__args__[0] if spec.metadata["optional"] else spec.type


def _check(spec, value):
    meta, type_ = spec.metadata, kind(spec)
    if value is None and meta["optional"]:
        return
    # Python counts True as an integer and JSON writes 1.0 as 1.
    fits = isinstance(value, type_) or (type_ is float and isinstance(value, int))
    if isinstance(value, bool) and type_ is not bool:
        fits = False
    if fits and meta["choices"]:
        fits = value in meta["choices"]
    if fits and meta["minimum"] is not None:
        fits = meta["minimum"] <= value <= _greatest(meta)
    if fits and meta["above"] is not None:
        # Infinity, no number, and integers beyond all floats fail alike.
        fits = meta["above"] < value <= sys.float_info.max
    if not fits:
        raise SettingsError(f"{spec.name} is {excerpt(value)}, but must be {describe(spec)}")


def _shown(name):
    # YAML has keys of many types, which cannot all be compared with each other.
    return name if isinstance(name, str) and NAME.fullmatch(name) else excerpt(name)


def _greatest(meta):
    return meta["maximum"] or COUNT_LIMIT
