"""Grids of test cases: combinations of settings in which every pair of values occurs."""

import itertools

import pytest

__all__ = ["each_value", "grid", "pairwise_cases"]


def pairwise_cases(choices):
    """Return cases, a value for each name, in which every pair of values of two names occurs; greedy, deterministic."""
    # Positions in the lists, because values need not be hashable.
    places = {name: range(len(values)) for name, values in choices.items()}
    missing = set()
    for (left, here), (right, there) in itertools.combinations(places.items(), 2):
        missing.update(itertools.product([(left, place) for place in here], [(right, place) for place in there]))
    cases = []
    while missing:
        chosen = dict(min(missing))
        for name in [name for name in places if name not in chosen]:
            used = [case[name] for case in cases]
            scores = [(_new_pairs(chosen, name, place, missing), -used.count(place)) for place in places[name]]
            chosen[name] = scores.index(max(scores))
        cases.append({name: chosen[name] for name in places})
        missing -= set(itertools.combinations(cases[-1].items(), 2))
    return [{name: choices[name][place] for name, place in case.items()} for case in cases]


def _new_pairs(chosen, name, place, missing):
    """Return the number of missing pairs of a value with the values chosen so far."""
    return sum(((name, place), other) in missing or (other, (name, place)) in missing for other in chosen.items())


def grid(**choices):
    """Return a mark that parametrizes a test by pairwise combinations of the values of each parameter."""
    return pytest.mark.parametrize(tuple(choices), [tuple(case.values()) for case in pairwise_cases(choices)])


def each_value(**choices):
    """Return a mark that parametrizes a test by few combinations: every value of each parameter occurs in one of them.

    Shorter lists of values repeat, by another shift in each repetition.
    """
    count = max(map(len, choices.values()))
    cases = [
        tuple(values[(i + i // len(values) * shift) % len(values)] for shift, values in enumerate(choices.values()))
        for i in range(count)
    ]
    return pytest.mark.parametrize(tuple(choices), cases)
