"""Hold what a change must not change: the arrays and the scores of trained models, on one machine and seed.

    python -m benchmarks frozen write DATASETS BEFORE.json [CASE...]     in a checkout of the commit to compare with
    python -m benchmarks frozen write DATASETS AFTER.json [CASE...]      in this one
    python -m benchmarks frozen compare BEFORE.json AFTER.json

DATASETS is the folder with bibtex/, delicious/, tags/, deps/ and binary/. The default is trained on the first four,
every recipe of [S] and [L] for two epochs on Bibtex, BMLPL's methods on the toy data and GPC's on german. Hashes are of
an array's type, shape and bytes, so they are comparable on one machine alone; the measures are beside them.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

RECIPES = (
    "s-LINEAR",
    "LINEAR",
    "s-SE",
    "SE",
    "sf-LINEAR",
    "f-LINEAR",
    "sf-SE",
    "f-SE",
    "L-LR",
    "L-SE",
    "L-SE+LR",
    "L-SE-F",
)

BMLPL = ("B-EM-CG", "B-EM", "B-Gibbs", "B-online-EM")

GPC = ("I-svi-adadelta", "I-vi-jj", "I-vi-jj-full", "I-vi-jj-hybrid", "I-vi-taylor")

#: The threads of every run: sums in another order have other last digits.
THREADS = ("--threads", "2")


def cases(folder: Path, toy: Path) -> dict[str, tuple[list[str], Path, Path]]:
    """Return the options of `xmlgp train`, the training points and the test points of each case by name."""
    bibtex = folder / "bibtex" / "train.txt", folder / "bibtex" / "test.txt"
    delicious = folder / "delicious" / "train.txt", folder / "delicious" / "test.txt"
    texts = {name: (folder / name / "train.jsonl.gz", folder / name / "test.jsonl.gz") for name in ("tags", "deps")}
    german = folder / "binary" / "german.svm"
    all_cases: dict[str, tuple[list[str], Path, Path]] = {
        "default-bibtex": ([], *bibtex),
        "default-delicious": ([], *delicious),
    }
    all_cases |= {f"default-{name}": ([], *files) for name, files in texts.items()}
    all_cases |= {name: (["--recipe", name, "--epochs", "2"], *bibtex) for name in RECIPES}
    all_cases |= {
        name: (["--recipe", name, "--iterations", "5"], toy / "train.txt", toy / "test.txt") for name in BMLPL
    }
    all_cases |= {name: (["--recipe", name, "--iterations", "20"], german, german) for name in GPC}
    return all_cases


def xmlgp(*arguments: object) -> str:
    """Run a command of the checkout in this folder and return what it prints."""
    command = [sys.executable, "-m", "xmlgp", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def digest(array: np.ndarray) -> str:
    """Return a hash of an array's type, shape and bytes."""
    about = f"{array.dtype.str} {array.shape} ".encode()
    return hashlib.sha256(about + np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def arrays_of(model: Path) -> dict[str, str]:
    """Return the hash of each array of a model folder by name."""
    entries = json.loads((model / "model.json").read_text())["arrays"]
    files = {name: entry if isinstance(entry, str) else entry["file"] for name, entry in entries.items()}
    return {name: digest(np.load(model / file)) for name, file in sorted(files.items())}


def measured(options: list[str], train: Path, test: Path, work: Path) -> dict[str, object]:
    """Train, predict and evaluate; return the hashes of arrays and scores, and the measures as printed."""
    model = work / "model"
    scores = work / "test.scores"
    xmlgp("train", "--quiet", "--overwrite", *THREADS, *options, train, model)
    xmlgp("predict", "--quiet", *THREADS, "-k", 20, model, test, "-o", scores)
    return {
        "arrays": arrays_of(model),
        "scores": hashlib.sha256(scores.read_bytes()).hexdigest()[:16],
        "measures": xmlgp("evaluate", scores, test).splitlines(),
    }


def write(folder: Path, out: Path, names: list[str]) -> None:
    """Write what every case, or those of some names, gives; cases that are written already stay."""
    results = json.loads(out.read_text()) if out.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        xmlgp("fetch", "--quiet", "toy", "--into", work)
        for name, (options, train, test) in cases(folder, work / "toy").items():
            if name in results or (names and name not in names):
                continue
            print(name, file=sys.stderr, flush=True)
            try:
                results[name] = measured(options, train, test, work)
            except subprocess.CalledProcessError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            out.write_text(json.dumps(results, indent=1))


def compare(before: Path, after: Path) -> None:
    """Print for each case which arrays and scores differ, and the measures where they do."""
    earlier = json.loads(before.read_text())
    now = json.loads(after.read_text())
    for name in earlier.keys() & now.keys():
        old, new = earlier[name], now[name]
        shared = old["arrays"].keys() & new["arrays"].keys()
        changed = sorted(array for array in shared if old["arrays"][array] != new["arrays"][array])
        same_scores = "equal" if old["scores"] == new["scores"] else "OTHER"
        print(f"{name}: {len(shared) - len(changed)} of {len(shared)} arrays equal, scores {same_scores}")
        for title, values in (
            ("changed", changed),
            ("gone", sorted(old["arrays"].keys() - shared)),
            ("new", sorted(new["arrays"].keys() - shared)),
        ):
            if values:
                print(f"  {title}: {', '.join(values)}")
        if same_scores != "equal":
            print("\n".join(f"  before {line}" for line in old["measures"][:12]))
            print("\n".join(f"  now    {line}" for line in new["measures"][:12]))


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    if verb == "write":
        write(Path(arguments[0]).resolve(), Path(arguments[1]).resolve(), arguments[2:])
    else:
        compare(Path(arguments[0]), Path(arguments[1]))
