#!/usr/bin/env bash
# Package: torchmetrics 1.9.0 (`multilabel_ranking_loss`, `MultilabelRankingLoss`), with PyTorch 2.13.0.
#
# Expected: the ranking loss is the share of pairs of a relevant and an irrelevant label in the wrong order; 0 is best. Equal
# scores do not put a relevant label above an irrelevant one: scikit-learn's `label_ranking_loss` counts such a pair as
# wrong. Another order of the label columns changes nothing.
#
# Seen: equal scores are ranked by the number of the column. A model that gives every label 0.5 has loss 0.0, a perfect
# ranking, if the relevant labels stand in the last columns, and 1.0 if they stand in the first. With scores rounded to one
# decimal the loss moves with the order of the columns, too. LRAP and the coverage error of the same package do not.
#
# Who meets it: users of models whose scores tie: half precision, saturated sigmoids, k-nearest neighbours, decision trees.
# The environment is large because of PyTorch.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    torch==2.13.0 torchmetrics==1.9.0 scikit-learn==1.9.1 numpy==2.4.6 scipy==1.17.1
cat > "$folder/script.py" << 'PYTHON'
from importlib.metadata import version

import numpy as np
import torch
from sklearn.metrics import label_ranking_loss
from torchmetrics.functional.classification import (
    multilabel_coverage_error,
    multilabel_ranking_average_precision,
    multilabel_ranking_loss,
)

print("torchmetrics", version("torchmetrics"), "torch", version("torch"), "scikit-learn", version("scikit-learn"))
generator = np.random.default_rng(0)


def look(name: str, scores: np.ndarray, gold: np.ndarray) -> tuple[list[float], list[float]]:
    print(f"\n{name}\n  {'order of the columns':22} ranking loss  scikit-learn's    LRAP  coverage error")
    losses, references = [], []
    for order in ("as they are", "reversed", "relevant first", "relevant last"):
        columns = np.argsort(gold.sum(axis=0), kind="stable")
        columns = {
            "as they are": np.arange(gold.shape[1]),
            "reversed": np.arange(gold.shape[1])[::-1],
            "relevant first": columns[::-1],
            "relevant last": columns,
        }[order]
        s, y = scores[:, columns].copy(), gold[:, columns].copy()
        arguments = torch.tensor(s), torch.tensor(y), y.shape[1]
        losses.append(float(multilabel_ranking_loss(*arguments)))
        references.append(float(label_ranking_loss(y, s)))
        others = float(multilabel_ranking_average_precision(*arguments)), float(multilabel_coverage_error(*arguments))
        print(f"  {order:22} {losses[-1]:12.3f} {references[-1]:15.3f} {others[0]:7.3f} {others[1]:15.3f}")
    return losses, references


gold = (generator.random((200, 12)) < np.linspace(0.02, 0.6, 12)).astype(int)
scores = (gold * 0.1 + generator.random(gold.shape) * 0.9).astype(np.float32)
losses, references = look("control: scores that are all different", scores, gold)
assert np.allclose(losses, references, atol=1e-5) and np.ptp(losses) < 1e-5, "the control changed"

losses, references = look("the same scores, rounded to one decimal", scores.round(1), gold)
assert np.ptp(references) < 1e-5 < 0.02 < np.ptp(losses), "the order of the columns no longer matters"

gold = np.tile([0, 0, 0, 0, 1, 1], (5, 1))
losses, references = look("every label has the score 0.5", np.full(gold.shape, 0.5, np.float32), gold)
assert np.allclose(references, 1) and losses[0] == losses[3] == 0 and losses[1] == losses[2] == 1
print("\nSeen: with equal scores the loss is 0 or 1 by the order of the columns.")
PYTHON
"$folder/env/bin/python" "$folder/script.py"
