"""The description of a model, `model.json`, which is untrusted when it is read."""

import json
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from xmlgp.model_folder.arrays import is_entry
from xmlgp.models.table import MODELS
from xmlgp.runtime.atomic_files import atomic_write
from xmlgp.runtime.errors import ModelFolderError, SettingsError
from xmlgp.runtime.untrusted_json import is_plain, read_json
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.training.result import HeldOutMeasures, is_valid_history
from xmlgp.version import __version__

__all__ = ["DESCRIPTION", "FORMAT_VERSION", "STAGES", "is_data", "plain_classes"]
__all__ += ["description_bytes", "read_description", "write_description"]

#: Incremented whenever an older xmlgp could not read what is written.
FORMAT_VERSION = 1

#: The states of a model, in order.
STAGES = ("preprocessed", "trained")

DESCRIPTION = "model.json"

#: Most characters of the name of a class: NumPy has as many for each point that is predicted.
LONGEST = 1000


def write_description(path: Path, description: dict[str, Any]) -> None:
    """Write the description of the model in a folder atomically."""
    with atomic_write(path / DESCRIPTION) as stream:
        stream.write(description_bytes(description))


def description_bytes(description: dict[str, Any]) -> bytes:
    """Return a description as its file has it."""
    return json.dumps(description, indent=1, ensure_ascii=False).encode() + b"\n"


def read_description(path: Path) -> dict[str, Any]:
    """Return the checked description of the model in a folder, or raise ModelFolderError."""
    file = path / DESCRIPTION
    # Opening a named pipe would wait for a writer.
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise ModelFolderError(f"{file}: this is not the description of an xmlgp model")
    try:
        with open(file, "rb") as stream:
            description = read_json(stream)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        if path.is_file():
            raise ModelFolderError(f"{path}: this is a file, but a model is a folder") from None
        if not path.exists():
            raise ModelFolderError(f"{path}: there is no such folder; `xmlgp train DATA MODEL` makes a model") from None
        raise ModelFolderError(f"{path}: there is no model here (no {DESCRIPTION})") from None
    except ValueError:
        description = None
    if not isinstance(description, dict) or description.get("format") != "xmlgp model folder":
        raise ModelFolderError(f"{file}: this is not the description of an xmlgp model")
    version = description.get("format_version")
    # True equals 1.
    if type(version) is not int or version != FORMAT_VERSION:
        raise ModelFolderError(
            f"{file}: written in format {excerpt(version)} by {excerpt(description.get('written_by'))}; "
            f"this is xmlgp {__version__}, which reads format {FORMAT_VERSION}"
        )
    if not _is_valid(path, description):
        raise ModelFolderError(f"{file}: the description of the model is damaged")
    return description


def _is_valid(folder: Path, description: dict[str, Any]) -> bool:
    # A list, because JSON has values that cannot be hashed.
    if not is_plain(description) or description.get("model") not in list(MODELS):
        return False
    objective = MODELS[description["model"]].objective
    arrays = description.get("arrays")
    history = description.get("history")
    learned = description.get("learned", [])
    trained = description.get("stage") == "trained"
    return (
        isinstance(description.get("written_by"), str)
        and description.get("stage") in STAGES
        and isinstance(description.get("settings"), dict)
        and is_data(description.get("data"))
        and isinstance(arrays, dict)
        and all(is_entry(folder, entry) for entry in arrays.values())
        and (bool(history) and is_valid_history(history, objective) if trained else history is None)
        and isinstance(learned, list)
        and all(map(is_data, learned))
        and isinstance(description.get("vectorizer", {}), dict)
        and ("held_out" not in description or HeldOutMeasures.from_untrusted(description["held_out"]) is not None)
        and ("classes" not in description or _are_classes(description["classes"]))
    )


def is_data(entry: object) -> bool:
    """Return whether an untrusted entry has the sizes and the fingerprint of data, perhaps with dense features."""
    if not isinstance(entry, dict):
        return False
    width = entry.get("dense", 1)
    first_feature = entry.get("first_feature", 0)
    return (
        all(type(entry.get(name)) is int and entry[name] >= 0 for name in "NDK")
        and isinstance(entry.get("fingerprint"), str)
        and type(width) is int
        and width > 0
        # True equals 1.
        and type(first_feature) is int
        and first_feature in (0, 1)
    )


def _are_classes(names: object) -> bool:
    """Return whether an untrusted value of JSON has the names of two classes: two numbers, truth values or texts."""
    if not isinstance(names, list) or len(names) != 2:
        return False
    first, second = names
    # True equals 1.
    are_alike = type(first) is type(second) and type(first) in (int, float, bool, str)
    return are_alike and is_plain(names) and first < second and all(len(str(name)) <= LONGEST for name in names)


def plain_classes(classes: NDArray[Any]) -> list[int | float | bool | str]:
    """Return the names of two classes, in ascending order, as JSON; SettingsError if that cannot hold them."""
    names: list[int | float | bool | str] = classes.tolist()
    if not _are_classes(names):
        shown = " and ".join(map(excerpt, names))
        raise SettingsError(
            f"the classes {shown} cannot be stored: give numbers or printable texts of at most {LONGEST} characters"
        )
    return names
