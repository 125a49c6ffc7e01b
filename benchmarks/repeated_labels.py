"""A model with more labels, made from a trained MLGPF by repeating its labels with random changes.

    python benchmarks/repeated_labels.py MODEL FOLDER [--labels 670091] [--weights 30000000] [--seed 0]

Writes a trained model to FOLDER, which `xmlgp predict` opens like any other, for the features of MODEL. Its time and
memory are those of a model with so many labels; its precision means nothing. It replaces training on hundreds of
thousands of labels where only prediction is measured.

Label k of the new model comes from label k mod K of MODEL. Its loadings and label weights are multiplied by random
numbers around one, and its bias gets a random number. If there are more label weights than --weights, each label keeps
those of largest absolute value, as many as the limit allows, so that repetitions of a label have different features.
"""

import tempfile
from pathlib import Path

import click
import numpy as np

from xmlgp.label_weights.pattern import most_each
from xmlgp.label_weights.posterior import LABEL_WEIGHTS, LabelWeights
from xmlgp.model_folder.folder import ModelFolder

#: Standard deviations of the random changes: of the factors of loadings and label weights, and of the added bias.
SPREAD = 0.5

#: Labels of the new model that are made together.
BLOCK = 1 << 13

#: What prediction needs beside the loadings, biases and label weights, by the start of its name.
KEPT = ("preprocess.", "parameters.latent_weights.", "parameters.calibration")


def repeated(parameters, K, limit, seed, folder):
    """Return loadings, bias and label weights of K labels as parameters; the large ones are mapped to files."""
    loadings, bias = parameters["loadings"], parameters["bias"]
    weights = LabelWeights.of(parameters)
    count, P = loadings.shape
    lengths = np.resize(np.diff(weights.indptr), K)
    lengths = np.minimum(lengths, most_each(lengths, limit))
    indptr = np.concatenate([[0], np.cumsum(lengths)])

    def empty(name, *shape, dtype=loadings.dtype):
        return np.lib.format.open_memmap(folder / f"{name}.npy", "w+", dtype, shape)

    new_loadings = empty("loadings", K, P)
    features = empty("features", indptr[-1], dtype=np.int32)
    moments = empty("means", indptr[-1]), empty("log_variances", indptr[-1])
    new_bias = np.empty(K, bias.dtype)
    for start in range(0, K, BLOCK):
        random = np.random.default_rng([seed, start])
        block = np.arange(start, min(start + BLOCK, K))
        origins = block % count
        factors = 1 + SPREAD * random.standard_normal((len(block), P), loadings.dtype)
        new_loadings[block] = loadings[origins] * factors
        new_bias[block] = bias[origins] + SPREAD * random.standard_normal(len(block), bias.dtype)
        for k, origin in zip(block, origins, strict=True):
            own = slice(weights.indptr[origin], weights.indptr[origin + 1])
            means = weights.mean[own] * (1 + SPREAD * random.standard_normal(own.stop - own.start, loadings.dtype))
            kept = np.argsort(-np.abs(means), kind="stable")[: lengths[k]]
            kept.sort()
            new = slice(indptr[k], indptr[k + 1])
            features[new] = weights.features[own][kept]
            moments[0][new] = means[kept]
            moments[1][new] = weights.log_variance[own][kept]
    new_weights = LabelWeights(indptr.astype(np.int64), features, *moments, weights.log_prior)
    return {"loadings": new_loadings, "bias": new_bias, **new_weights.parameters()}


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("model", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--labels", "K", type=click.IntRange(1), default=670_091, show_default=True)
@click.option("--weights", "limit", type=click.IntRange(1), default=30_000_000, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def main(model, folder, K, limit, seed):
    source = ModelFolder(model)
    parameters = source.arrays("parameters.")
    if not LABEL_WEIGHTS.is_in(parameters) or "latent_weights.mean" not in parameters:
        raise click.ClickException(f"{model} is not a model of MLGPF with label weights, trained in weight space")
    with tempfile.TemporaryDirectory(dir=folder.parent) as space:
        changed = repeated(parameters, K, limit, seed, Path(space))
        arrays = {name: array for name, array in source.arrays("").items() if name.startswith(KEPT)}
        arrays |= {f"parameters.{name}": array for name, array in changed.items()}
        data = source.description["data"] | {"K": K}
        ModelFolder.write(
            folder,
            settings=source.settings,
            stage="trained",
            data=data,
            arrays=arrays,
            history=source.description["history"],
        )


if __name__ == "__main__":
    main()
