"""A training that was interrupted: what its checkpoint in the model folder says, and whether it may be gone on with."""

from pathlib import Path

from xmlgp import __version__
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.models.arrays import is_entry
from xmlgp.settings import Settings
from xmlgp.threads import core_count
from xmlgp.training.checkpoints import read_checkpoint

__all__ = ["CHECKPOINT", "Unfinished", "describe_run"]

CHECKPOINT = "checkpoint.npz"

FORMAT_VERSION = 1

#: Seconds of training that are not thrown away unasked.
WORTH_KEEPING = 60


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
        "model": "mlgpf",
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
        about, facts = checkpoint.about, checkpoint.facts or {}
        if about.get("format") != "xmlgp checkpoint":
            raise checkpoint.damaged()
        if about.get("format_version") != FORMAT_VERSION:
            raise ModelFolderError(
                f"{checkpoint.path}: written in format {about.get('format_version')} by {about.get('written_by')}, "
                f"this is xmlgp {__version__}, which goes on from format {FORMAT_VERSION}; --no-resume begins anew"
            )
        self.checkpoint = checkpoint
        self.data, self.preprocess, settings = (about.get(name) for name in ("data", "preprocess", "settings"))
        self.step, self.steps = facts.get("step", 0), facts.get("steps", 0)
        seconds = facts.get("seconds", 0), facts.get("spent", 0)
        self.cores = about.get("cores")
        folder = checkpoint.path.parent
        if not (
            isinstance(self.data, dict)
            and isinstance(settings, dict)
            and isinstance(self.preprocess, dict)
            and all(is_entry(folder, entry) for entry in self.preprocess.values())
            and isinstance(self.step, int)
            and isinstance(self.steps, int)
            and all(isinstance(part, int | float) for part in seconds)
        ):
            raise checkpoint.damaged()
        self.seconds = sum(seconds)
        try:
            self.settings = Settings.from_mapping(settings, checkpoint.path)
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
    def where(self):
        """How far it had come, in words."""
        if not self.steps:
            return "before its first step"
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
        for name, value in self.settings.mapping().items():
            if value != getattr(settings, name):
                return f"with {name} {_said(value)} in place of {_said(getattr(settings, name))}"
        return None

    @property
    def worth_keeping(self):
        """Whether it took long enough not to be thrown away unasked."""
        return self.seconds >= WORTH_KEEPING


def _said(value):
    return "not given" if value is None else value
