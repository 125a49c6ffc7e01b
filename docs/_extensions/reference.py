"""The Sphinx directives `command` and `settings`: the help of a command and the settings of a model.

`command` records what Click writes for `--help-all`, so the page has the same usage, texts, options and sections. The
extension sphinx-click is not used: it parses help texts as reStructuredText, which they are not, and loses the
sections.
"""

import contextlib
import dataclasses
import re

import click
from docutils import nodes
from docutils.parsers.rst import Directive
from xmlgp.cli.help import WHOLE

from xmlgp.cli import main
from xmlgp.models import MODELS

__all__ = ["Command", "ModelSettings", "find_command", "help_sections", "setup"]

#: Parts of a help text that are code: quoted by backticks, or an option.
CODE = re.compile(r"`([^`]+)`|((?<![\w-])--[a-z][a-z-]+)")


class _Recorder(click.HelpFormatter):
    """Keeps the sections that a command writes, instead of formatting them."""

    def __init__(self):
        super().__init__()
        self.sections = []

    @contextlib.contextmanager
    def section(self, name):
        self.sections.append((name, []))
        yield

    def write_dl(self, rows, *_, **__):
        # Names are filled up to a column.
        self.sections[-1][1].extend((names.strip(), text) for names, text in rows)


def find_command(words):
    """Return the command named by words such as `["plot", "bound"]`, and the context that its help needs."""
    context = click.Context(main, info_name="xmlgp", **main.context_settings)
    command = main
    for word in words:
        command = command.get_command(context, word)
        if command is None:
            raise LookupError(f"xmlgp has no command {' '.join(words)}")
        context = click.Context(command, info_name=word, parent=context)
    return command, context


def help_sections(words):
    """Return the sections of options in the help of a command: pairs of a title and of rows (names, text)."""
    command, context = find_command(words)
    context.meta[WHOLE] = True
    recorder = _Recorder()
    command.format_options(context, recorder)
    return recorder.sections


class Command(Directive):
    """Describe a command: usage, text, examples and options."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self):
        """Return the nodes of the description."""
        words = self.arguments[0].split()
        command, context = find_command(words)
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        found = [_code_block(usage, "text"), *_help_paragraphs(command.help)]
        for title, rows in help_sections(words):
            found += [nodes.rubric(title, title), _definitions(rows, "-".join(["xmlgp", *words]))]
        return found


class ModelSettings(Directive):
    """Describe the settings of a model: name, type, default and help text."""

    required_arguments = 1

    def run(self):
        """Return the nodes of the description."""
        items = []
        for field in dataclasses.fields(MODELS[self.arguments[0]].settings):
            term = nodes.term("", "", nodes.literal("", f"{field.name}={field.default!r}"))
            body = nodes.paragraph("", "", *_inline(_help_of(field)))
            items.append(nodes.definition_list_item("", term, nodes.definition("", body)))
        return [nodes.definition_list("", *items, classes=["options"])]


def _help_of(field):
    """Return the help text of a setting, with its choices and what None means."""
    about = field.metadata
    text = about["help"].rstrip(".") + "."
    if about["choices"]:
        text += f" One of {', '.join(map(repr, about['choices']))}."
    if about["if_unset"]:
        text += f" None: {about['if_unset']}."
    return text


def _help_paragraphs(text):
    """Yield the paragraphs of a help text, those after a line with only a backspace as code."""
    for paragraph in re.split(r"\n\s*\n", text.replace("\r", "").strip()):
        if not paragraph.lstrip().startswith("\b"):
            yield nodes.paragraph("", "", *_inline(" ".join(paragraph.split())))
            continue
        title, *lines = (line.strip() for line in paragraph.replace("\b", "").strip().splitlines())
        yield nodes.paragraph("", title)
        yield _code_block("\n".join(lines), "sh")


def _definitions(rows, prefix):
    """Return a definition list of options, each with an anchor such as `xmlgp-train--kernel`."""
    items = []
    for names, text in rows:
        term = nodes.term("", "", nodes.literal("", names))
        long = re.search(r"--[a-z][a-z-]*", names)
        if long:
            term["ids"].append(prefix + long[0])
        body = nodes.paragraph("", "", *_inline(" ".join(text.split())))
        items.append(nodes.definition_list_item("", term, nodes.definition("", body)))
    return nodes.definition_list("", *items, classes=["options"])


def _inline(text):
    """Return the nodes of a text, with its code as literals."""
    found, start = [], 0
    for match in CODE.finditer(text):
        found += [nodes.Text(text[start : match.start()]), nodes.literal("", match[1] or match[2])]
        start = match.end()
    return [*found, nodes.Text(text[start:])]


def _code_block(text, language):
    return nodes.literal_block(text, text, language=language)


def setup(app):
    """Register the directives."""
    app.add_directive("command", Command)
    app.add_directive("settings", ModelSettings)
    return {"parallel_read_safe": True}
