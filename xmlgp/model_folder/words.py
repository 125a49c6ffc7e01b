"""What dense blocks are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["names_of_blocks"]


def names_of_blocks(data: Mapping[str, Any]) -> list[str]:
    """Return what the dense blocks are called of points with these facts."""
    return [f"dense {number}" for number in range(1, len(data.get("dense", [])) + 1)]
