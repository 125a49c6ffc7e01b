"""A training that was interrupted: what its checkpoint in the model folder says, and whether it may be gone on with."""

from dataclasses import fields
from pathlib import Path

from xmlgp import __version__
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.model_folder.arrays import is_entry
from xmlgp.model_folder.plain import is_plain
from xmlgp.models import MODELS, settings_from
from xmlgp.runtime.threads import core_count
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.training.checkpoints import read_checkpoint
from xmlgp.training.history import is_number

__all__ = ["CHECKPOINT", "Unfinished", "describe_run", "describe_value"]

CHECKPOINT = "checkpoint.npz"

FORMAT_VERSION = 1

#: Seconds of training that are not thrown away unasked.
WORTH_KEEPING = 60

#: Settings that came after the first checkpoints of this format, by model, at what those were made with.
LATER = {"mlgpf": {"expectations": "quadrature"}}

#: Names of the arrays that preprocessing leaves.
PREPROCESSED = {f"preprocess.{name}" for name in ("idf", "basis", "inducing", "scale", "center")}


def describe_run(data, settings, preprocess):
    """Return what a checkpoint says of the training that it is of, as JSON has it.

    Parameters
    ----------
    data : mapping
        Facts of the training data: N, D, K, fingerprint.
    settings : Settings
    preprocess : mapping
        Entries of the arrays that preprocessing left; empty before that.
    """
    return {
        "format": "xmlgp checkpoint",
        "format_version": FORMAT_VERSION,
        "written_by": f"xmlgp {__version__}",
        "cores": core_count(),
        "model": settings.model,
        "data": dict(data),
        "settings": settings.mapping(),
        "preprocess": dict(preprocess),
    }


class Unfinished:
    """A training that was interrupted.

    Attributes
    ----------
    checkpoint : Checkpoint
    data : dict
        Facts of its training data.
    settings : Settings
    preprocess : dict
        Entries of the arrays that preprocessing left; empty where it had not ended.
    step, steps : int
        Steps done and in all; 0 and 0 where training had not begun.
    seconds : float
        Seconds of training done, with those of the training that held-out points stopped.

    Raises
    ------
    ModelFolderError
        On opening a checkpoint that is damaged or of another format.
    """

    def __init__(self, checkpoint):
        about, facts = checkpoint.about, {"step": 0, "steps": 0, "seconds": 0.0, "spent": 0.0}
        if checkpoint.facts is not None:
            facts = checkpoint.facts
        if about.get("format") != "xmlgp checkpoint":
            raise checkpoint.damaged()
        version, writer = about.get("format_version"), about.get("written_by")
        # Python takes true for an integer.
        if type(version) is not int or version != FORMAT_VERSION:
            raise ModelFolderError(
                f"{checkpoint.path}: written in format {excerpt(version)} by {excerpt(writer)}, this is xmlgp "
                f"{__version__}, which goes on from format {FORMAT_VERSION}; --no-resume begins anew"
            )
        self.checkpoint = checkpoint
        self.data, self.preprocess, settings = (about.get(name) for name in ("data", "preprocess", "settings"))
        self.cores, self.step, self.steps = about.get("cores"), facts.get("step"), facts.get("steps")
        seconds = facts.get("seconds"), facts.get("spent")
        model = about.get("model")
        if isinstance(settings, dict) and isinstance(model, str):
            settings = LATER.get(model, {}) | settings
        if not (
            # It comes to be in the description of a model, as far as it is not in messages.
            is_plain(about)
            and isinstance(writer, str)
            and model in list(MODELS)  # which can be asked for whatever JSON may hold in place of a name
            and isinstance(self.data, dict)
            and self.data.keys() == {"N", "D", "K", "fingerprint"}
            and all(_counts(self.data[name], 0) for name in "NDK")
            and isinstance(self.data["fingerprint"], str)
            and isinstance(settings, dict)
            and settings.keys() >= {spec.name for spec in fields(MODELS[model])}
            and _counts(self.cores)
            and isinstance(self.preprocess, dict)
            and self.preprocess.keys() <= PREPROCESSED
            and all(is_entry(checkpoint.path.parent, entry) for entry in self.preprocess.values())
            # What has begun to train has been preprocessed, and has some steps to make. Of a model without inducing
            # inputs preprocessing may leave nothing.
            and (checkpoint.facts is None or bool(self.preprocess) or "inducing_count" not in settings)
            and (checkpoint.facts is None or _counts(self.steps))
            and _counts(self.step, 0, self.steps)
            and all(is_number(part, 0) for part in seconds)
        ):
            raise checkpoint.damaged()
        self.seconds = sum(seconds)
        try:
            self.settings = settings_from(settings, checkpoint.path, model)
        except SettingsError as error:
            raise ModelFolderError(f"{error}; --no-resume begins anew without it") from None

    @classmethod
    def read(cls, path):
        """Return what there is in a model folder, or None.

        Parameters
        ----------
        path : path
        """
        checkpoint = read_checkpoint(Path(path) / CHECKPOINT)
        return checkpoint and cls(checkpoint)

    @property
    def preprocessed(self):
        """Whether it is known to have been preprocessed: of some models that leaves no arrays."""
        return bool(self.steps or self.preprocess)

    @property
    def where(self):
        """How far it had come, in words."""
        if not self.steps:
            return "after preprocessing" if self.preprocess else "in preprocessing"
        if self.settings.model != "mlgpf":
            return f"after {self.step} of {self.steps} steps"
        part = "all points" if self.checkpoint.facts.get("plan") else "the points not held out"
        return f"after {self.step} of {self.steps} steps on {part}"

    def other(self, data, settings):
        """Return how a training differs from this one, in words; None where it does not.

        Parameters
        ----------
        data : mapping
            Facts of its training data.
        settings : Settings
        """
        if self.data != data:
            return "of other data"
        now = settings.with_model()
        # The model comes first, so what is looked up after it is there.
        for name, value in self.settings.with_model().items():
            if value != now[name]:
                return f"with {name} {describe_value(value)}, now {describe_value(now[name])},"
        return None

    @property
    def worth_keeping(self):
        """Whether it took long enough not to be thrown away unasked."""
        return self.seconds >= WORTH_KEEPING


def _counts(value, least=1, most=10**18):
    return type(value) is int and least <= value <= most


def describe_value(value):
    """Return a setting's value in words.

    Parameters
    ----------
    value : object
    """
    return "left open" if value is None else value
