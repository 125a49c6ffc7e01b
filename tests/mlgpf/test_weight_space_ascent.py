"""Training in weight space: the cost of its steps, by which progress is shown."""

import pytest

from tests.problems import small_dataset
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.weight_space import make_model
from xmlgp.mlgpf.weight_space_ascent import SWEEPS, WeightSpaceAscent
from xmlgp.preprocess.pipeline import find_inducing_inputs

EPOCHS = 3


def ascent(N=40, K=7, **options):
    dataset = small_dataset(N=N, K=K)
    settings = MLGPFSettings(**{"inducing": "features", "factors": 3, "epochs": EPOCHS, "batch_size": 10} | options)
    coordinates = find_inducing_inputs(dataset.features, settings).coordinates(dataset.features, settings.dtype)
    return WeightSpaceAscent(make_model(settings), coordinates, dataset.labels, None)


def costs(inference, epoch):
    return [inference.cost(epoch, done) for done in range(inference.steps_in(epoch))]


@pytest.mark.parametrize("options", [{}, {"label_sample": 3}, {"negatives": 2}], ids=str)
def test_every_step_has_a_cost(options):
    inference = ascent(label_weights=True, **options)
    assert inference.epochs == EPOCHS + SWEEPS
    assert not inference.equal_steps
    assert all(cost > 0 for epoch in range(inference.epochs) for cost in costs(inference, epoch))


def test_without_sweeps_all_steps_take_the_same_time():
    inference = ascent(label_weights=False)
    assert (inference.epochs, inference.equal_steps) == (EPOCHS, True)


def test_the_cost_of_shortlists_grows_with_the_labels():
    few, many = (ascent(K=K, label_weights=True) for K in (7, 70))
    assert costs(many, EPOCHS)[0] == pytest.approx(10 * costs(few, EPOCHS)[0])
