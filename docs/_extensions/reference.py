"""The Sphinx directives `command` and `settings`: the help of a command and the settings of a model.

`command` has what Click writes for `--help-all`, without the settings, which have a section of their own.
"""

import dataclasses
import re

import click
from docutils import nodes
from docutils.parsers.rst import Directive

from xmlgp.cli import main
from xmlgp.cli.options import ALL
from xmlgp.cli.settings_options import SETTINGS
from xmlgp.models.fields import help_of
from xmlgp.models.table import MODELS

__all__ = ["Command", "ModelSettings", "setup"]

#: Parts of a help text that are code: quoted by backticks, or an option.
CODE = re.compile(r"`([^`]+)`|((?<![\w-])--[a-z][a-z-]+)")


class Command(Directive):
    """Describe a command: usage, text, examples and options."""

    required_arguments = 1

    def run(self):
        """Return the nodes of the description."""
        name = self.arguments[0]
        parent = click.Context(main, info_name="xmlgp", **main.context_settings)
        command = main.get_command(parent, name)
        context = click.Context(command, info_name=name, parent=parent)
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        context.meta[ALL] = True
        options = [option for option in command.get_params(context) if option.name not in SETTINGS]
        rows = filter(None, (option.get_help_record(context) for option in options))
        paragraphs = _help_paragraphs(command.help.replace("\f", ""))
        found = [_code_block(usage, "text"), *paragraphs, nodes.rubric("Options", "Options")]
        return [*found, _definitions(rows)]


class ModelSettings(Directive):
    """Describe the settings of a model: name, type, default and help text."""

    required_arguments = 1

    def run(self):
        """Return the nodes of the description."""
        fields = dataclasses.fields(MODELS[self.arguments[0]].settings)
        return [_definitions((f"{field.name}={field.default!r}", help_of(field)) for field in fields)]


def _help_paragraphs(text):
    """Yield the paragraphs of a help text, those after a line with only a backspace as code."""
    for paragraph in re.split(r"\n\s*\n", text.replace("\r", "").strip()):
        if not paragraph.lstrip().startswith("\b"):
            yield nodes.paragraph("", "", *_inline(" ".join(paragraph.split())))
            continue
        title, *lines = (line.strip() for line in paragraph.replace("\b", "").strip().splitlines())
        yield nodes.paragraph("", title)
        yield _code_block("\n".join(lines), "sh")


def _definitions(rows):
    """Return a definition list of pairs of a name and a text."""
    items = []
    for name, text in rows:
        term = nodes.term("", "", nodes.literal("", name))
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
