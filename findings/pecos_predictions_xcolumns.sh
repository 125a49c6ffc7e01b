#!/usr/bin/env bash
# Packages: PECOS (libpecos 1.2.8) and xCOLUMNs 0.0.2, where they meet.
#
# Expected: the predictions of PECOS are a csr_matrix, and the measures of xCOLUMNs take "np.ndarray, torch.Tensor or
# csr_matrix" for both arguments. A csr_matrix may list the columns of a row in any order (SciPy's documentation of
# `has_sorted_indices`), so that precision at 3 is the same by both.
#
# Seen: PECOS lists the labels of a row by score. xCOLUMNs walks the rows of both matrices in parallel as if the columns
# ascended, without a check, and loses a third of the true positives: precision at 3 is 66 in place of 94, and macro F1
# falls as much. `predictions.sort_indices()`, or a dense matrix, gives the right figures. A label that is lost counts as a
# false positive and a false negative, so that the figures look like those of a weaker model.
#
# Who meets it: whoever evaluates a model of PECOS, or any matrix in the order of scores, by the macro measures of xCOLUMNs.
# libpecos and xcolumns are installed without their other requirements (PyTorch, transformers), which are not used here.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check \
    numpy==1.26.4 scipy==1.13.1 scikit-learn==1.7.2 numba==0.61.2 tqdm==4.67.1
"$folder/env/bin/pip" install --quiet --disable-pip-version-check --no-deps libpecos==1.2.8 xcolumns==0.0.2
cat > "$folder/script.py" << 'PYTHON'
from importlib.metadata import version

import numpy as np
from pecos.utils.smat_util import Metrics
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
from scipy.sparse import csr_matrix
from sklearn.metrics import f1_score
from xcolumns.metrics import macro_f1_score, micro_precision

print("libpecos", version("libpecos"), "xcolumns", version("xcolumns"))
generator = np.random.default_rng(0)
points, features, labels = 600, 60, 30
y = np.zeros((points, labels), np.float32)
for row in y:
    row[generator.choice(labels, 3, replace=False)] = 1
x = y @ generator.normal(size=(labels, features)) + 0.3 * generator.normal(size=(points, features))
x = csr_matrix((x * (generator.random(x.shape) < 0.5)).astype(np.float32))
gold = csr_matrix(y)

clusters = Indexer.gen(LabelEmbeddingFactory.create(gold, x, method="pifa"), max_leaf_size=8, nr_splits=4, seed=0)
model = XLinearModel.train(x, gold, C=clusters)
predictions = model.predict(x, only_topk=3, beam_size=30)
by_pecos = Metrics.generate(gold, predictions, topk=3).prec[2]
predictions.data[:] = 1
print("the labels of the first point, as PECOS lists them:", predictions.indices[:3].tolist())
print(f"precision at 3 by PECOS itself: {100 * by_pecos:.1f}")
print(f"macro F1 by scikit-learn:       {100 * f1_score(y, predictions.toarray(), average='macro'):.1f}")
ordered = predictions.copy()
ordered.sort_indices()
assert (ordered != predictions).nnz == 0
figures = {}
for name, arguments in {
    "dense matrices": (y, predictions.toarray()),
    "csr_matrix, columns sorted": (gold, ordered),
    "csr_matrix as PECOS returns it": (gold, predictions),
}.items():
    figures[name] = float(micro_precision(*arguments)), float(macro_f1_score(*arguments))
    print(f"xCOLUMNs, {name:31} precision {100 * figures[name][0]:.1f}   macro F1 {100 * figures[name][1]:.1f}")

dense, by_column, as_returned = figures.values()
assert np.allclose(dense, by_column, atol=1e-4) and abs(dense[0] - by_pecos) < 1e-4, "the control changed"
assert as_returned[0] < 0.75 * by_pecos and as_returned[1] < 0.75 * dense[1], "the order no longer matters"
print("Seen: the same predictions, another order within the rows, other figures.")
PYTHON
"$folder/env/bin/python" "$folder/script.py"
