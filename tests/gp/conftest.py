"""Limit BLAS to one thread: matrices are small, and idle threads of two BLAS libraries would compete for the cores."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="module", autouse=True)
def _single_threaded():
    with threadpool_limits(1, user_api="blas"):
        yield
