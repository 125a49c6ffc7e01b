"""The decorators of compiled functions."""

import numpy as np

from xmlgp.linear_algebra.compiled import compiled, compiled_part


@compiled_part
def doubled(value):
    return 2 * value


@compiled
def doubled_sum(values):
    total = 0.0
    for value in values:
        total += doubled(value)
    return total


def test_a_compiled_function_calls_a_part_which_has_no_machine_code_on_disk():
    assert doubled_sum(np.arange(4.0)) == 12
    assert [type(function._cache).__name__ for function in (doubled_sum, doubled)] == ["_Cache", "NullCache"]
