"""Check that a refusal is an error of xmlgp in one line."""

from tests.cli.command import run, said
from xmlgp.errors import XmlgpError

__all__ = ["LONGEST_SENTENCE", "attempted", "ends_well"]

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
    assert_sentence(said(result))
    return None
