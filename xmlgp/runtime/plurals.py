"""Numbers of things in messages."""

__all__ = ["counted"]


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: "1 label", "2 labels"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
