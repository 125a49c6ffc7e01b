import pytest

from tests.data.loopback import Loopback


@pytest.fixture
def server(monkeypatch):
    # A proxy of the machine must not come between the tests and the loopback interface.
    monkeypatch.setenv("no_proxy", "*")
    with Loopback() as server:
        yield server
