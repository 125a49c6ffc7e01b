"""Damage of any text: tokens are replaced; bytes are flipped, cut, repeated, moved and inserted."""

import re

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

KINDS = [
    "insert", "replace", "token", "token", "token", "flip", "delete", "repeat", "truncate", "splice", "swap lines",
    "delete line", "repeat line", "Windows line ends", "byte order mark",
]  # fmt: skip

#: What separates the tokens of all formats.
SEPARATORS = re.compile(rb"([\s:,#]+)")

#: Maximum number of bytes of the result.
MAX_LENGTH = 40_000


@st.composite
def mangled(draw, originals, tokens=()):
    """Draw one of `originals` (bytes) with some damage; `tokens` are bytes with a meaning in the format."""
    content = draw(st.sampled_from(originals))
    pool = st.sampled_from([*tokens, *ODDITIES]) | st.binary(min_size=1, max_size=3)
    for _ in range(draw(st.sampled_from([1, 1, 2]))):
        content = _damaged(draw, content, pool)[:MAX_LENGTH]
    return content


def _damaged(draw, content, tokens):
    kind, lines = draw(st.sampled_from(KINDS)), content.split(b"\n")
    at, start = (draw(st.integers(0, len(content))) for _ in range(2))
    # Most ranges are short.
    stop = min(len(content), start + draw(st.integers(1, 4) | st.integers(1, max(1, len(content)))))
    line, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    match kind:
        case "insert":
            return content[:at] + draw(tokens) + content[at:]
        case "replace":
            return content[:start] + draw(tokens) + content[stop:]
        case "token":
            words = SEPARATORS.split(content)
            # Separators are between words.
            words[2 * draw(st.integers(0, len(words) // 2))] = draw(tokens)
            return b"".join(words)
        case "flip":
            flipped = bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in content[at : at + 1])
            return content[:at] + flipped + content[at + 1 :]
        case "delete":
            return content[:start] + content[stop:]
        case "repeat":
            return content[:stop] + content[start:stop] * draw(st.sampled_from([1, 1, 2, 50])) + content[stop:]
        case "truncate":
            return content[:at]
        case "splice":
            return content[:at] + content[start:stop] + content[at:]
        case "swap lines":
            lines[line], lines[other] = lines[other], lines[line]
        case "delete line":
            del lines[line]
        case "repeat line":
            lines[line:line] = lines[line : line + 1] * draw(st.sampled_from([1, 2, 39]))
        case "Windows line ends":
            return content.replace(b"\n", b"\r\n")
        case "byte order mark":
            return b"\xef\xbb\xbf" + content
    return b"\n".join(lines)
