"""`xmlgp completion`: print the script by which a shell completes commands."""

from __future__ import annotations

import click

from xmlgp.cli.help import Subcommand
from xmlgp.cli.shells import SHELLS, script

__all__ = ["completion"]


@click.command(cls=Subcommand)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete what you type of xmlgp when you press Tab.

    It completes commands, options, files, and the names of recipes, settings and data sets.

    \b
    Add the line of your shell to its file, and open a new terminal:
      bash  ~/.bashrc                   eval "$(xmlgp completion bash)"
      zsh   ~/.zshrc                    eval "$(xmlgp completion zsh)"
      fish  ~/.config/fish/config.fish  xmlgp completion fish | source

    It works for xmlgp in the PATH, also where pipx or uv has installed it. In an environment of its own, activate that
    first. After an update the script stays as it is, and completes what is new.

    \b
    Example:
      xmlgp completion bash
    """
    click.echo(script(shell, context.find_root().command), nl=False)
