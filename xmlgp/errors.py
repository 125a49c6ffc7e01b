"""What can go wrong by a user's doing, one class for each kind.

The text of each error is one sentence that says what is wrong and where; the command line prints it and
exits with status 1, a Python user catches `XmlgpError`.
"""

from xmlgp.runtime.untrusted_text import excerpt

__all__ = [
    "CatalogueError",
    "ChoiceError",
    "ClashError",
    "DataFormatError",
    "FetchError",
    "LabelNamesFormatError",
    "ModelFolderError",
    "NumericalError",
    "OtherModelError",
    "ScoresFormatError",
    "SettingsError",
    "XmlgpError",
]


class XmlgpError(Exception):
    """A failure that a user can cause or mend; its text is one sentence."""


class DataFormatError(XmlgpError):
    """A data file breaks its format, the repository's or libsvm's.

    Parameters
    ----------
    path : str
        The file as the user named it (`-` for standard input).
    line : int
        The line, counted from 1.
    reason : str
        What is wrong there.
    """

    def __init__(self, path, line, reason):
        super().__init__(f"{path}:{line}: {reason}")
        self.path, self.line, self.reason = str(path), line, reason


class ScoresFormatError(DataFormatError):
    """A scores file breaks its format."""


class LabelNamesFormatError(DataFormatError):
    """A file of label names breaks its format, or is of another number of labels."""


class CatalogueError(XmlgpError):
    """datasets.yaml is malformed or lacks what was asked of it."""


class FetchError(XmlgpError):
    """A data set could not be fetched whole."""


class ModelFolderError(XmlgpError):
    """A model folder is missing, incomplete, damaged or of another version."""


class NumericalError(XmlgpError):
    """The numbers left the range in which the model is defined."""


class SettingsError(XmlgpError):
    """Settings that do not fit each other or the data."""


class ChoiceError(SettingsError):
    """A value that is not one of those that a setting can have.

    Parameters
    ----------
    name : str
        The setting.
    value : object
        What it was to be.
    choices : tuple of str
        What it can be.
    model : str
        The model that it is of: others may have one of the same name with other choices.
    where : str, optional
        Where it stands.
    """

    def __init__(self, name, value, choices, model, where=None):
        self.name, self.value, self.choices, self.model = name, value, choices, model
        super().__init__(f"{where}: {self.reason(name)}" if where else self.reason(name))

    def reason(self, name):
        """Return what is wrong, with the setting's name as the user wrote it."""
        return f"{name} is {excerpt(self.value)}, but must be one of {', '.join(self.choices)}"


class ClashError(SettingsError):
    """Settings of a model that do not fit each other.

    Parameters
    ----------
    text : str
        What is wrong, with the name of each setting in braces.
    names : tuple of str
        The settings.
    where : str, optional
        Where they stand.
    """

    def __init__(self, text, names, where=None):
        self.text, self.names = text, names
        super().__init__(f"{where}: {self.reason(str)}" if where else self.reason(str))

    def reason(self, shown):
        """Return what is wrong, with the settings' names as a function shows them."""
        return self.text.format(**{name: shown(name) for name in self.names})


class OtherModelError(SettingsError):
    """A setting that other models have.

    Parameters
    ----------
    where : str
        Where it stands.
    name : str
        The setting.
    models : list of str
        The models that have it.
    model : str
        The model that it was given to.
    """

    def __init__(self, where, name, models, model):
        self.name, self.models, self.model = name, models, model
        super().__init__(f"{where}: {self.reason(name)}")

    def reason(self, name):
        """Return what is wrong, with the setting's name as the user wrote it."""
        return f"{name} is a setting of {' and '.join(self.models)}, not of {self.model}"
