"""What all kinds of files share: refusals in one line; and text files: compression, comparison with a strict reader."""

import gzip
import zlib

from hypothesis import strategies as st

from tests.cli.command import run, said
from tests.fuzzing.mangling import Sample, mangled
from tests.fuzzing.strict_readers import Malformed
from xmlgp.data.file_kinds import PEEKED, UNFIT_FOR_TEXT, kind_of
from xmlgp.data.streams import GZIP_MAGIC
from xmlgp.errors import XmlgpError

__all__ = ["TextFiles", "attempted", "ends_well", "maybe_compressed"]

#: Maximum number of characters of a sentence without file names; it shows only part of the content of a file.
LONGEST_SENTENCE = 600


def attempted(action):
    """Return the result of an action and None, or None and the XmlgpError that it raises."""
    try:
        return action(), None
    except XmlgpError as error:
        assert_sentence(str(error))
        return None, error


def assert_sentence(text):
    assert text.isprintable(), f"not one line of plain text: {text[:200]!r}"
    assert len(text) < LONGEST_SENTENCE, f"{len(text)} characters: {text[:200]!r}"


def ends_well(*arguments, stdin=None):
    """Run a command within the process; return its standard output, or None if it refuses in one line."""
    result = run(*arguments, stdin=stdin)
    if result.exit_code == 0:
        assert result.stderr == ""
        return result.stdout
    assert_sentence(said(result, answered=arguments[0] == "predict"))
    return None


def maybe_compressed(name, texts, whole):
    """Return a strategy for samples of one file; one in eight is compressed, before or after the damage."""
    packed = mangled([gzip.compress(content, mtime=0) for content in whole]) | texts.map(gzip.compress)
    return st.one_of(
        *[texts.map(lambda content: Sample("", {name: content}))] * 7,
        packed.map(lambda content: Sample("", {f"{name}.gz": content})),
    )


class TextFiles:
    """Text files: every way to read them agrees with a strict reader, or refuses the same line.

    A subclass has `samples` and three methods: `strictly(name, content)` is the strict reader; `readings(path,
    content)` returns the ways to read the file, functions with the same result; and `use(path, content, expected)`
    gives the file to commands. It works in `folder`.
    """

    def __init__(self, folder):
        self.folder = folder

    def check(self, sample):
        """Read the file in every way and compare; return whether it was read."""
        ((name, content),) = sample.files.items()
        path = self.folder / name
        path.write_bytes(content)
        try:
            expected, line = self._expected(name, content)
            for way, read in self.readings(path, content).items():
                found, error = attempted(read)
                assert (found is None) == (expected is None), f"read {way}: {error}"
                assert found == expected, f"read {way}"
                # No line is known of a file that cannot be decompressed. Bytes that are not text may be seen
                # before what is wrong in a line above them.
                is_first = line is None or error is None or error.line == line or "is not text" in str(error)
                assert is_first, f"read {way}: {error}"
            self.use(path, content, expected)
            return expected is not None
        finally:
            path.unlink()

    def _expected(self, name, content):
        """Return the strict reader's result and None, or None and the line that it refuses."""
        if content.startswith(GZIP_MAGIC):
            try:
                content = gzip.decompress(content)
            except (OSError, EOFError, zlib.error):
                return None, None
        elif name.endswith(".gz") and UNFIT_FOR_TEXT.search(content[:PEEKED]):
            return None, None
        if kind_of(content[:PEEKED], name):
            return None, None
        try:
            return self.strictly(name.removesuffix(".gz"), content), None
        except Malformed as error:
            return None, error.line
