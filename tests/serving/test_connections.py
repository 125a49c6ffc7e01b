"""What connections rely on in Uvicorn, beside its public interface: a new version that changes it fails here."""

import asyncio
from contextvars import ContextVar

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="Uvicorn is not installed: pip install '.[serve]'")

REQUEST = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


class Transport(asyncio.Transport):
    """Collects what is written."""

    def __init__(self):
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data):
        self.written += data

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


def test_uvicorn_is_as_connections_take_it():
    import h11
    from uvicorn.config import STARTUP_FAILURE
    from uvicorn.protocols.http.h11_impl import H11Protocol

    context, made, contexts = ContextVar("context", default=None), [], []

    def protocol(**options):
        made.append(options)
        return H11Protocol(**options)

    async def app(scope, receive, send):
        contexts.append(context.get())
        await send({"type": "http.response.start", "status": 204, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body"})

    async def main():
        # `http` is called in place of a class, and its options are those of H11Protocol.
        config = uvicorn.Config(app, http=protocol, lifespan="off")
        config.load()
        assert config.http_protocol_class is protocol
        state = uvicorn.Server(config).server_state
        transports = []
        for begin in REQUEST, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n":
            connection = protocol(config=config, server_state=state, app_state={}, _loop=asyncio.get_running_loop())
            assert isinstance(connection, asyncio.Protocol)
            transports.append(Transport())
            connection.connection_made(transports[-1])
            # The application is called in the context in which the request arrives.
            token = context.set(begin)
            connection.data_received(begin)
            context.reset(token)
            await asyncio.sleep(0.01)
            if begin is REQUEST:
                # A malformed rest of an answered request is an error.
                with pytest.raises(h11.LocalProtocolError):
                    connection.data_received(b"no size\r\n")
        # A header of the answer ends the connection.
        assert [transport.closed for transport in transports] == [True, True]
        assert all(transport.written.startswith(b"HTTP/1.1 204") for transport in transports)
        assert contexts == [REQUEST, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"]

    asyncio.run(main())
    assert STARTUP_FAILURE == 3
