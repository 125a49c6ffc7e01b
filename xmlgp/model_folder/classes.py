"""The names of two classes, as a model folder has them: two numbers, two truth values or two texts."""

import math

from xmlgp.errors import SettingsError
from xmlgp.model_folder.plain import is_plain
from xmlgp.runtime.untrusted_text import excerpt

__all__ = ["are_classes", "plain_classes"]

#: The integers that NumPy has.
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

#: Characters of a name: NumPy has as many for each point that is predicted.
LONGEST = 1000


def are_classes(names):
    """Return whether an untrusted value of JSON has the names of two classes.

    Parameters
    ----------
    names : object
    """
    if not isinstance(names, list) or len(names) != 2:
        return False
    first, second = names
    # True equals 1.
    return type(first) is type(second) and all(map(_is_name, names)) and first < second


def plain_classes(classes):
    """Return the names of two classes in types of JSON (list).

    Parameters
    ----------
    classes : ndarray, 2
        In ascending order.

    Raises
    ------
    SettingsError
        If a model folder cannot hold them.
    """
    names = classes.tolist()
    if not are_classes(names):
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
    return type(name) is bool or (type(name) is str and len(name) <= LONGEST and is_plain(name))
