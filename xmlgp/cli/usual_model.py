"""Which model data are for, where the user names none: what subcommands that begin a training agree on."""

from xmlgp.cli.options import note
from xmlgp.data.formats import LIBSVM

__all__ = ["with_usual_model"]


def with_usual_model(chosen, recipe, format_, data, quiet):
    """Return the settings that the user chose with gpc as the model, if the data are such and nothing says otherwise.

    Parameters
    ----------
    chosen : mapping
        Settings that the user gave, and the model, as `model`, if that was given.
    recipe : str or None
    format_ : str
        Of the data, see `xmlgp.data.formats`: data of one label come in libsvm's.
    data : str
        Their name, for the note that tells the user.
    quiet : bool
    """
    if format_ != LIBSVM or recipe or "model" in chosen:
        return chosen
    note(f"{data} is in libsvm's format, so the model is gpc; --model chooses another", quiet)
    return {"model": "gpc"} | chosen
