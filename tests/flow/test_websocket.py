"""WebSocket upgrades: after the handshake raw bytes both ways, until either side closes."""

from __future__ import annotations

import base64
import hashlib
import signal
import time
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from tests.flow.client import Client, request
from tests.flow.process import Gateway, running
from tests.flow.upstream import Call, Upstream, waits
from tests.patience import PATIENCE_S

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = base64.b64encode(
    hashlib.sha1(f"{KEY}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
).decode()
TARGET = "/v1/realtime?model=gpt-realtime&x=%20"
HANDSHAKE = [
    ("Connection", "keep-alive, Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", KEY),
    ("Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key.sk-x"),
    ("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits"),
    ("Authorization", "Bearer sk-x"),
    ("OpenAI-Beta", "realtime=v1"),
]


def accept(call: Call, first: bytes = b"") -> None:
    """Agree, as an upstream would, and send `first` in the same packet as the head."""
    call.send(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Accept: " + ACCEPT.encode() + b"\r\nSec-WebSocket-Protocol: realtime\r\n"
        b"Sec-WebSocket-Extensions: permessage-deflate\r\nX-Request-Id: req-1\r\n\r\n" + first
    )


def echo(call: Call) -> None:
    """Agree and send every byte back until the gateway closes."""
    accept(call)
    while data := call.connection.recv(65536):
        call.send(data)
    call._left.set()


def opened(port: int) -> Client:
    """A client whose handshake went through."""
    client = Client(port)
    client.ask("GET", TARGET, headers=HANDSHAKE)
    head = client.read_head()
    assert head.status == 101, head
    return client


def test_the_handshake_travels_both_ways_as_it_came(gateway: Gateway, upstream: Upstream) -> None:
    upstream.plays(echo)
    with Client(gateway.port) as client:
        client.ask("GET", TARGET, headers=HANDSHAKE)
        head = client.read_head()
    call = upstream.call()
    assert call.line == f"GET {TARGET} HTTP/1.1".encode()
    for name, value in HANDSHAKE[1:]:
        assert call.header(name) == value
    assert call.header("Connection") == "Upgrade"
    assert head.status == 101
    assert head.header("Sec-WebSocket-Accept") == ACCEPT
    assert head.header("Sec-WebSocket-Extensions") == "permessage-deflate"
    assert head.header("Sec-WebSocket-Protocol") == "realtime"
    assert head.header("X-Request-Id") == "req-1"
    assert (head.header("Upgrade") or "").lower() == "websocket"
    assert head.header("Content-Length") is None and head.header("Transfer-Encoding") is None


FRAMES = {
    "a text": b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
    "fragments": b"\x01\x81\x00\x00\x00\x00a\x00\x81\x00\x00\x00\x00b\x80\x81\x00\x00\x00\x00c",
    "a ping between fragments": b"\x01\x81\x00\x00\x00\x00a\x89\x80\x00\x00\x00\x00\x80\x81\x00\x00\x00\x00c",
    "a compressed frame": b"\xc1\x87\x01\x02\x03\x04" + bytes(range(7)),
    "a close with its code": b"\x88\x86\x00\x00\x00\x00\x0f\xa1done",
    "what is no frame at all": bytes(range(256)) * 3,
    "three megabytes": b"\x82\xff" + (3_000_000).to_bytes(8, "big") + b"mask" + b"\x5a" * 3_000_000,
}


@pytest.mark.parametrize("frames", FRAMES.values(), ids=FRAMES)
def test_bytes_pass_both_ways_untouched(gateway: Gateway, upstream: Upstream, frames: bytes) -> None:
    upstream.plays(echo)
    with opened(gateway.port) as client:
        sender = Thread(target=client.send, args=(frames,))
        sender.start()
        got, whole = client._exactly(len(frames))
        sender.join()
    assert whole and got == frames


def test_bytes_that_come_with_the_handshake_are_not_lost(gateway: Gateway, upstream: Upstream) -> None:
    """The upstream greets in the packet of its 101; the client does not wait for the 101 at all."""

    def script(call: Call) -> None:
        accept(call, first=b"\x81\x05hello")
        assert call.connection.recv(7) == b"\x81\x81\0\0\0\0x"
        call.send(b"\x81\x02ok")

    upstream.plays(script)
    with Client(gateway.port) as client:
        client.send(request("GET", TARGET, headers=HANDSHAKE) + b"\x81\x81\0\0\0\0x")
        assert client.read_head().status == 101
        assert client.rest() == b"\x81\x05hello\x81\x02ok"


def test_a_refusal_is_relayed_and_the_connection_stays_http(gateway: Gateway, upstream: Upstream) -> None:
    body = b'{"error":{"message":"Incorrect API key","type":"invalid_request_error","param":null,"code":"bad_key"}}'
    upstream.plays(lambda call: call.answer(body, 401, reason="Unauthorized"))
    with Client(gateway.port) as client:
        client.ask("GET", TARGET, headers=HANDSHAKE)
        answer = client.read()
        assert answer.status == 401 and answer.body == body
        client.ask("GET", "/healthz")
        assert client.read().status == 200


def test_no_upstream_is_502_to_a_handshake_too(gateway: Gateway, upstream: Upstream) -> None:
    upstream.plays(lambda call: call.reset())
    with Client(gateway.port) as client:
        client.ask("GET", TARGET, headers=HANDSHAKE)
        assert client.read().error()["code"] == "upstream_connection_failed"


def test_a_slow_handshake_is_504(impatient: Gateway, upstream: Upstream) -> None:
    upstream.plays(waits)
    with Client(impatient.port) as client:
        client.ask("GET", TARGET, headers=HANDSHAKE)
        assert client.read().status == 504


def test_an_open_socket_may_be_silent_for_longer_than_any_timeout(
    impatient: Gateway, upstream: Upstream
) -> None:
    upstream.plays(echo)
    with opened(impatient.port) as client:
        time.sleep(1.8)
        client.send(b"\x81\x00")
        assert client._exactly(2) == (b"\x81\x00", True)


def test_the_client_leaving_closes_the_upstream(gateway: Gateway, upstream: Upstream) -> None:
    upstream.plays(echo)
    with opened(gateway.port):
        pass
    assert upstream.call().was_left()


def test_the_client_leaving_before_the_upstream_agrees_closes_it(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.plays(waits)
    with Client(gateway.port) as client:
        client.ask("GET", TARGET, headers=HANDSHAKE)
        call = upstream.call()
    assert call.was_left()


@pytest.mark.parametrize("ending", ["close", "reset"])
def test_the_upstream_leaving_closes_the_client(gateway: Gateway, upstream: Upstream, ending: str) -> None:
    def script(call: Call) -> None:
        accept(call, first=b"\x88\x02\x03\xe8")
        if ending == "reset":
            time.sleep(0.1)
            call.reset()

    upstream.plays(script)
    with opened(gateway.port) as client:
        assert client.rest() == b"\x88\x02\x03\xe8"


def test_a_reader_that_does_not_read_slows_the_upstream_down(gateway: Gateway, upstream: Upstream) -> None:
    sent = [0]

    def script(call: Call) -> None:
        accept(call)
        call.connection.settimeout(1)
        try:
            while sent[0] < 200_000_000:
                sent[0] += call.connection.send(b"z" * 65536)
        except TimeoutError:
            pass

    upstream.plays(script)
    client = Client(gateway.port, receive_buffer_bytes=65536)
    with client:
        before = gateway.memory_bytes()
        client.ask("GET", TARGET, headers=HANDSHAKE)
        assert upstream.call().played()
        assert sent[0] < 50_000_000
        assert gateway.memory_bytes() - before < 16 * 2**20


def test_a_client_that_floods_before_the_handshake_is_over_is_held_back(
    gateway: Gateway, upstream: Upstream
) -> None:
    flooded = Event()
    upstream.plays(lambda call: call.answer(b"no", 403) if flooded.wait(PATIENCE_S) else None)
    with Client(gateway.port) as client:
        before = gateway.memory_bytes()
        client.ask("GET", TARGET, headers=HANDSHAKE)
        client.socket.settimeout(1)
        sent = 0
        try:
            while sent < 200_000_000:
                sent += client.socket.send(b"z" * 65536)
        except TimeoutError:
            pass
        flooded.set()
        assert sent < 50_000_000
        assert gateway.memory_bytes() - before < 16 * 2**20


@pytest.fixture
def own_gateway(upstream: Upstream) -> Iterator[Gateway]:
    with running("--upstream", upstream.url, "--grace", "2.5") as process:
        yield process


@pytest.mark.slow
def test_sigterm_cuts_an_open_socket_after_the_grace_period(own_gateway: Gateway, upstream: Upstream) -> None:
    upstream.plays(echo)
    with opened(own_gateway.port) as client:
        own_gateway.process.send_signal(signal.SIGTERM)
        own_gateway.wait_for_log('"event":"stopping"')
        time.sleep(0.1)
        client.send(b"\x81\x00")
        assert client._exactly(2) == (b"\x81\x00", True), "it works on within the grace period"
        assert client.hung_up()
        assert own_gateway.ended() == 0
    assert upstream.call().was_left()


@pytest.mark.slow
def test_the_usual_library_talks_through_it() -> None:
    """Compression, fragments, pings and close codes between two ends of the `websockets` package."""
    sync_client = pytest.importorskip("websockets.sync.client")
    sync_server = pytest.importorskip("websockets.sync.server")
    exceptions = pytest.importorskip("websockets.exceptions")

    def serve(connection: object) -> None:
        for message in connection:  # type: ignore[attr-defined]
            if message == "bye":
                connection.close(4001, "as asked")  # type: ignore[attr-defined]
                return
            connection.send(message)  # type: ignore[attr-defined]

    with sync_server.serve(serve, "127.0.0.1", 0) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            with running("--upstream", f"http://127.0.0.1:{server.socket.getsockname()[1]}/v1") as gateway:
                url = f"ws://127.0.0.1:{gateway.port}/v1/realtime"
                with sync_client.connect(url, max_size=None) as connection:
                    assert "permessage-deflate" in connection.response.headers["Sec-WebSocket-Extensions"]
                    connection.send("é" * 100_000)
                    assert connection.recv() == "é" * 100_000
                    connection.send([b"one", b"two", b"three"])
                    assert connection.recv() == b"onetwothree"
                    assert connection.ping().wait(PATIENCE_S)
                    connection.send("bye")
                    with pytest.raises(exceptions.ConnectionClosed) as closed:
                        connection.recv()
                    assert closed.value.rcvd.code == 4001 and closed.value.rcvd.reason == "as asked"
        finally:
            server.shutdown()
            thread.join()
