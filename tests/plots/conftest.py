"""Figures written by a test."""

from tests.figures import drawn

__all__ = ["drawn"]
