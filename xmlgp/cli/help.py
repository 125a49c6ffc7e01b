"""Help in groups: the options that most people need on the first screen, and all of them with `--help-all`."""

from __future__ import annotations

import inspect
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from xmlgp.runtime.plurals import counted

__all__ = ["GROUPS", "WHOLE", "Context", "Formatter", "Option", "Subcommand", "SubcommandGroup", "brief", "option"]

#: The groups of options in the order of the help of every command. An option that names none is of the last one.
GROUPS = ("Labels", "Measures", "Split", "Data", "Output", "Text", "Model", "Run")

#: The title of the options of a command that has one group only.
TITLE = "Options"

#: Where a context remembers that the whole help was asked for.
WHOLE = "xmlgp.help_all"

#: The most characters of the names of options that have their text beside them.
NAMES_WIDTH = 30

#: The fewest columns of a text beside the names of its option; if there are fewer, it stands below them.
TEXT_WIDTH = 20

#: The fewest columns that help is written for.
NARROWEST = 20

#: The end of the first sentence of a text.
SENTENCE = re.compile(r"(?<=\.)\s+(?=[A-Z])")

#: What Click and the help texts say of the default and the range of an option, after the text.
DEFAULT = re.compile(r"\s{2}\[.*\]$", re.DOTALL)

#: A range of numbers, in words of Click: "x>=1", after the default or alone.
RANGE = re.compile(r"; (?:[\d.]+<=?)?x(?:[<>]=?[\d.]+)?(?=\])|\s{2}\[(?:[\d.]+<=?)?x(?:[<>]=?[\d.]+)?\]")


class Formatter(click.HelpFormatter):
    """Writes help as Click does, and also for narrow terminals, where Click's lines would be broken."""

    def __init__(self, width: int | None = None, max_width: int | None = None) -> None:
        if width is None:
            columns = shutil.get_terminal_size().columns
            width = max(min(columns, max_width or columns) - 2, NARROWEST)
        super().__init__(width=width)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = NAMES_WIDTH, col_spacing: int = 2) -> None:
        """Write a list of names and texts, each text below its names on a narrow terminal."""
        rows = list(rows)
        names_width = min(max(len(name) for name, _ in rows), col_max)
        is_narrow = self.width - names_width - 2 * col_spacing < TEXT_WIDTH
        super().write_dl(rows, 2 if is_narrow else col_max, col_spacing)

    def getvalue(self) -> str:
        """Return the help, without the spaces that fill a column."""
        return re.sub(r" +$", "", super().getvalue(), flags=re.MULTILINE)


class Context(click.Context):
    """The context of a command, whose help has a `Formatter`."""

    formatter_class = Formatter


class Option(click.Option):
    """An option that knows its group, one of `GROUPS`."""

    def __init__(self, *names: Any, group: str = GROUPS[-1], **attributes: Any) -> None:  # noqa: ANN401, as Click has it
        if group not in GROUPS:
            raise ValueError(f"{group} is not one of {', '.join(GROUPS)}")
        super().__init__(*names, **attributes)
        self.group = group
        if isinstance(self.type, click.IntRange) and not self.metavar:
            self.metavar = "N"


def option(
    *names: str,
    group: str = GROUPS[-1],
    **attributes: Any,  # noqa: ANN401, as Click has it
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Return a decorator as `click.option` does, for an option of a group."""
    return click.option(*names, cls=Option, group=group, **attributes)


class Subcommand(click.Command):
    """A command whose options are listed in groups.

    Parameters
    ----------
    common : sequence of str, optional
        The options of the first screen. `--help` then lists these alone, each with the first sentence of its text, and
        the text of the command up to its examples. `--help-all` lists everything. By default, `--help` does.
    """

    context_class = Context

    def __init__(self, *arguments: Any, common: Sequence[str] = (), **attributes: Any) -> None:  # noqa: ANN401, as Click has it
        super().__init__(*arguments, **attributes)
        self.common = frozenset(common)
        unknown = self.common - {name for param in self.params for name in param.opts}
        if unknown:
            raise ValueError(f"{self.name} has no option {', '.join(sorted(unknown))}")
        if common:
            self.params.append(_help_all_option())

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text of the command, up to its examples on the first screen."""
        text = inspect.cleandoc(self.help or "")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text if self.is_whole(ctx) else _first_screen(text))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in groups."""
        sections = _sections(self, ctx)
        # All sections have one width.
        names_width = max(len(name) for rows in sections.values() for name, _ in rows if len(name) <= NAMES_WIDTH)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(names_width), text) for name, text in rows], names_width)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write how many options the first screen leaves out, and what lists them."""
        super().format_epilog(ctx, formatter)
        if not self.is_whole(ctx):
            shown = sum(len(rows) for rows in _sections(self, ctx).values())
            count = sum(isinstance(param, Option) for param in self.params) - shown
            formatter.write_paragraph()
            formatter.write_text(f"`{ctx.command_path} --help-all` lists {counted(count, 'more option')}.")

    def is_whole(self, ctx: click.Context) -> bool:
        """Return whether help is to have everything."""
        return not self.common or WHOLE in ctx.meta


class SubcommandGroup(click.Group):
    """A command that has commands."""

    context_class = Context
    command_class = Subcommand


def _first_screen(text: str) -> str:
    """Return a help text up to the end of its examples."""
    paragraphs = text.split("\n\n")
    examples = [n for n, paragraph in enumerate(paragraphs) if re.match(r"\x08\nExamples?:", paragraph)]
    return "\n\n".join(paragraphs[: examples[0] + 1] if examples else paragraphs)


def _sections(command: Subcommand, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
    """Return the names and texts of the options that help lists, by the titles of groups in their order."""
    is_whole = command.is_whole(ctx)
    sections: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
    for param in command.get_params(ctx):
        # Newer versions of Click have a record of arguments too.
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        if record and (is_whole or command.common.intersection(param.opts)):
            names, text = record
            rows = sections[getattr(param, "group", GROUPS[-1])]
            rows.append((names, text if is_whole else brief(text)))
    sections = {group: rows for group, rows in sections.items() if rows}
    return sections if len(sections) > 1 else dict(zip([TITLE], sections.values(), strict=True))


def brief(text: str) -> str:
    """Return the first sentence of the text of an option, and its default."""
    text = RANGE.sub("", text)
    default = DEFAULT.search(text)
    sentences = DEFAULT.sub("", text)
    return SENTENCE.split(sentences, maxsplit=1)[0] + (default[0] if default else "")


def _help_all_option() -> click.Option:
    """Return the option `--help-all`, which is handled before others are checked, as `--help` is."""

    def print_all(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
        if asked and not ctx.resilient_parsing:
            ctx.meta[WHOLE] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    return click.Option(
        ["--help-all"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=print_all,
        help="Show this message with all options and exit.",
    )
