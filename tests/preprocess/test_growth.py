"""Preprocessing of more points: the weighting of all points together, and room for new features."""

import numpy as np
import pytest
import scipy.sparse as sp

from tests.grids import each_value
from tests.problems import small_features
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.errors import SettingsError
from xmlgp.gpc.settings import GPCSettings
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.models import MODELS
from xmlgp.preprocess.growth import grow
from xmlgp.preprocess.pipeline import Preprocessed
from xmlgp.training.trained import STATISTICS, add_statistics, statistics_are_valid, statistics_of

N, N_KNOWN, D, D_KNOWN = 40, 25, 25, 18
SMALL = {"basis_size": 6, "inducing_count": 5}


def together():
    """Return the features of all points, of which the first ones lack the last features."""
    features = small_features(N, D).toarray()
    features[:N_KNOWN, D_KNOWN:] = 0
    return sp.csr_array(features)


def counts_after(features, cuts):
    """Return the counts of features after points that come in parts."""
    labels = sp.csr_array((N, 3), dtype=bool)
    total = None
    for start, stop in zip([0, *cuts], [*cuts, N], strict=True):
        width = D_KNOWN if start == 0 else D
        part = statistics_of(features[start:stop, :width], labels[start:stop])
        total = part if total is None else add_statistics(total, part)
    return total["statistics.features"]


def preprocess(features, settings):
    return MODELS[settings.model].preprocess(features, settings)


@each_value(cuts=[[N_KNOWN], [N_KNOWN, 25, 33, 39]], weighting=["root-idf", "idf", "unit", "none"])
def test_weighting_is_that_of_all_points_together(weighting, cuts):
    features, settings = together(), MLGPFSettings(weighting=weighting, **SMALL)
    known = preprocess(features[:N_KNOWN, :D_KNOWN], settings)
    found = grow(known, settings, N, counts_after(features, cuts))
    expected = preprocess(features, settings).weighting
    assert found.weighting[1:] == expected[1:]
    assert (found.weighting.idf is None) == (expected.idf is None)
    if expected.idf is not None:
        np.testing.assert_array_equal(found.weighting.idf, expected.idf)
        assert found.weighting.idf.dtype == expected.idf.dtype
    np.testing.assert_array_equal(
        found.weigh(features).toarray(), preprocess(features, settings).weigh(features).toarray()
    )


@pytest.mark.parametrize(
    "settings",
    [
        MLGPFSettings(inducing="free", **SMALL),
        MLGPFSettings(inducing="subspace", **SMALL),
        MLGPFSettings(inducing="subspace", basis_size=D_KNOWN, inducing_count=5),
        MLGPFSettings(inducing="features", **SMALL),
        BMLPLSettings(),
    ],
    ids=["free", "subspace", "whole space", "features", "bmlpl"],
)
def test_basis_and_inducing_inputs_stay_with_zeros_for_new_features(settings):
    features = together()
    known = preprocess(features[:N_KNOWN, :D_KNOWN], settings)
    found = grow(known, settings, N, counts_after(features, [N_KNOWN]))
    grown = {"basis"} if known.basis is not None else {"inducing"}
    for name in ("basis", "inducing"):
        array, old = getattr(found, name), getattr(known, name)
        assert (array is None) == (old is None)
        if old is None:
            continue
        assert array.dtype == old.dtype
        if name in grown:
            assert array.shape == (len(old), D)
            np.testing.assert_array_equal(array[:, :D_KNOWN], old)
            assert not array[:, D_KNOWN:].any()
        else:
            np.testing.assert_array_equal(array, old)
    # As a model folder has them.
    stored = Preprocessed.from_arrays(found.to_arrays(), settings, D)
    np.testing.assert_array_equal(stored.weigh(features).toarray(), found.weigh(features).toarray())
    assert found.inputs(features, np.float32).rows(slice(None))[0].shape[0] == N


def test_without_new_features_nothing_is_copied():
    features = together()
    for inducing in ("free", "subspace"):
        settings = MLGPFSettings(inducing=inducing, **SMALL)
        known = preprocess(features, settings)
        found = grow(known, settings, N, counts_after(features, [N_KNOWN]))
        assert found.inducing is known.inducing
        assert found.basis is None or np.shares_memory(found.basis, known.basis)


def test_standardised_features_are_refused():
    features, settings = together(), GPCSettings(inducing_count=5)
    known = preprocess(features, settings)
    with pytest.raises(SettingsError, match="^a model of standardised features cannot learn on$"):
        grow(known, settings, N, counts_after(features, [N_KNOWN]))


def test_counts_are_those_of_points_with_a_feature_or_label():
    features, labels = together(), sp.csr_array(small_features(N, 4).toarray() > 0)
    found = statistics_of(features, labels)
    assert tuple(found) == STATISTICS
    np.testing.assert_array_equal(found["statistics.features"], (features.toarray() != 0).sum(axis=0))
    np.testing.assert_array_equal(found["statistics.labels"], labels.toarray().sum(axis=0))
    assert {count.dtype for count in found.values()} == {np.dtype(np.int64)}
    assert statistics_are_valid(found, D, 4)
    before = {name: count[:3].copy() for name, count in found.items()}
    total = add_statistics(before, found)
    for name, count in found.items():
        np.testing.assert_array_equal(total[name], count + [*count[:3], *[0] * (len(count) - 3)])
        np.testing.assert_array_equal(before[name], count[:3])


@pytest.mark.parametrize("name", STATISTICS)
def test_untrusted_counts_are_checked(name):
    good = {"statistics.labels": np.arange(4), "statistics.features": np.arange(D)}
    assert statistics_are_valid(good, D, 4)
    assert statistics_are_valid({}, D, 4)
    assert not statistics_are_valid({other: value for other, value in good.items() if other != name}, D, 4)
    for bad in (
        good[name][:-1],
        good[name] - 1,
        good[name].astype(np.int32),
        good[name].astype(float),
        good[name][None],
    ):
        assert not statistics_are_valid(good | {name: bad}, D, 4)
