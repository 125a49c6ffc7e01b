"""Damage that ignores the format: bytes are flipped, cut, repeated, moved and inserted."""

from hypothesis import strategies as st

__all__ = ["mangled"]

#: Tokens that are difficult for any reader of text.
ODDITIES = [
    b"\0", b"\n", b"\r", b"\r\n", b"\t", b" ", b"\x0b", b"\x0c", b"\x1c", b"\x7f", b"\x85", b"\xa0", b"\xff",
    "é".encode(), "\u0663".encode(), "\u2028".encode(), b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\x1f\x8b",
    b"0", b"1", b"-1", b"+", b".", b"e", b",", b":", b"::", b"_", b"1e999", b"-1e-999", b"nan", b"inf", b"0x10",
    b"2147483647", b"2147483648", b"4294967296", b"9223372036854775808", b"18446744073709551617", b"1000000000",
    b"9" * 400, b"9" * 5000, b"0" * 5000, b"x" * 5000, b"[" * 200, b"[" * 5000, b"{" * 5000,
]  # fmt: skip

#: Maximum number of bytes of the result.
MAX_LENGTH = 40_000


def flip(draw, content, tokens):
    at = draw(st.integers(0, max(0, len(content) - 1)))
    return (
        content[:at] + bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in content[at : at + 1]) + content[at + 1 :]
    )


def replace(draw, content, tokens):
    start, stop = _draw_range(draw, content)
    return content[:start] + draw(tokens) + content[stop:]


def insert(draw, content, tokens):
    at = draw(st.integers(0, len(content)))
    return content[:at] + draw(tokens) + content[at:]


def delete(draw, content, tokens):
    start, stop = _draw_range(draw, content)
    return content[:start] + content[stop:]


def repeat(draw, content, tokens):
    start, stop = _draw_range(draw, content)
    return content[:stop] + content[start:stop] * draw(st.sampled_from([1, 1, 2, 50])) + content[stop:]


def truncate(draw, content, tokens):
    return content[: draw(st.integers(0, len(content)))]


def splice(draw, content, tokens):
    start, stop = _draw_range(draw, content)
    at = draw(st.integers(0, len(content)))
    return content[:at] + content[start:stop] + content[at:]


def swap_lines(draw, content, tokens):
    lines = content.split(b"\n")
    a, b = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def delete_line(draw, content, tokens):
    lines = content.split(b"\n")
    del lines[draw(st.integers(0, len(lines) - 1))]
    return b"\n".join(lines)


def repeat_line(draw, content, tokens):
    lines = content.split(b"\n")
    at = draw(st.integers(0, len(lines) - 1))
    return b"\n".join(lines[:at] + lines[at : at + 1] * draw(st.sampled_from([2, 3, 40])) + lines[at + 1 :])


def windows_line_endings(draw, content, tokens):
    return content.replace(b"\n", b"\r\n")


def byte_order_mark(draw, content, tokens):
    return b"\xef\xbb\xbf" + content


MUTATIONS = [
    insert, replace, flip, delete, repeat, truncate, splice, swap_lines, delete_line, repeat_line,
    windows_line_endings, byte_order_mark,
]  # fmt: skip


@st.composite
def mangled(draw, originals, tokens=()):
    """Draw one of `originals` (bytes) with some damage; `tokens` are bytes with a meaning in the format."""
    content = draw(st.sampled_from(originals))
    pool = st.sampled_from([*tokens, *ODDITIES]) | st.binary(min_size=1, max_size=3)
    for _ in range(draw(st.integers(1, 3))):
        content = draw(st.sampled_from(MUTATIONS))(draw, content, pool)[:MAX_LENGTH]
    return content


def _draw_range(draw, content):
    """Draw where a range of bytes starts and stops; most are short."""
    start = draw(st.integers(0, len(content)))
    return start, min(len(content), start + draw(st.integers(1, 4) | st.integers(1, max(1, len(content)))))
