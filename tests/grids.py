"""Grids of cases: the few in which every two values meet for `make test`, all of them for `make test-all`."""

import itertools

import pytest

__all__ = ["every_pair_of_values", "grid"]


def every_pair_of_values(choices):
    """Return cases in which every two values of different names meet, found greedily; always the same.

    Parameters
    ----------
    choices : dict of str to list
        The values of each name.

    Returns
    -------
    list of dict
        A value for each name.
    """
    # Places in the lists, for values need not be hashable.
    places = {name: range(len(values)) for name, values in choices.items()}
    missing = set()
    for (left, here), (right, there) in itertools.combinations(places.items(), 2):
        missing.update(itertools.product([(left, place) for place in here], [(right, place) for place in there]))
    cases = []
    while missing:
        chosen = dict(min(missing))
        for name in [name for name in places if name not in chosen]:
            used = [case[name] for case in cases]
            merits = [(_new_pairs(chosen, name, place, missing), -used.count(place)) for place in places[name]]
            chosen[name] = merits.index(max(merits))
        cases.append({name: chosen[name] for name in places})
        missing -= set(itertools.combinations(cases[-1].items(), 2))
    return [{name: choices[name][place] for name, place in case.items()} for case in cases]


def _new_pairs(chosen, name, place, missing):
    """Return how many missing pairs a value makes with those chosen before."""
    return sum(((name, place), other) in missing or (other, (name, place)) in missing for other in chosen.items())


def grid(**choices):
    """Return a mark that parametrizes a test by all combinations; only every pair of values meets in `make test`.

    Parameters
    ----------
    choices : list
        The values of each parameter.
    """
    usual = [list(case.values()) for case in every_pair_of_values(choices)]
    return pytest.mark.parametrize(
        tuple(choices),
        [
            pytest.param(*values, marks=[] if list(values) in usual else pytest.mark.exhaustive)
            for values in itertools.product(*choices.values())
        ],
    )
