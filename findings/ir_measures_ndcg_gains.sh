#!/usr/bin/env bash
# ir_measures 0.4.3 (with pytrec-eval-terrier 0.5.11, NumPy 2.4.6): nDCG changes with the measures that are asked for
# beside it, and from one start of Python to the next.
#
# Expected: a measure of a run has one value. `gains`, "custom gain mapping (int-to-int)", is a parameter of one
# measure; nDCG without it uses the judgements as they are.
# Seen: nDCG@5 alone is 0.42 in every process. Asked for together with nDCG(gains=...)@5 it is in about half of them
# computed with the gains of the other measure (0.2662, that measure's value), and the other is reported as 0. nDCG@10
# beside nDCG(gains=...)@5 takes the wrong gains too, and nothing looks odd. Which of the two happens depends on the
# order of a set of measures, that is, on PYTHONHASHSEED, which is drawn anew in each process. Measures without gains
# (nDCG@5 with nDCG@10) do not disturb each other.
# Who meets it: whoever reports nDCG with linear and with exponential gains side by side, the two usual conventions: the
# table differs between two runs of one script on one file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --no-compile --quiet --disable-pip-version-check \
    ir_measures==0.4.3 pytrec-eval-terrier==0.5.11 numpy==2.4.6
cat > "$folder/measure.py" <<'PY'
import json

import ir_measures
from ir_measures import nDCG

judgements = {"q": {"a": 3, "b": 2, "c": 1}}
run = {"q": {"c": 3.0, "x": 2.0, "b": 1.0}}
exponential = nDCG(gains={1: 1, 2: 3, 3: 7})


def values(*measures: object) -> list[float]:
    """Return the value of each measure, all asked for in one call."""
    result = ir_measures.calc_aggregate(measures, judgements, run)
    return [round(result[measure], 4) for measure in measures]


print(json.dumps({
    "alone": values(nDCG @ 5) + values(exponential @ 5) + values(nDCG @ 10),
    "nDCG@5 with gains@5": values(nDCG @ 5, exponential @ 5),
    "nDCG@10 with gains@5": values(nDCG @ 10, exponential @ 5),
    "nDCG@5 with nDCG@10": values(nDCG @ 5, nDCG @ 10),
}))
PY
"$folder/venv/bin/python" - "$folder/measure.py" <<'PY'
import collections
import json
import math
import os
import subprocess
import sys
from importlib.metadata import version

print("ir_measures", version("ir_measures"))


def definition(gains: tuple[float, ...]) -> float:
    """Return nDCG of a ranking whose first and third of three documents have the gains 1 and 2 of the judgements."""
    ranked = [gains[0], 0, gains[1]]
    discounts = [1 / math.log2(rank + 2) for rank in range(3)]
    best = sum(g * d for g, d in zip(sorted(gains, reverse=True), discounts))
    return round(sum(g * d for g, d in zip(ranked, discounts)) / best, 4)


linear, exponential = definition((1, 2, 3)), definition((1, 3, 7))
print("by the definition: linear gains", linear, "exponential gains", exponential)
seen: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
for seed in range(24):
    environment = os.environ | {"PYTHONHASHSEED": str(seed)}
    answer = subprocess.run([sys.executable, sys.argv[1]], env=environment, check=True, capture_output=True, text=True)
    for name, found in json.loads(answer.stdout).items():
        seen[name][tuple(found)] += 1
for name, counts in seen.items():
    print(f"{name}: {', '.join(f'{list(found)} in {n} of 24 processes' for found, n in counts.most_common())}")

# The controls: alone, and beside a measure without gains.
assert set(seen["alone"]) == {(linear, exponential, linear)}
assert set(seen["nDCG@5 with nDCG@10"]) == {(linear, linear)}
# The surprise: two answers, one of them wrong.
assert set(seen["nDCG@5 with gains@5"]) == {(linear, exponential), (exponential, 0.0)}
assert set(seen["nDCG@10 with gains@5"]) == {(linear, exponential), (exponential, exponential)}
print("seen: nDCG takes the gains of another measure in some processes")
PY
