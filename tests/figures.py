"""A record of the figures that a test writes."""

import matplotlib.figure
import pytest

__all__ = ["drawn"]


@pytest.fixture
def drawn(monkeypatch):
    """The figures written, in order."""
    figures, write = [], matplotlib.figure.Figure.savefig

    def savefig(figure, *arguments, **options):
        figures.append(figure)
        return write(figure, *arguments, **options)

    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", savefig)
    return figures
