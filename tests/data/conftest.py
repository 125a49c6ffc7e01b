import pytest

from tests.data.loopback import LoopbackServer


@pytest.fixture
def server(monkeypatch):
    # A proxy of the machine cannot reach the loopback interface.
    monkeypatch.setenv("no_proxy", "*")
    with LoopbackServer() as server:
        yield server
