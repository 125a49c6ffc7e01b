"""Numbers of things in messages."""

__all__ = ["counted"]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things in words: "1 label", "2 labels"; a `plural` may add a verb: "2 rows have"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
