"""A model, and clients of the application that serves it in this process."""

import pytest

from tests.serving.toy import make_model

pytest.importorskip("starlette", reason="Starlette is not installed: pip install '.[serve]'")


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Return the folder of a model, which tests must not change."""
    path = tmp_path_factory.mktemp("serving") / "tickets"
    make_model(path)
    return path


@pytest.fixture(scope="session")
def other_model(tmp_path_factory):
    """Return the folder of another model."""
    path = tmp_path_factory.mktemp("serving") / "other"
    make_model(path, seed=8)
    return path


@pytest.fixture(scope="module")
def client_of():
    """Return a function that returns a client of the application for `Options`, which is closed at the end."""
    import contextlib

    from starlette.testclient import TestClient

    from xmlgp.serving.app import make_app
    from xmlgp.serving.options import Options

    with contextlib.ExitStack() as stack:

        def start(*models, **options):
            app = make_app(Options(tuple(map(str, models)), **options))
            return stack.enter_context(TestClient(app, "http://localhost", raise_server_exceptions=False))

        yield start


@pytest.fixture(scope="module")
def client(client_of, model):
    """Return a client of the application for the model."""
    return client_of(model)
