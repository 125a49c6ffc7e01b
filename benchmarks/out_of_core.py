"""Peak memory and seconds of every command on a data set in the shape of AmazonCat, with the targets.

    python -m benchmarks out_of_core --folder FOLDER [--shape amazoncat] [--scale 1] [--json FILE]

Generates the data set into FOLDER if it is missing, then runs the commands as a user would with one
epoch of s-LINEAR with all negatives. Memory is the largest resident set of each command according to the operating
system, including pages of mapped files. The targets are at most 6 GB, and at most 10 minutes per epoch on two cores.
"""

import shutil
from pathlib import Path

import click

from benchmarks import harness
from benchmarks.generate import SHAPES, write
from xmlgp.model_folder.folder import ModelFolder

TARGET_MEMORY_GB = 6.0
TARGET_EPOCH_SECONDS = 600.0


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True)
@click.option("--shape", type=click.Choice(sorted(SHAPES)), default="amazoncat", show_default=True)
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=1.0, show_default=True)
@click.option("-R", "basis_size", default=2000, show_default=True)
@click.option("-M", "inducing_count", default=500, show_default=True)
@click.option("-P", "factors", default=30, show_default=True)
@harness.json_option
def main(folder, shape, scale, basis_size, inducing_count, factors, as_json):
    data, model = folder / f"{shape}-{scale:g}", folder / "model"
    if not (data / "test.txt").exists():
        write(SHAPES[shape].scaled(scale), data)
    shutil.rmtree(model, ignore_errors=True)
    sizes = "-R", basis_size, "-M", inducing_count
    results = {"shape": vars(SHAPES[shape].scaled(scale)), "R": basis_size, "M": inducing_count, "P": factors}
    stages = {
        "preprocess": ("preprocess", data, model, "--recipe", "s-LINEAR", *sizes),
        "train": ("train", data, model, "-P", factors, "--epochs", 1),
        "predict": ("predict", model, data, "-k", 5, "-o", folder / "scores"),
        "evaluate": ("evaluate", folder / "scores", data / "test.txt"),
    }
    table = harness.Table("", "seconds", "processor seconds", "peak GB")
    for name, arguments in stages.items():
        seconds, processor_seconds, peak_mb = harness.run_xmlgp(*arguments)
        numbers = seconds, processor_seconds, peak_mb / 1e3
        results[name] = dict(zip(("seconds", "processor_seconds", "peak_GB"), numbers, strict=True))
        table.row(name, *numbers)
    history = ModelFolder(model).description["history"]
    results["epoch_seconds"] = history[-1]["seconds"]
    peak = max(results[name]["peak_GB"] for name in ("preprocess", "train"))
    print(f"one epoch {results['epoch_seconds']:.1f} s (target {TARGET_EPOCH_SECONDS:.0f})")
    print(f"largest resident set {peak:.2f} GB (target {TARGET_MEMORY_GB:.0f})")
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
