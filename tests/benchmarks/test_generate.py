"""Generated data sets: the frequencies of their labels, and reduced shapes."""

import dataclasses

import numpy as np
import pytest
from generate import SHAPES, GeneratedSet, Shape

SHAPE = Shape(N=6000, D=300, K=200, features=20, labels=3, own=0.5)


@pytest.mark.parametrize(("offset", "exponent"), [(3, 1), (20, 0.7)])
def test_label_frequencies_follow_the_power_law(offset, exponent):
    generated = GeneratedSet(dataclasses.replace(SHAPE, label_offset=offset, label_exponent=exponent))
    counts = np.sort(generated.rows(slice(None)).labels.sum(axis=0))[::-1]
    law = (np.arange(200) + offset) ** -float(exponent)
    # Associates, and labels drawn twice for a point, change frequencies a little.
    assert counts[:20].sum() / counts.sum() == pytest.approx(law[:20].sum() / law.sum(), rel=0.25)
    assert counts[-100:].sum() / counts.sum() == pytest.approx(law[-100:].sum() / law.sum(), rel=0.25)


def test_labels_of_a_reduced_shape_have_as_many_points():
    shape = SHAPES["amazon-670k"].share(0.01)
    assert (shape.N, shape.D, shape.K) == (4904, 13591, 6701)
    assert dataclasses.replace(shape, N=490_449, D=135_909, K=670_091) == SHAPES["amazon-670k"]
