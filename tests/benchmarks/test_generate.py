"""Generated data sets: the frequencies of their labels, and reduced shapes."""

import dataclasses

import numpy as np
import pytest
from generate import GeneratedSet, Shape

SHAPE = Shape(N=6000, D=300, K=200, features=20, labels=3, own=0.5)


@pytest.mark.parametrize(("offset", "exponent"), [(20, 0.7)])
def test_label_frequencies_follow_the_power_law(offset, exponent):
    generated = GeneratedSet(dataclasses.replace(SHAPE, label_offset=offset, label_exponent=exponent))
    counts = np.sort(generated.rows(slice(None)).labels.sum(axis=0))[::-1]
    law = (np.arange(200) + offset) ** -float(exponent)
    # Associates, and labels drawn twice for a point, change frequencies a little.
    assert counts[:20].sum() / counts.sum() == pytest.approx(law[:20].sum() / law.sum(), rel=0.25)
    assert counts[-100:].sum() / counts.sum() == pytest.approx(law[-100:].sum() / law.sum(), rel=0.25)
