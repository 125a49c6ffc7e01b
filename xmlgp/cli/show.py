"""`xmlgp show`: tell what a model folder holds."""

import json

import click

from xmlgp.models.folder import ModelFolder

__all__ = ["show"]


@click.command(short_help="Tell what a model folder holds.")
@click.argument("model", type=click.Path())
@click.option(
    "--json", "as_json", is_flag=True, help="Print the whole description, with the training history, as JSON."
)
def show(model, as_json):
    """Tell what the folder MODEL holds: its stage, data, settings, arrays and training.

    \b
    Example:
      xmlgp show models/bibtex
    """
    folder = ModelFolder(model)
    description = folder.description
    if as_json:
        click.echo(json.dumps(description, indent=1, ensure_ascii=False))
        return
    data, history = description["data"], description.get("history")
    click.echo(f"{model}: {description['model']}, {folder.stage}, written by {description['written_by']}")
    click.echo(f"data      N {data['N']}, D {data['D']}, K {data['K']}, fingerprint {data['fingerprint'][:12]}")
    if history:
        last = history[-1]
        epochs = f"{last['epoch']} epoch{'s' * (last['epoch'] > 1)}"
        click.echo(f"training  {epochs}, {last['seconds']:.1f} s, bound {last['bound']:.6g}")
    rows = [(name, "-" if value is None else str(value)) for name, value in description["settings"].items()]
    _table("settings", rows)
    shapes = [(name, entry["shape"], entry["dtype"]) for name, entry in description["arrays"].items()]
    _table(
        "arrays", [(name, f"{'×'.join(map(str, shape)) or 'scalar':12} {dtype[1:]}") for name, shape, dtype in shapes]
    )


def _table(title, rows):
    click.echo(title)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        click.echo(f"  {name:{width}}  {value}")
