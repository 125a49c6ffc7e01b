"""What dense blocks are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["names_of_blocks"]


def names_of_blocks(data: Mapping[str, Any], has_encoder: bool) -> list[str]:
    """Return what the dense blocks are called of points with these facts, the first perhaps of an encoder."""
    encoder = ["encoder"] if has_encoder else []
    count = len(data.get("dense", [])) - len(encoder)
    return encoder + [f"dense {number}" for number in range(1, count + 1)]
