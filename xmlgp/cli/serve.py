"""`xmlgp serve`: suggest labels over HTTP."""

from __future__ import annotations

import click

from xmlgp import api
from xmlgp.api import LOGS
from xmlgp.cli import with_options
from xmlgp.cli.options import NonEmptyPath, OptionValue, check_finite, threads_option
from xmlgp.serving.lines import write_text

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
@click.option("--learn", is_flag=True, help="Let requests to …/learn change the models.")
@click.option(
    "--token",
    type=NonEmptyPath(dir_okay=False),
    metavar="FILE",
    help="Answer only requests with the token in FILE, as `Authorization: Bearer TOKEN`.",
)
@click.option(
    "--allow-origin",
    multiple=True,
    metavar="ORIGIN",
    help="Let pages of ORIGIN, such as https://example.org, ask in a browser; * for all. Can be given more than once.",
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Answer requests for the host NAME too, such as those that a proxy passes on. A server on the loopback "
    "interface without a token answers only those for localhost. Can be given more than once.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Number of processes.  [default: one for each core, at most 4]",
)
@click.option(
    "--queue",
    type=click.IntRange(1),
    default=512,
    show_default=True,
    metavar="N",
    help="At most N texts wait in a process; further requests are answered with 503.",
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
@click.option(
    "--timeout",
    type=click.FloatRange(0, 3600, min_open=True),
    callback=check_finite,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for a request to arrive, and for its answer; later it is answered with 408 or 503.",
)
@click.option("--log", type=click.Choice(LOGS), default="text", show_default=True, help="How requests are logged.")
@threads_option
def serve(models: tuple[str, ...], **options: OptionValue) -> None:
    """Suggest labels of texts over HTTP, with the models in the folders MODEL.

    The interface is version 1 of Annif's REST interface: what asks Annif can ask this server, and so can Annif itself.
    The name of a folder is its project; that of a packed model is one without .zip. http://127.0.0.1:8080/ is a page to
    try it, and /v1/ui/ describes the interface. Scores are those of `xmlgp predict`.

    A line for each request goes to standard error. A model that `xmlgp train` or `xmlgp learn` replaces is taken up.
    SIGTERM and Ctrl-C end the server after the requests that it is answering.

    \b
    Examples:
      xmlgp serve models/tickets
      xmlgp serve models/tickets models/theses --learn --port 8000
      curl -d text=Printer http://127.0.0.1:8080/v1/projects/tickets/suggest
      xmlgp serve models/tickets --host 0.0.0.0 --token token.txt --log json
    """
    api.serve(models, note=_show, **options)


def _show(text: str) -> None:
    """Show a message in its turn among the lines of the log, which nobody may read."""
    write_text(with_options(text))
