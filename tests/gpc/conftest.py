"""One thread of linear algebra: matrices here are small, and idle threads of two BLAS libraries spin at each other."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="module", autouse=True)
def _single_threaded():
    with threadpool_limits(1, user_api="blas"):
        yield
