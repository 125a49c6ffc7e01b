"""Text that a page can contain."""

__all__ = ["plain"]

#: Other control characters than a line break and a tab cannot be shown; NUL is not even allowed in HTML.
CONTROL = {code: "�" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


def plain(text: object) -> str:
    """Return text without characters that a page cannot contain."""
    return str(text).replace("\r\n", "\n").translate(CONTROL).encode("utf-8", "replace").decode()
