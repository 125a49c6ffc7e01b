"""The description of a model, `model.json`, which is untrusted when it is read."""

import json
import math
import sys

from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.model_folder.arrays import is_entry
from xmlgp.models import MODELS
from xmlgp.prediction.tuning import Tuned
from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.training.trained import HeldOut
from xmlgp.version import __version__

__all__ = ["DESCRIPTION", "FORMAT_VERSION", "STAGES", "NotADescription", "plain_classes", "read_description"]
__all__ += ["write_description"]

#: Incremented whenever an older xmlgp could not read what is written.
FORMAT_VERSION = 1

#: The states of a model, in order.
STAGES = ("preprocessed", "trained")

DESCRIPTION = "model.json"

#: Largest description that is read, in bytes; usual ones have a few kilobytes.
DESCRIPTION_LIMIT = 64 << 20

#: Descriptions have four levels; Python cannot print thousands.
LEVELS = 10

#: The integers that NumPy has.
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

#: Characters of a name: NumPy has as many for each point that is predicted.
LONGEST = 1000


class NotADescription(ModelFolderError):
    """A file `model.json` has JSON, but of another program."""


def write_description(path, description):
    """Write the description (dict) of the model in a folder (Path) atomically."""
    content = json.dumps(description, indent=1, ensure_ascii=False).encode() + b"\n"
    with atomic_write(path / DESCRIPTION) as stream:
        stream.write(content)


def read_description(path):
    """Return the checked description (dict) of the model in a folder (Path), or raise ModelFolderError."""
    file = path / DESCRIPTION
    # Opening a named pipe would wait for a writer.
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise ModelFolderError(f"{file}: this is not the description of an xmlgp model")
    try:
        with open(file, "rb") as stream:
            content = stream.read(DESCRIPTION_LIMIT + 1)
        known = len(content) <= DESCRIPTION_LIMIT
        description = json.loads(content) if known else None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise ModelFolderError(f"{path}: there is no model here (no {DESCRIPTION})") from None
    except (ValueError, RecursionError):
        description = None
    if not isinstance(description, dict) or description.get("format") != "xmlgp model folder":
        kind = ModelFolderError if description is None else NotADescription
        raise kind(f"{file}: this is not the description of an xmlgp model")
    version = description.get("format_version")
    # True equals 1.
    if type(version) is not int or version != FORMAT_VERSION:
        raise ModelFolderError(
            f"{file}: written in format {excerpt(version)} by {excerpt(description.get('written_by'))}; "
            f"this is xmlgp {__version__}, which reads format {FORMAT_VERSION}"
        )
    _check_description(file, description)
    return description


def _check_description(file, description):
    model, data, arrays, history = (description.get(key) for key in ("model", "data", "arrays", "history"))
    learned = description.get("learned", [])
    valid = (
        _is_plain(description)
        # A list, because JSON has values that cannot be hashed.
        and model in list(MODELS)
        and isinstance(description.get("written_by"), str)
        and description.get("stage") in STAGES
        and isinstance(description.get("settings"), dict)
        and _is_data(data)
        and isinstance(arrays, dict)
        and all(is_entry(file.parent, entry) for entry in arrays.values())
        and (_is_history(history, model) and bool(history) if description["stage"] == "trained" else history is None)
        and isinstance(learned, list)
        and all(_is_data(batch) and _is_history(batch.get("history"), model) for batch in learned)
        and ("vectorizer" not in description or isinstance(description["vectorizer"], dict))
        and ("held_out" not in description or HeldOut.from_untrusted(description["held_out"]) is not None)
        and ("tuned" not in description or Tuned.from_untrusted(description["tuned"]) is not None)
        and isinstance(description.get("tuned_before", []), list)
        and all(Tuned.from_untrusted(entry) is not None for entry in description.get("tuned_before", []))
        and ("classes" not in description or _are_classes(description["classes"]))
    )
    if not valid:
        raise ModelFolderError(f"{file}: the description of the model is damaged")


def _is_data(entry):
    """Return whether an untrusted entry has the sizes and the fingerprint of data, perhaps with dense blocks."""
    return (
        isinstance(entry, dict)
        and all(type(entry.get(name)) is int and entry[name] >= 0 for name in "NDK")
        and isinstance(entry.get("fingerprint"), str)
        and _are_widths(entry.get("dense", [1]))
    )


def _are_widths(entry):
    return isinstance(entry, list) and bool(entry) and all(type(width) is int and width > 0 for width in entry)


def _is_history(entries, model):
    """Return whether each of the untrusted entries has the numbers of an epoch."""
    keys = ("epoch", MODELS[model].objective, "seconds")
    return isinstance(entries, list) and all(
        isinstance(entry, dict) and all(isinstance(entry.get(key), int | float) for key in keys) for entry in entries
    )


def _is_plain(value, levels=LEVELS):
    """Return whether numbers are finite, strings printable, and lists and mappings not nested too deeply.

    A string that is not printable could send commands to a terminal, or imitate a line of output.
    """
    if isinstance(value, str):
        return value.isprintable()
    if isinstance(value, list | dict):
        children = [*value, *value.values()] if isinstance(value, dict) else value
        return levels > 0 and all(_is_plain(child, levels - 1) for child in children)
    # JSON integers can be larger than any float.
    return value is None or abs(value) <= sys.float_info.max


def _are_classes(names):
    """Return whether an untrusted value of JSON has the names of two classes: two numbers, truth values or texts."""
    if not isinstance(names, list) or len(names) != 2:
        return False
    first, second = names
    # True equals 1.
    return type(first) is type(second) and all(map(_is_name, names)) and first < second


def plain_classes(classes):
    """Return the names of two classes, in ascending order, as JSON; SettingsError if that cannot hold them."""
    names = classes.tolist()
    if not _are_classes(names):
        shown = " and ".join(map(excerpt, names))
        raise SettingsError(
            f"the classes {shown} cannot be stored: those of a model folder are numbers of 64 bits, or text of at most "
            f"{LONGEST} characters, none of them a control character"
        )
    return names


def _is_name(name):
    if type(name) is int:
        return INT64_MIN <= name <= INT64_MAX
    if type(name) is float:
        return math.isfinite(name)
    return type(name) is bool or (type(name) is str and len(name) <= LONGEST and _is_plain(name))
