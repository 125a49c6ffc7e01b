"""`xmlgp doctor`: describe the machine and the installation."""

from __future__ import annotations

import shutil
import textwrap

import click

from xmlgp.cli.help import Subcommand
from xmlgp.runs.doctor import examine

__all__ = ["doctor"]

#: The most columns of a line.
WIDTH = 100


@click.command(cls=Subcommand)
@click.pass_context
def doctor(context: click.Context) -> None:
    """Describe this machine and this installation, to paste into a report of a bug, and say what is wrong.

    It prints versions, extras, the libraries that compute, cores, memory, caches and the terminal, without private
    things: the home folder is ~, and neither the name of the machine nor variables are shown. Problems are at the end,
    with what to do. The exit status is 1 if there are any.

    \b
    Example:
      xmlgp doctor
    """
    sections, problems = examine()
    columns = min(shutil.get_terminal_size().columns, WIDTH)
    for section, facts in sections.items():
        click.echo(section)
        width = max(map(len, facts), default=0)
        for name, fact in facts.items():
            click.echo(_line(f"  {name.ljust(width)}  ", fact, columns))
    click.echo("Problems" if problems else "No problems")
    for problem in problems:
        click.echo(_line("- ", problem, columns))
    if problems:
        context.exit(1)


def _line(start: str, text: str, columns: int) -> str:
    """Return a text after a start, with more lines below it where it is too long, which break no path."""
    return textwrap.fill(
        text,
        columns,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
