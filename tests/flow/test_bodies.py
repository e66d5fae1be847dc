"""Bodies pass untouched, compressed or not, in flat memory, and no faster than the slower side takes them."""

from __future__ import annotations

import gzip
import hashlib
import time
import zlib
from threading import Event, Thread

import pytest

from tests.flow.client import Client, once
from tests.flow.kinds import both
from tests.flow.process import Gateway
from tests.flow.upstream import Call, Upstream
from tests.patience import PATIENCE_S

MIB = 2**20
CHAT = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
# `brotli -c` of the twenty bytes "hello hello hello hi".
BROTLI = bytes.fromhex("8b098068656c6c6f2068656c6c6f2068656c6c6f20686903")
CODINGS = {
    "gzip": gzip.compress(CHAT * 50),
    "deflate": zlib.compress(CHAT * 50),
    "br": BROTLI,
    "zstd": b"\x28\xb5\x2f\xfd\x04\x58\x41\x00\x00hi hi hi",
    "gzip, br": b"twice",
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("path", ["/v1/files", "/v1/embeddings"])
def test_compressed_bodies_pass_both_ways(
    gateway: Gateway, upstream: Upstream, coding: str, path: str
) -> None:
    body = CODINGS[coding]
    upstream.plays(
        lambda call: call.answer(
            call.body, headers=[("Content-Encoding", coding), ("Vary", "Accept-Encoding")]
        )
    )
    headers = [
        ("Content-Encoding", coding),
        ("Accept-Encoding", "br, gzip"),
        ("Content-Type", "application/json"),
    ]
    answer = once(gateway.port, "POST", path, body, headers)
    call = upstream.call()
    assert call.body == body and call.header("content-encoding") == coding
    assert call.header("accept-encoding") == "br, gzip"
    assert answer.body == body and answer.header("Content-Encoding") == coding


@pytest.mark.parametrize("coding", ["compress", "gzip, br"])
def test_a_chat_body_in_a_coding_not_known_here_passes_unread(
    gateway: Gateway, upstream: Upstream, coding: str
) -> None:
    answer = once(gateway.port, "POST", "/v1/chat/completions", b"packed", [("Content-Encoding", coding)])
    assert answer.body == b"packed"


def test_a_compressed_stream_passes_as_it_comes(gateway: Gateway, upstream: Upstream) -> None:
    packer = zlib.compressobj(wbits=31)
    parts = [packer.compress(b"data: %d\n\n" % n) + packer.flush(zlib.Z_SYNC_FLUSH) for n in range(5)]
    parts.append(packer.compress(b"data: [DONE]\n\n") + packer.flush())

    def script(call: Call) -> None:
        call.begin(headers=[("Content-Encoding", "gzip")])
        for part in parts:
            call.chunk(part)
            time.sleep(0.02)
        call.end()

    upstream.plays(script)
    answer = once(gateway.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.whole and answer.body == b"".join(parts)


def test_small_chunks_of_an_upload_arrive_whole(gateway: Gateway, upstream: Upstream) -> None:
    with Client(gateway.port) as client:
        client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for n in range(len(CHAT)):
            client.send(b"1\r\n" + CHAT[n : n + 1] + b"\r\n")
        client.send(b"0\r\n\r\n")
        assert client.read().body == CHAT


@pytest.mark.parametrize("path", ["/v1/audio/transcriptions", "/v1/files"])
def test_a_multipart_upload_of_20_mb_is_streamed(gateway: Gateway, upstream: Upstream, path: str) -> None:
    """The first bytes are upstream before the last ones have left the client, and memory stays flat."""
    boundary = b"----boundary"
    head = (
        b"--" + boundary + b'\r\nContent-Disposition: form-data; name="file"; filename="\xc3\xa9.bin"\r\n\r\n'
    )
    tail = b"\r\n--" + boundary + b"--\r\n"
    block = bytes(range(256)) * 256
    blocks = 20 * MIB // len(block)
    expected = hashlib.sha256(head + block * blocks + tail).hexdigest()
    once(gateway.port, "GET", "/healthz")
    gateway.forget_peak()
    before = gateway.memory_bytes()
    with Client(gateway.port) as client:
        size = len(head) + len(block) * blocks + len(tail)
        client.send(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n"
            f"Content-Type: multipart/form-data; boundary={boundary.decode()}\r\n\r\n".encode()
        )
        client.send(head)
        call = upstream.call()
        for _ in range(blocks):
            client.send(block)
        client.send(tail)
        assert client.read().whole
    assert hashlib.sha256(call.body).hexdigest() == expected
    assert call.header("content-length") == str(size)
    assert call.header("content-type") == f"multipart/form-data; boundary={boundary.decode()}"
    assert gateway.peak_bytes() - before < 12 * MIB


def test_a_chunked_upload_of_20_mb_is_streamed(gateway: Gateway, upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(hashlib.sha256(call.body).hexdigest().encode()))
    block = bytes(range(256)) * 256
    once(gateway.port, "GET", "/healthz")
    gateway.forget_peak()
    before = gateway.memory_bytes()
    with Client(gateway.port) as client:
        client.send(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(320):
            client.send(b"%x\r\n%s\r\n" % (len(block), block))
        client.send(b"0\r\n\r\n")
        assert client.read().body == hashlib.sha256(block * 320).hexdigest().encode()
    assert gateway.peak_bytes() - before < 12 * MIB


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_download_of_50_mb_is_streamed(gateway: Gateway, upstream: Upstream, framing: str) -> None:
    block = bytes(range(256)) * 256
    blocks = 50 * MIB // len(block)

    def script(call: Call) -> None:
        if framing == "length":
            call.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (blocks * len(block)))
        else:
            call.begin("application/octet-stream")
        for _ in range(blocks):
            if framing == "length":
                call.send(block)
            else:
                call.chunk(block)
        if framing == "chunked":
            call.end()

    upstream.plays(script)
    once(gateway.port, "GET", "/healthz")
    gateway.forget_peak()
    before = gateway.memory_bytes()
    answer = once(gateway.port, "GET", "/v1/files/f/content")
    assert answer.whole
    assert hashlib.sha256(answer.body).hexdigest() == hashlib.sha256(block * blocks).hexdigest()
    assert gateway.peak_bytes() - before < 12 * MIB


@both()
def test_a_slow_reader_slows_the_upstream(gateway: Gateway, upstream: Upstream) -> None:
    sent = [0]

    def script(call: Call) -> None:
        call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 500000000\r\n\r\n")
        call.connection.settimeout(1)
        try:
            while sent[0] < 500_000_000:
                sent[0] += call.connection.send(b"z" * 65536)
        except TimeoutError:
            pass

    upstream.plays(script)
    once(gateway.port, "GET", "/healthz")
    before = gateway.memory_bytes()
    with Client(gateway.port, receive_buffer_bytes=65536) as client:
        client.ask("GET", "/v1/files/f/content")
        assert upstream.call().played()
        assert sent[0] < 50_000_000, "what the client has not read waits at its source"
        assert gateway.memory_bytes() - before < 8 * MIB


@both()
def test_a_slow_reader_of_a_stream_slows_the_upstream_and_gets_every_event(
    gateway: Gateway, upstream: Upstream
) -> None:
    """Once data has come, each event goes to the client the moment it comes, unless the client is behind."""
    sent, stalled = hashlib.sha256(), Event()

    def script(call: Call) -> None:
        call.begin()
        for number in range(2000):
            event = b"data: %d %b\n\n" % (number, b"z" * 20_000)
            sent.update(event)
            data = b"%x\r\n%b\r\n" % (len(event), event)
            call.connection.settimeout(PATIENCE_S if stalled.is_set() else 0.5)
            while data:
                try:
                    data = data[call.connection.send(data) :]
                except TimeoutError:
                    stalled.set()
                    call.connection.settimeout(PATIENCE_S)
        done = b"data: [DONE]\n\n"
        sent.update(done)
        call.chunk(done)
        call.end()

    upstream.plays(script)
    with Client(gateway.port, receive_buffer_bytes=65536) as client:
        client.ask("POST", "/v1/chat/completions", b'{"model":"m","messages":[],"stream":true}')
        assert stalled.wait(PATIENCE_S), "what the client has not read waits at its source"
        answer = client.read()
    assert answer.whole and hashlib.sha256(answer.body).digest() == sent.digest()


def test_a_slow_upstream_slows_the_upload(gateway: Gateway, upstream: Upstream) -> None:
    once(gateway.port, "GET", "/healthz")
    before = gateway.memory_bytes()
    sent, stalled = 0, Event()
    # The script starts to read after the upload has stalled.
    upstream.plays(lambda call: stalled.wait(PATIENCE_S), reads_body=False)
    with Client(gateway.port) as client:
        client.socket.settimeout(0.7)
        client.send(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 500000000\r\n\r\n")
        try:
            while sent < 500_000_000:
                sent += client.socket.send(b"z" * 65536)
        except TimeoutError:
            stalled.set()
        assert sent < 50_000_000
        assert gateway.memory_bytes() - before < 8 * MIB


def test_events_leave_as_they_arrive(gateway: Gateway, upstream: Upstream) -> None:
    """The upstream sends the next event only once the client has the one before, split in the middle of a character."""
    events = [
        b": comment\r\n\r\n",
        'data: {"choices":[{"delta":{"content":"é"}}]}\n\n'.encode(),
        b"event: x\rid: 1\rdata: a\rdata: b\r\r",
        b"data: [DONE]\n\n",
    ]
    pieces = [events[0], events[1][:40], events[1][40:41], events[1][41:], events[2], events[3]]
    assert b"".join(pieces) == b"".join(events)
    received = bytearray()
    with Client(gateway.port) as client:

        def script(call: Call) -> None:
            call.begin()
            sent = 0
            for piece in pieces:
                call.chunk(piece)
                sent += len(piece)
                while len(received) < sent:
                    time.sleep(0.005)
            call.end()

        upstream.plays(script)
        client.ask("POST", "/v1/chat/completions", CHAT)
        assert client.read_head().header("Transfer-Encoding") == "chunked"
        while len(received) < sum(map(len, pieces)):
            size = int(client.read_until(b"\r\n"), 16)
            received += client._exactly(size + 2)[0][:-2]
    assert bytes(received) == b"".join(events)


def test_a_hundred_streams_at_once_keep_their_order_and_their_own_content(
    gateway: Gateway, upstream: Upstream
) -> None:
    def script(call: Call) -> None:
        name = call.json()["user"]
        call.begin()
        for n in range(40):
            call.chunk(f'data: {{"choices":[{{"index":0,"delta":{{"content":"{name}-{n}"}}}}]}}\n\n'.encode())
            if n % 10 == 0:
                time.sleep(0.02)
        call.chunk(b"data: [DONE]\n\n")
        call.end()

    upstream.plays(script)
    got: dict[int, bytes] = {}

    def ask(number: int) -> None:
        body = b'{"model":"m","messages":[],"stream":true,"user":"%d"}' % number
        answer = once(gateway.port, "POST", "/v1/chat/completions", body)
        got[number] = answer.body if answer.whole else b"cut"

    threads = [Thread(target=ask, args=(n,)) for n in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(100):
        lines = [
            f'data: {{"choices":[{{"index":0,"delta":{{"content":"{number}-{n}"}}}}]}}' for n in range(40)
        ]
        assert got[number].decode() == "\n\n".join([*lines, "data: [DONE]"]) + "\n\n"
