"""`xmlgp serve`: suggest labels over HTTP."""

from __future__ import annotations

import click

from xmlgp.cli.options import NonEmptyPath, OptionValue, check_finite, show_note, threads_option
from xmlgp.serving import server

__all__ = ["serve"]


@click.command()
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, type=NonEmptyPath())
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on: only this machine "
    "reaches the default one; 0.0.0.0 is all addresses of this machine.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0 for one that is free.")
@click.option("--learn", is_flag=True, help="Let requests to …/learn change the models. Needs --token.")
@click.option(
    "--token",
    type=NonEmptyPath(dir_okay=False),
    metavar="FILE",
    help="Answer only requests with the token in FILE, as `Authorization: Bearer TOKEN`.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Number of processes.  [default: one for each core, at most 4]",
)
@click.option(
    "--max-body",
    type=click.FloatRange(0, 1000, min_open=True),
    callback=check_finite,
    default=4.0,
    show_default=True,
    metavar="MB",
    help="Largest body of a request in megabytes; larger ones are answered with 413.",
)
@threads_option
def serve(models: tuple[str, ...], **options: OptionValue) -> None:
    """Suggest labels of texts over HTTP, with the models in the folders MODEL.

    The interface is version 1 of Annif's REST interface: what asks Annif can ask this server, and so can Annif itself.
    The name of a folder is its project, and http://127.0.0.1:8080/ is a page to try it. Scores are those of `xmlgp
    predict`.

    A line for each request goes to standard error. A model that `xmlgp train` or `xmlgp learn` replaces is taken up.
    SIGTERM and Ctrl-C end the server after the requests that it is answering.

    \b
    Examples:
      xmlgp serve models/tickets
      xmlgp serve models/tickets models/theses --port 8000
      xmlgp serve models/tickets --learn --token token.txt
      curl -d text=Printer http://127.0.0.1:8080/v1/projects/tickets/suggest
    """
    server.serve(models, note=show_note, **options)
