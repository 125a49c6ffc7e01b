"""Points in memory with their names, and what a trained model knows of its points."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from xmlgp.data.dataset import Dataset
from xmlgp.data.dense_files import DenseRows
from xmlgp.text.names import Names

__all__ = ["Known", "TrainingData"]


class TrainingData(NamedTuple):
    """Points, the format of their file, `REPOSITORY` (also of text) or another one of rows, and their names."""

    dataset: Dataset
    format: str
    names: Names

    def beside(self, rows: DenseRows | None) -> TrainingData:
        """Return the same points with dense features, if there are any."""
        if rows is None:
            return self
        rows.check(self.dataset.N)
        return self._replace(dataset=rows.beside(self.dataset))


class Known(NamedTuple):
    """What a trained model knows of its points: names, D features, K labels, and E dense ones.

    `title` is what messages call the model, and `folder` where it is stored, if it is.
    """

    names: Names
    D: int
    K: int
    E: int = 0
    title: str = "the model"
    folder: Path | None = None
