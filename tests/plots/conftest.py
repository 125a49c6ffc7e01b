"""The fixture that collects the figures that a test draws."""

from tests.figures import drawn

__all__ = ["drawn"]
