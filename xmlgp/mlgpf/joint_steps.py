"""Stochastic steps for latent functions of words and dense features together, beside those of words alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xmlgp.mlgpf.stochastic import Stochastic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.mlgpf.method import Parameters

__all__ = ["JointSteps"]


class JointSteps(Stochastic):
    """Stochastic steps whose latent functions are no part of the model yet: held-out points say what they are worth."""

    _epoch = 0

    def begin(self, epoch: int) -> None:
        """Keep the number of the epoch, which for a resumed run may be the last one."""
        self._epoch = epoch

    def step(self, epoch: int, done: int) -> float | None:
        """Make one step; see `Inference`."""
        self._epoch = epoch
        return super().step(epoch, done)

    def notes(self) -> dict[str, int]:
        """Return the number of the epoch, counted from 1."""
        return {"dense_epoch": self._epoch + 1}

    def place(self, epoch: int) -> dict[str, str]:
        """Return the number of the epoch, beside those of the steps before."""
        return {"dense epoch": f"{epoch + 1}/{self.epochs}"}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by names that the steps before do not have."""
        return {f"joint.{name}": array for name, array in super().arrays().items()}

    def parameters(self, epochs: int = 0) -> Parameters:
        """Return nothing; see `trained`."""
        return {}

    def trained(self) -> Parameters:
        """Return the latent functions by parameter name."""
        return super().parameters()
