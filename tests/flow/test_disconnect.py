"""A client that leaves, in the queue, before the first token or mid-stream, ends the work upstream at once."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from tests.flow.client import Client, once
from tests.flow.kinds import both
from tests.flow.process import Gateway, running
from tests.flow.upstream import Call, Upstream, begins_and_waits, waits
from tests.patience import PATIENCE_S

PATHS = ["/v1/chat/completions", "/v1/embeddings", "/v1/responses"]


def body(stream: bool, user: str = "a") -> bytes:
    return json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": stream, "user": user}
    ).encode()


def leave(client: Client, how: str) -> None:
    if how == "reset":
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("how", ["close", "reset"])
@both()
def test_before_the_head(gateway: Gateway, upstream: Upstream, path: str, stream: bool, how: str) -> None:
    upstream.plays(waits)
    client = Client(gateway.port)
    client.ask("POST", path, body(stream))
    call = upstream.call()
    leave(client, how)
    assert call.was_left()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("how", ["close", "reset"])
@both()
def test_before_the_first_token(gateway: Gateway, upstream: Upstream, path: str, how: str) -> None:
    def script(call: Call) -> None:
        call.begin()
        assert call.hung_up()

    upstream.plays(script)
    client = Client(gateway.port)
    client.ask("POST", path, body(True))
    client.read_head()
    leave(client, how)
    assert upstream.call().was_left()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("how", ["close", "reset"])
@both()
def test_mid_stream(gateway: Gateway, upstream: Upstream, path: str, how: str) -> None:
    upstream.plays(begins_and_waits)
    client = Client(gateway.port)
    client.ask("POST", path, body(True))
    client.read_until(b"data: 1\n\n")
    leave(client, how)
    assert upstream.call().was_left()


@both()
def test_in_the_middle_of_a_whole_answer(gateway: Gateway, upstream: Upstream) -> None:
    def script(call: Call) -> None:
        call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        assert call.hung_up()

    upstream.plays(script)
    client = Client(gateway.port)
    client.ask("POST", "/v1/chat/completions", body(False))
    call = upstream.call()
    time.sleep(0.1)
    client.socket.close()
    assert call.was_left()


@both()
def test_while_the_upstream_writes_without_a_pause(gateway: Gateway, upstream: Upstream) -> None:
    def script(call: Call) -> None:
        call.begin()
        while True:
            call.chunk(b"data: " + b"x" * 1000 + b"\n\n")

    def until_it_fails(call: Call) -> None:
        try:
            script(call)
        except OSError:
            call._left.set()

    upstream.plays(until_it_fails)
    client = Client(gateway.port)
    client.ask("POST", "/v1/chat/completions", body(True))
    client.read_until(b"data: ")
    client.socket.close()
    assert upstream.call().was_left()


@pytest.fixture(scope="module")
def narrow(_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One request at a time, two more may wait."""
    path: Path = tmp_path_factory.mktemp("narrow") / "config.yaml"
    path.write_text(
        f"engines:\n  only:\n    base_url: {_upstream.url}\n    max_in_flight: 1\n"
        "    advanced: {attempts: 1, max_queued: 2}\nmodels:\n  m: {engines: [only]}\nlisten: {grace_s: 1}\n"
    )
    with running("--config", str(path)) as process:
        yield process


def under_way(gateway: Gateway) -> int:
    """Requests that have come in and are not answered yet, without the one that asks this."""
    return int(gateway.figure("understudy_in_flight")) - 1


@pytest.mark.slow
def test_in_the_queue(narrow: Gateway, upstream: Upstream) -> None:
    """Who leaves while waiting is never asked about; who stays gets the place."""
    release = Event()

    def script(call: Call) -> None:
        assert release.wait(PATIENCE_S)
        call.answer(json.dumps({"choices": [], "user": call.json()["user"]}).encode())

    upstream.plays(script)
    with Client(narrow.port) as first, Client(narrow.port) as third:
        first.ask("POST", "/v1/chat/completions", body(False, "first"))
        upstream.call()
        second = Client(narrow.port)
        second.ask("POST", "/v1/chat/completions", body(False, "second"))
        narrow.wait_for(lambda: under_way(narrow) == 2, "the second one in the queue")
        second.socket.close()
        narrow.wait_for_log('"outcome":"aborted"')
        third.ask("POST", "/v1/chat/completions", body(False, "third"))
        narrow.wait_for(lambda: under_way(narrow) == 2, "the third one in its place")
        time.sleep(0.1)
        assert len(upstream.calls) == 1
        release.set()
        assert first.read().json()["user"] == "first"
        assert third.read().json()["user"] == "third"
    assert [call.json()["user"] for call in upstream.calls] == ["first", "third"]


def test_a_full_queue_is_503_at_once_and_says_when_to_come_back(narrow: Gateway, upstream: Upstream) -> None:
    release = Event()

    def script(call: Call) -> None:
        assert release.wait(PATIENCE_S)
        call.answer(b'{"choices":[]}')

    upstream.plays(script)
    clients = [Client(narrow.port) for _ in range(3)]
    try:
        for number, client in enumerate(clients, 1):
            client.ask("POST", "/v1/chat/completions", body(False))
            narrow.wait_for(lambda: under_way(narrow) == number, "the place taken")  # noqa: B023 - called at once
        answer = once(narrow.port, "POST", "/v1/chat/completions", body(False))
        assert answer.status == 503
        assert int(answer.header("Retry-After") or 0) >= 1
        assert answer.error()["code"] == "engine_unavailable"
        release.set()
        assert [client.read().status for client in clients] == [200, 200, 200]
    finally:
        for client in clients:
            client.socket.close()


def test_a_place_is_free_again_after_every_way_of_leaving(narrow: Gateway, upstream: Upstream) -> None:
    for n in range(6):
        upstream.plays(waits if n % 2 else begins_and_waits)
        client = Client(narrow.port)
        client.ask("POST", "/v1/chat/completions", body(True))
        call = upstream.call(n)
        if n % 2 == 0:
            client.read_until(b"data: 1\n\n")
        leave(client, "reset" if n % 3 else "close")
        assert call.was_left()
    upstream.plays(lambda call: call.answer(b'{"choices":[]}'))
    assert once(narrow.port, "POST", "/v1/chat/completions", body(False)).status == 200


@pytest.mark.slow
def test_leaving_is_logged_as_such(narrow: Gateway, upstream: Upstream) -> None:
    upstream.plays(waits)
    client = Client(narrow.port)
    client.ask("POST", "/v1/chat/completions", body(True))
    upstream.call()
    client.socket.close()
    narrow.wait_for_log('"outcome":"aborted"')
    assert not [line for line in narrow.log_lines() if line["level"] == "error"]
