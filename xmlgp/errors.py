"""The errors that a user can cause or fix, one class for each kind.

The text of each error is one sentence that says what is wrong and where. The command line prints it and exits with
status 1; a Python user catches `XmlgpError`.
"""

from xmlgp.runtime.untrusted_text import excerpt

__all__ = [
    "CatalogueError",
    "ChoiceError",
    "ClashError",
    "ClusterError",
    "DataFormatError",
    "FetchError",
    "ModelFolderError",
    "NamesFormatError",
    "NumericalError",
    "OtherModelError",
    "ScoresFormatError",
    "SettingsError",
    "XmlgpError",
]


class XmlgpError(Exception):
    """An error that a user can cause or fix; its text is one sentence."""


class ClusterError(XmlgpError):
    """A Dask cluster is lost, or cannot be used."""


class DataFormatError(XmlgpError):
    """A data file is malformed, in the repository's format or in libsvm's.

    Parameters
    ----------
    path : str
        The file as the user named it (`-` for standard input).
    line : int
        The line, counted from 1.
    reason : str
        The problem there.
    """

    def __init__(self, path, line, reason):
        super().__init__(f"{path}:{line}: {reason}")
        self.path, self.line, self.reason = str(path), line, reason


class ScoresFormatError(DataFormatError):
    """A scores file is malformed."""


class NamesFormatError(DataFormatError):
    """A file of names is malformed, or has the wrong number of them."""


class CatalogueError(XmlgpError):
    """The catalogue is malformed, or has no such entry."""


class FetchError(XmlgpError):
    """A data set could not be fetched."""


class ModelFolderError(XmlgpError):
    """A model folder or a checkpoint is missing, damaged or of another version."""


class NumericalError(XmlgpError):
    """A computation became non-finite."""


class SettingsError(XmlgpError):
    """Settings that are not allowed, or that do not fit the data."""


class ChoiceError(SettingsError):
    """A value that is not one of a setting's choices.

    Parameters
    ----------
    name : str
        The setting.
    value : object
    choices : tuple of str
    model : str
        The model of the setting; other models may have one of the same name with other choices.
    where : str, optional
        The source of the value.
    """

    def __init__(self, name, value, choices, model, where=None):
        self.name, self.value, self.choices, self.model = name, value, choices, model
        super().__init__(f"{where}: {self.reason(name)}" if where else self.reason(name))

    def reason(self, name):
        """Return the reason, with the setting's name as the user wrote it."""
        return f"{name} is {excerpt(self.value)}, but must be one of {', '.join(self.choices)}"


class ClashError(SettingsError):
    """Settings of a model that contradict each other.

    Parameters
    ----------
    text : str
        The reason, with the name of each setting in braces.
    names : tuple of str
        The settings.
    where : str, optional
        The source of the settings.
    """

    def __init__(self, text, names, where=None):
        self.text, self.names = text, names
        super().__init__(f"{where}: {self.reason(str)}" if where else self.reason(str))

    def reason(self, shown):
        """Return the reason, with the settings' names as a function shows them."""
        return self.text.format(**{name: shown(name) for name in self.names})


class OtherModelError(SettingsError):
    """A setting of other models.

    Parameters
    ----------
    where : str
        The source of the setting.
    name : str
        The setting.
    models : list of str
        The models that have it.
    model : str
        The model that does not have it.
    """

    def __init__(self, where, name, models, model):
        self.name, self.models, self.model = name, models, model
        super().__init__(f"{where}: {self.reason(name)}")

    def reason(self, name):
        """Return the reason, with the setting's name as the user wrote it."""
        return f"{name} is a setting of {' and '.join(self.models)}, not of {self.model}"
