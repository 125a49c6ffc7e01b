"""The decorators of compiled functions."""

import importlib.util

import numba
import numpy as np
import pytest
from numba.core.caching import IndexDataCacheFile, _CacheLocator

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


@pytest.mark.parametrize("elsewhere", [True, False])
def test_machine_code_in_a_package_that_is_not_writable_is_found(elsewhere, tmp_path, monkeypatch):
    # Whoever runs the tests may have set it.
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    file = tmp_path / "loops.py"
    file.write_text(
        "from xmlgp.linear_algebra.compiled import compiled\n@compiled\ndef double(value):\n    return 2 * value\n"
    )

    def double():
        spec = importlib.util.spec_from_file_location("loops", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.double

    first = double()
    assert first(3) == 6
    assert first.stats.cache_hits == {}

    def refuse(locator):
        if not (elsewhere and str(tmp_path / "user") in locator.get_cache_path()):
            raise PermissionError

    monkeypatch.setattr(_CacheLocator, "ensure_cache_path", refuse)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "user"))
    second = double()
    assert second(3) == 6
    assert sum(second.stats.cache_hits.values()) == 1


def test_machine_code_that_may_not_be_read_is_compiled_again(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(IndexDataCacheFile, "load", refuse)

    @compiled
    def triple(value):
        return 3 * value

    assert triple(3) == 9
