"""What a client or an upstream can make the gateway hold has an end: pauses, connections, events, what is packed in gzip."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.flow.client import Client, once, request
from tests.flow.kinds import both, listen
from tests.flow.line import completion, events
from tests.flow.process import Gateway, running
from tests.flow.upstream import Call, Upstream
from tests.patience import PATIENCE_S

MIB = 2**20
GAP_S = 1.0
CONNECTIONS = 8
CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
DONE = b"data: [DONE]\n\n"


@pytest.fixture(scope="module")
def tight(
    request: pytest.FixtureRequest, _upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A second for each pause in a body, eight connections, and a memory."""
    folder: Path = tmp_path_factory.mktemp("tight")
    limits = {"body_gap_s": GAP_S, "max_connections": CONNECTIONS}
    (folder / "config.yaml").write_text(
        listen(request, advanced=limits) + f"upstream: {{base_url: {_upstream.url}}}\n"
        f"engines: {{one: {{base_url: {_upstream.url}}}, two: {{base_url: {_upstream.url}}}}}\n"
        "models: {m: {engines: [two, one]}}\n"
        f"memory: {{data_dir: {folder / 'data'}, examples: {{enabled: false}}}}\n"
    )
    with running("--config", str(folder / "config.yaml")) as process:
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings", "/v1/files"])
@pytest.mark.parametrize("sent", [b"", CHAT[:10]], ids=["nothing", "a part"])
@both("tight")
def test_a_body_that_does_not_go_on_is_408(
    tight: Gateway, upstream: Upstream, path: str, sent: bytes
) -> None:
    whole = request("POST", path, CHAT)
    with Client(tight.port) as client:
        client.send(whole[: len(whole) - len(CHAT)] + sent)
        answer = client.read()
        assert (answer.status, answer.error()["code"]) == (408, "request_timeout")
        assert answer.header("Connection") == "close" and client.hung_up()


@both("tight")
def test_an_upload_that_stops_while_it_is_passed_on_is_408(tight: Gateway, upstream: Upstream) -> None:
    head = b"POST /v1/files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Client(tight.port) as client:
        client.send(head + b"5\r\nhello\r\n")
        answer = client.read()
        assert (answer.status, answer.error()["code"]) == (408, "request_timeout")
    assert not upstream.call().received().whole


@pytest.mark.slow
def test_an_upstream_that_takes_an_upload_slowly_is_not_the_clients_pause(
    tight: Gateway, upstream: Upstream
) -> None:
    size = 32 * MIB

    def slow(call: Call) -> None:
        time.sleep(3 * GAP_S)
        left = size - len(call.unread)
        while left > 0:
            left -= len(call.connection.recv(min(left, MIB)))
        call.answer(b"{}")

    upstream.plays(slow, reads_body=False)
    with Client(tight.port) as client:
        client.send(request("POST", "/v1/files", bytes(size)))
        assert client.read().status == 200


@both("tight")
def test_one_connection_too_many_is_refused_at_once(tight: Gateway, upstream: Upstream) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(tight.port)) for _ in range(CONNECTIONS)]
        for client in clients:
            client.ask("POST", "/v1/chat/completions", CHAT)
            assert client.read().status == 200
        with Client(tight.port) as late:
            answer = late.read()
            assert (answer.status, answer.error()["code"]) == (503, "too_many_connections")
            assert answer.header("Retry-After") == "1" and late.hung_up()
        clients[0].ask("GET", "/healthz")
        assert clients[0].read().status == 200
    tight.wait_for(lambda: once(tight.port, "GET", "/healthz").status == 200, "room again")
    assert tight.wait_for_event("too_many_connections")[0]["limit"] == CONNECTIONS


def streaming(**fields: object) -> bytes:
    return json.dumps(json.loads(CHAT) | {"stream": True, **fields}).encode()


@pytest.mark.parametrize("newlines", [b"\n\r\n", b"\r\n\n", b"\r\r", b"\r\n\r\n"])
def test_each_event_leaves_when_it_is_whole_however_its_lines_end(
    tight: Gateway, upstream: Upstream, newlines: bytes
) -> None:
    role, word, *rest = (event[:-2] + newlines for event in [*events("Forty two", usage=False), DONE])
    seen = threading.Event()

    def script(call: Call) -> None:
        call.begin()
        call.chunk(role)
        call.chunk(word)
        assert seen.wait(PATIENCE_S)
        for event in rest:
            call.chunk(event)
        call.end()

    upstream.plays(script)
    with Client(tight.port) as client:
        client.ask("POST", "/v1/chat/completions", streaming(seed=len(newlines), stop=newlines.hex()))
        client.read_until(word)
        seen.set()
        assert b"[DONE]" in client.read_until(b"0\r\n\r\n")


@pytest.mark.slow
def test_an_event_without_end_is_neither_held_nor_slow(tight: Gateway, upstream: Upstream) -> None:
    piece, pieces = b"x" * MIB, 64
    seen = threading.Event()

    def script(call: Call) -> None:
        call.begin()
        call.chunk(b"data: ")
        for number in range(pieces):
            call.chunk(piece)
            if number == 1:
                assert seen.wait(PATIENCE_S), "nothing was sent on before the event was whole"
        call.chunk(b"\n\n" + DONE)
        call.end()

    upstream.plays(script)
    tight.forget_peak()
    before = tight.memory_bytes()
    with Client(tight.port) as client:
        client.ask("POST", "/v1/chat/completions", streaming(seed=1))
        client.read_head()
        client.read_until(b"data: ")
        client.read_until(b"x" * 1000)
        seen.set()
        body = client.read_until(b"[DONE]")
    assert body.count(b"x") >= pieces * MIB - 1000
    assert tight.peak_bytes() - before < 40 * MIB


def packed(size_mib: int, begin: bytes, end: bytes) -> bytes:
    """gzip of something that large."""
    compressor = zlib.compressobj(9, wbits=31)
    blanks = b" " * MIB
    pieces = [compressor.compress(begin), *(compressor.compress(blanks) for _ in range(size_mib))]
    return b"".join((*pieces, compressor.compress(end), compressor.flush()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "asked", "said"),
    [
        (
            "/v1/embeddings",
            {"model": "e", "input": "text"},
            {"object": "list", "data": [{"embedding": [0.5]}]},
        ),
        ("/v1/chat/completions", json.loads(CHAT), completion("Yes.")),
        ("/v1/chat/completions", json.loads(CHAT) | {"model": "not-listed"}, completion("Yes.")),
    ],
)
def test_a_small_answer_that_would_fill_the_memory_is_passed_on_and_not_unpacked(
    tight: Gateway, upstream: Upstream, path: str, asked: dict[str, object], said: object
) -> None:
    whole = json.dumps(said).encode()
    body = packed(200, whole[:-1], whole[-1:])
    upstream.plays(
        lambda call: call.answer(
            body, headers=[("Content-Type", "application/json"), ("Content-Encoding", "gzip")]
        )
    )
    tight.forget_peak()
    before = tight.memory_bytes()
    for _ in range(2):
        answer = once(tight.port, "POST", path, json.dumps(asked).encode(), [("Accept-Encoding", "gzip")])
        assert answer.body == body and "hit" not in (answer.header("Cache-Status") or "")
    tight.wait_for(lambda: once(tight.port, "GET", "/readyz?settled=1").status == 200, "all of it recorded")
    assert tight.peak_bytes() - before < 100 * MIB
