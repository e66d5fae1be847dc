"""Connections that send no HTTP, too much of it, or never enough of it."""

from __future__ import annotations

import os
import random
import socket
import ssl
import struct
import threading

import pytest

from tests.flow.client import Client, once, raw, request
from tests.flow.kinds import both
from tests.flow.process import Gateway
from tests.flow.upstream import Upstream

HEAD = b"GET /v1/models HTTP/1.1\r\nHost: gateway.test\r\n"
MIB = 2**20


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (HEAD + b"X-Long: " + b"a" * 50_000 + b"\r\n\r\n", 431),
        (HEAD + b"X-" + b"a" * 50_000 + b": 1\r\n\r\n", 431),
        (HEAD + b"X-Long: " + b"a" * 2_000_000, 431),
        (b"GET /v1/" + b"a" * 50_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (HEAD + b"".join(b"X-%d: 1\r\n" % n for n in range(5_000)) + b"\r\n", 400),
    ],
    ids=["a long value", "a long name", "an endless value", "a long request line", "five thousand headers"],
)
@both()
def test_too_much_head_is_refused_in_openai_shape(
    gateway: Gateway, upstream: Upstream, data: bytes, status: int
) -> None:
    answer = raw(gateway.port, data)
    assert status_of(answer) == status
    assert b'{"error":{"message":"' in answer
    assert once(gateway.port, "GET", "/v1/models").status == 200


@both("small")
def test_a_header_line_may_have_32_kib(small: Gateway, upstream: Upstream) -> None:
    for length, status in ((6_000, 200), (33_000, 431)):
        headers = [("Authorization", "Bearer " + "t" * length)]
        assert once(small.port, "POST", "/v1/chat/completions", b"{}", headers).status == status


def test_a_tls_client_is_told_that_this_is_http(gateway: Gateway) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as plain:
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(plain, server_hostname="gateway.test")
    assert once(gateway.port, "GET", "/healthz").status == 200


@pytest.mark.parametrize("seed", range(8))
@both()
def test_garbage_is_refused_and_the_gateway_lives(gateway: Gateway, upstream: Upstream, seed: int) -> None:
    garbage = b"\x00" + random.Random(seed).randbytes(4096) + b"\r\n\r\n"
    assert status_of(raw(gateway.port, garbage)) == 400
    assert not upstream.calls
    assert once(gateway.port, "GET", "/healthz").status == 200


@pytest.mark.parametrize("seed", range(8))
@both()
def test_a_request_with_one_byte_turned_is_answered_or_refused_but_never_a_500(
    gateway: Gateway, upstream: Upstream, seed: int
) -> None:
    """A few hundred single-byte mutations of a good request, each on a connection of its own."""
    rng = random.Random(seed)
    good = request("POST", "/v1/chat/completions", b'{"model":"m","messages":[]}', [("Connection", "close")])
    for _ in range(40):
        data = bytearray(good)
        data[rng.randrange(len(data))] = rng.randrange(256)
        with Client(gateway.port) as client:
            client.socket.settimeout(0.5)
            client.send_what_is_taken(bytes(data))
            try:
                answer = client.rest()
            except TimeoutError:
                continue  # Its length grew: it waits for the rest.
        assert not answer or status_of(answer) < 500, bytes(data)
    assert once(gateway.port, "GET", "/healthz").status == 200


@pytest.mark.parametrize(
    "part",
    [
        b"",
        b"G",
        b"GET /v1/models HT",
        HEAD,
        HEAD + b"X-Half: ",
        request("POST", "/v1/chat/completions", b"x" * 99)[:-50],
    ],
)
@pytest.mark.parametrize("ending", ["close", "reset", "half close"])
@both()
def test_half_a_request_that_ends_leaves_nothing_behind(
    gateway: Gateway, upstream: Upstream, part: bytes, ending: str
) -> None:
    with Client(gateway.port) as client:
        client.send(part)
        if ending == "half close":
            client.socket.shutdown(socket.SHUT_WR)
            client.rest()
        elif ending == "reset":
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert once(gateway.port, "GET", "/healthz").status == 200
    assert not upstream.calls


@both()
def test_slow_connections_do_not_keep_others_waiting(gateway: Gateway, upstream: Upstream) -> None:
    slow = [Client(gateway.port) for _ in range(200)]
    try:
        for client in slow:
            client.send(HEAD)
        assert once(gateway.port, "GET", "/v1/models").status == 200
        slow[0].send(b"\r\n")
        assert slow[0].read().status == 200
    finally:
        for client in slow:
            client.socket.close()


@both()
def test_connections_that_come_and_go_leave_no_memory_and_no_files(
    gateway: Gateway, upstream: Upstream
) -> None:
    def storm() -> None:
        for _ in range(100):
            with Client(gateway.port) as client:
                client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")

    def many() -> None:
        threads = [threading.Thread(target=storm) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert once(gateway.port, "GET", "/healthz").status == 200

    many()
    memory, files = gateway.memory_bytes(), len(os.listdir(f"/proc/{gateway.worker}/fd"))
    many()
    assert gateway.memory_bytes() - memory < 8 * MIB
    assert len(os.listdir(f"/proc/{gateway.worker}/fd")) <= files + 8


@pytest.mark.slow
@both()
def test_an_endless_pipeline_is_held_back(gateway: Gateway, upstream: Upstream) -> None:
    """A client that sends requests and reads no answer is slowed down, not buffered."""
    with Client(gateway.port, receive_buffer_bytes=4096) as client:
        client.socket.settimeout(1)
        before = gateway.memory_bytes()
        sent = 0
        block = request("GET", "/healthz") * 1000
        try:
            for _ in range(400):
                sent += client.socket.send(block)
        except TimeoutError:
            pass
        assert sent < 16 * MIB, "it was never slowed down"
        assert gateway.memory_bytes() - before < 32 * MIB
    assert once(gateway.port, "GET", "/healthz").status == 200


@both()
def test_nothing_of_all_this_is_an_unexpected_error(gateway: Gateway) -> None:
    events = [line for line in gateway.log_lines() if line["level"] == "error"]
    assert not events
