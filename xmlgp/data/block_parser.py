"""Parse the repository's text format with array operations, a block of lines at a time.

Every byte that is not a digit ends a run of digits, which may be empty. The kinds of two consecutive such bytes, and
whether there are digits between them, determine the meaning of the digits: one table contains the whole grammar.
Digits are decoded eight at a time: eight characters are loaded as one 64-bit word, and added in pairs, then in pairs of
pairs.
"""

import numpy as np

from xmlgp.data.dataset import Dataset, as_csr
from xmlgp.data.line_parser import FLOAT32_OVERFLOW

__all__ = ["parse_block"]

#: Characters with the same meaning, by the character that represents them below; all others are invalid.
EQUIVALENT = {"\n": "\n", " ": " \t\r", ",": ",", ":": ":", ".": ".", "-": "-", "e": "eE+"}
KIND_OF = {character: kind for kind, character in enumerate(EQUIVALENT)}
NEWLINE, COLON, POINT, MINUS = (KIND_OF[character] for character in "\n:.-")
INVALID = len(EQUIVALENT)

#: Meaning of a run of digits, determined by the characters around it. PART: the value continues after it.
ILLEGAL, NOTHING, LABEL, FEATURE, PART, VALUE = range(6)

#: (characters before, characters after, meaning without digits between them, meaning with digits). Everything else is
#: illegal. The grammar is lax about exponents and plus signs, because Python parses the values that contain them.
GRAMMAR = [
    ("\n", "\n ", NOTHING, LABEL),
    ("\n,", ",", ILLEGAL, LABEL),
    (",", "\n ", ILLEGAL, LABEL),
    (" ", "\n ", NOTHING, ILLEGAL),
    (" ", ":", ILLEGAL, FEATURE),
    (":", "-", PART, ILLEGAL),
    (":-", ".e", PART, PART),
    (":-e", "\n ", ILLEGAL, VALUE),
    (".", "\n ", VALUE, VALUE),
    (".", "e", PART, PART),
    ("e", "-.e", PART, PART),
]


def _tables():
    """Return the kind of each byte, and the meaning by kind before, kind after and presence of digits."""
    kinds = np.full(256, INVALID, np.uint8)
    for character, equivalent in EQUIVALENT.items():
        kinds[list(equivalent.encode())] = KIND_OF[character]
    meanings = np.full((8, 8, 2), ILLEGAL, np.uint8)
    for befores, afters, *by_presence in GRAMMAR:
        for before in befores:
            for after in afters:
                meanings[KIND_OF[before], KIND_OF[after]] = by_presence
    return kinds, meanings.ravel()


KIND, MEANING = _tables()

#: Put before the text, so that the eight characters before any place can be loaded.
PADDING = b"\n" * 8
#: A word contains 8 digits; longer runs need a second one.
WORD_DIGITS, DECODED_DIGITS = 8, 16
#: Integers of 15 digits and powers of ten up to 10**22 are exact as doubles, so the quotient of two is the double
#: nearest to the decimal (Clinger, How to read floating point numbers accurately, 1990).
EXACT_DIGITS = 15
POWERS = 10 ** np.arange(EXACT_DIGITS + 1, dtype=np.uint64)


def parse_block(text, D, K):
    """Parse some complete lines of ordinary numbers, each with a newline at its end, of a file that declares D and K.

    Return the result of `line_parser.parse_lines`; None if a line is malformed, or too unusual for this parser.
    """
    if b"\r" in text and text.count(b"\r") != text.count(b"\r\n"):
        return None
    buffer = np.frombuffer(PADDING + text, np.uint8)
    ends = np.flatnonzero(buffer - np.uint8(ord("0")) > 9)[len(PADDING) - 1 :]
    kinds = KIND.take(buffer.take(ends))
    before, after = kinds[:-1], kinds[1:]
    digits = np.diff(ends) - 1
    ends = ends[1:]
    meanings = MEANING.take(before << 4 | after << 1 | (digits > 0))
    if not meanings.all():  # ILLEGAL is 0
        return None

    numbers = _decode(buffer, ends, digits)
    label_at, feature_at, value_at = (np.flatnonzero(meanings == role) for role in (LABEL, FEATURE, VALUE))
    for places, bound in (label_at, K), (feature_at, D):
        if len(places) and (digits.take(places).max() > DECODED_DIGITS or numbers.take(places).max() >= bound):
            return None
    try:
        values = _values(text, ends, digits, numbers, before, feature_at, value_at)
    except ValueError:
        return None
    lines = np.flatnonzero(after == NEWLINE)
    labels = _by_line(None, numbers, label_at, lines, K)
    features = _by_line(values, numbers, feature_at, lines, D)
    if not (labels.has_canonical_format and features.has_canonical_format):  # duplicates
        return None
    features.eliminate_zeros()
    return Dataset(features, labels)


def _decode(buffer, ends, digits):
    """Return the runs of digits before `ends` as integers; only the last 16 digits of longer runs."""
    words = np.ndarray(len(buffer) - 7, "<u8", buffer, strides=1)  # one at every byte, aligned or not
    numbers = _eight_digits(words.take(ends - WORD_DIGITS), digits)
    long = np.flatnonzero(digits > WORD_DIGITS)
    if len(long):
        upper = words.take(ends[long] - 2 * WORD_DIGITS)
        numbers[long] += POWERS[WORD_DIGITS] * _eight_digits(upper, digits[long] - WORD_DIGITS)
    return numbers


def _eight_digits(words, digits):
    """Return the integers in the last `digits` characters of words of 8 characters."""
    unused = (8 * (WORD_DIGITS - np.minimum(digits, WORD_DIGITS))).astype(np.uint64)
    words = words >> unused
    words <<= unused
    words &= np.uint64(0x0F0F0F0F0F0F0F0F)  # the value of each digit; 0 for the unused characters
    for width, mask in (8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF):
        # The lower of two neighbours is more significant, by a factor of 10, 100, 10000.
        words *= np.uint64(1 + (10 ** (width // 8) << width))
        words >>= np.uint64(width)
        words &= np.uint64(mask)
    return words


def _values(text, ends, digits, numbers, before, feature_at, value_at):
    """Return the values of the features, whose last runs of digits are `value_at`, or raise ValueError."""
    with_point = before.take(value_at) == POINT
    negative = before.take(value_at - with_point) == MINUS
    decimals = digits.take(value_at) * with_point
    whole_at = value_at - with_point
    plain = value_at - feature_at == 1 + with_point + negative
    significant = digits.take(whole_at) + decimals
    plain &= (significant > 0) & (significant <= EXACT_DIGITS)
    scale = POWERS.take(decimals, mode="clip")
    values = (numbers.take(whole_at) * with_point * scale + numbers.take(value_at)) / scale
    values[negative] *= -1
    odd = np.flatnonzero(~plain)
    if len(odd):
        starts = ends.take(feature_at[odd]) + 1 - len(PADDING)
        stops = ends.take(value_at[odd]) - len(PADDING)
        # float() accepts tokens of these characters only if the format does.
        values[odd] = [float(text[start:stop]) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
        if np.abs(values[odd]).max() >= FLOAT32_OVERFLOW:
            raise ValueError("too large for a float32")
    return values.astype(np.float32)


def _by_line(data, numbers, places, lines, columns):
    """Return the sparse array of the indices at `places`, one row per line, with sorted indices."""
    indptr = np.concatenate(([0], np.searchsorted(places, lines, side="right")))
    matrix = as_csr(data, numbers.take(places).astype(np.int32), indptr, columns)
    matrix.sort_indices()
    return matrix
