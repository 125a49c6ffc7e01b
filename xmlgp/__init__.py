"""Scalable Bayesian models for extreme multi-label data.

The command line is `xmlgp`; every command is one call into this library.
"""

__all__ = ["__version__", "load"]

__version__ = "0.1.0"


def load(path):
    """Return the fitted estimator of the model in a folder, which `xmlgp train` or `Classifier.save` has written.

    It predicts what `xmlgp predict` does. The folder is not trusted: it holds no code, and its content is checked. The
    arrays are read-only and mapped into memory, so that they are read where they are used.

    Parameters
    ----------
    path : path
        The model folder.

    Returns
    -------
    Classifier
        `MLGPFClassifier`, `BMLPLClassifier` or `GPCClassifier`. Its parameters are the settings of the folder.

    Raises
    ------
    ModelFolderError
        If there is no model, or it is not trained yet, damaged or of another version.
    """
    # Every command imports this package, and the help of none needs NumPy.
    from xmlgp.estimators.classifier import load_estimator

    return load_estimator(path)
