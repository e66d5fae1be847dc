"""What two servers could read differently never leaves the gateway as two requests, nor as another one than came in."""

from __future__ import annotations

import time

import pytest

from tests.flow.client import Client, once, raw, request
from tests.flow.kinds import both
from tests.flow.process import Gateway
from tests.flow.upstream import Upstream

HOST = b"Host: gateway.test\r\n"
HIDDEN = b"GET /v1/hidden HTTP/1.1\r\nHost: gateway.test\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def post(headers: bytes, body: bytes, version: bytes = b"1.1") -> bytes:
    return b"POST /v1/files HTTP/" + version + b"\r\n" + HOST + headers + b"\r\n" + body


REFUSED = {
    "length and chunked": post(b"Content-Length: 6\r\n" + CHUNKED, b"0\r\n\r\n" + HIDDEN),
    "chunked and length": post(CHUNKED + b"Content-Length: 6\r\n", b"0\r\n\r\n" + HIDDEN),
    "two lengths": post(b"Content-Length: 0\r\nContent-Length: 50\r\n", HIDDEN),
    "the same length twice": post(b"Content-Length: 3\r\nContent-Length: 3\r\n", b"abc"),
    "a list of lengths": post(b"Content-Length: 3, 3\r\n", b"abc"),
    "a signed length": post(b"Content-Length: +3\r\n", b"abc"),
    "a negative length": post(b"Content-Length: -3\r\n", b"abc"),
    "a length in hex": post(b"Content-Length: 0x3\r\n", b"abc"),
    "a length with an underscore": post(b"Content-Length: 0_3\r\n", b"abc"),
    "a length beyond 64 bits": post(b"Content-Length: 99999999999999999999999\r\n", b"abc"),
    "an empty length": post(b"Content-Length: \r\n", HIDDEN),
    "a space before the colon": post(b"Content-Length : 3\r\n", b"abc"),
    "chunked with a vertical tab": post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n" + HIDDEN),
    "chunked by another name": post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + HIDDEN),
    "chunked twice": post(CHUNKED + CHUNKED, b"0\r\n\r\n" + HIDDEN),
    "chunked, then identity": post(b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n" + HIDDEN),
    "chunked over two lines": post(b"Transfer-Encoding: chu\r\n nked\r\n", b"0\r\n\r\n" + HIDDEN),
    "a coding that would be lost": post(b"Transfer-Encoding: gzip, chunked\r\n", b"3\r\nabc\r\n0\r\n\r\n"),
    "identity with a length": post(b"Transfer-Encoding: identity\r\nContent-Length: 3\r\n", b"abc"),
    "chunked in HTTP/1.0": post(CHUNKED + b"Connection: keep-alive\r\n", b"0\r\n\r\n" + HIDDEN, b"1.0"),
    "a negative chunk": post(CHUNKED, b"-3\r\nabc\r\n0\r\n\r\n"),
    "a chunk size with 0x": post(CHUNKED, b"0x3\r\nabc\r\n0\r\n\r\n"),
    "a chunk size beyond 64 bits": post(CHUNKED, b"fffffffffffffffff3\r\nabc\r\n0\r\n\r\n"),
    "a chunk size with junk": post(CHUNKED, b"3 junk\r\nabc\r\n0\r\n\r\n"),
    "a chunk size with an underscore": post(CHUNKED, b"0_3\r\nabc\r\n0\r\n\r\n"),
    "an empty chunk size": post(CHUNKED, b"\r\nabc\r\n0\r\n\r\n"),
    "a chunk longer than it says": post(CHUNKED, b"3\r\nabcdef\r\n0\r\n\r\n"),
    "a chunk ended by LF": post(CHUNKED, b"3\nabc\n0\n\n"),
    "a chunk ended by CR": post(CHUNKED, b"3\rabc\r0\r\r"),
    "an extension holding LF": post(CHUNKED, b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
    "a folded header": post(b"X-Folded: one\r\n two\r\nContent-Length: 0\r\n", b""),
    "a header line ended by LF": post(b"X-One: 1\nContent-Length: 60\r\n", HIDDEN),
    "a header line ended by CR": post(b"X-One: 1\rContent-Length: 60\r\n", HIDDEN),
    "every line ended by LF": b"GET /v1/files HTTP/1.1\nHost: gateway.test\n\n",
    "NUL in a value": post(b"X-One: a\0b\r\n", b""),
    "NUL in a name": post(b"X\0One: ab\r\n", b""),
    "a control character in a value": post(b"X-One: a\x01b\r\n", b""),
    "a space in a name": post(b"X One: ab\r\n", b""),
    "an empty name": post(b": ab\r\n", b""),
    "no colon": post(b"X-One\r\n", b""),
    "two hosts": post(HOST, b""),
    "no host": b"GET /v1/files HTTP/1.1\r\n\r\n",
    "a space in the target": b"GET /v1/files HTTP/1.1 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tab in the target": b"GET /v1/fi\tles HTTP/1.1\r\n" + HOST + b"\r\n",
    "CRLF in the target": b"GET /v1/fi\r\nX: y HTTP/1.1\r\n" + HOST + b"\r\n",
    "bytes beyond ASCII in the target": b"GET /v1/\xff HTTP/1.1\r\n" + HOST + b"\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown version": b"GET /v1/files HTTP/1.9\r\n" + HOST + b"\r\n",
    "a tunnel to elsewhere": b"CONNECT elsewhere.test:443 HTTP/1.1\r\n" + HOST + b"\r\n" + HIDDEN,
    "a tunnel to a path": b"CONNECT /v1/files HTTP/1.1\r\n" + HOST + b"\r\n" + HIDDEN,
    "a handshake that carries a body": (
        b"GET /v1/realtime HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Content-Length: 3\r\n\r\nabc" + HIDDEN
    ),
    "a handshake that is a POST": post(
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n", b"abc" + HIDDEN
    ),
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
@both()
def test_is_refused_in_openai_shape_and_nothing_of_it_is_answered_upstream(
    gateway: Gateway, upstream: Upstream, data: bytes
) -> None:
    answer = raw(gateway.port, data)
    head, _, body = answer.partition(b"\r\n\r\n")
    status = int(head.split(b" ")[1])
    assert 400 <= status < 502 and status != 500
    assert body.startswith(b'{"error":{"message":"') and body.endswith(b"}}")
    assert answer.count(b"Content-Length: ") == 1, (
        "answered once, then closed: what followed was never read as a request"
    )
    assert not any(call.received().whole for call in upstream.calls), "at most an unfinished upload began"
    assert all(call.target == b"/v1/files" for call in upstream.calls)
    assert once(gateway.port, "GET", "/v1/models").status == 200


@both()
def test_the_hidden_request_after_a_body_of_known_length_is_the_clients_next_one(
    gateway: Gateway, upstream: Upstream
) -> None:
    """Pipelining is not smuggling: both sides agree on where the first request ends."""
    with Client(gateway.port) as client:
        client.send(
            request("POST", "/v1/files", b"GET /v1/inner HTTP/1.1\r\n\r\n") + request("GET", "/v1/second")
        )
        assert client.read().body == b"GET /v1/inner HTTP/1.1\r\n\r\n"
        assert client.read().status == 200
    assert [call.target for call in upstream.calls] == [b"/v1/files", b"/v1/second"]


def test_chunk_extensions_and_trailers_stop_here_and_the_body_arrives(
    gateway: Gateway, upstream: Upstream
) -> None:
    with Client(gateway.port) as client:
        client.send(post(CHUNKED, b'3;name="v";x\r\nabc\r\n0\r\nX-Trailer: 1\r\n\r\n'))
        assert client.read().status == 200
    call = upstream.call()
    assert call.body == b"abc" and call.whole
    assert call.header("x-trailer") is None


@both()
def test_an_upload_that_breaks_its_framing_never_looks_finished_upstream(
    gateway: Gateway, upstream: Upstream
) -> None:
    with Client(gateway.port) as client:
        client.send(post(CHUNKED, b"3\r\nabc\r\n"))
        call = upstream.call()
        client.send(b"zz\r\nabc\r\n0\r\n\r\n" + HIDDEN)
        answer = client.read()
        assert answer.status == 400 and answer.error()["code"] == "bad_http"
        assert client.hung_up()
    assert not call.received().whole


@both()
def test_a_chat_body_that_breaks_its_framing_is_refused_at_once(gateway: Gateway, upstream: Upstream) -> None:
    with Client(gateway.port) as client:
        client.send(post(CHUNKED, b"").replace(b"/files", b"/chat/completions") + b"1\r\n{\r\n")
        time.sleep(0.1)
        client.send(b"zz\r\n")
        assert client.read().status == 400
        assert client.hung_up()
    assert not upstream.calls


@both()
def test_an_upload_whose_client_leaves_never_looks_finished_upstream(
    gateway: Gateway, upstream: Upstream
) -> None:
    with Client(gateway.port) as client:
        client.send(post(CHUNKED, b"3\r\nabc\r\n"))
        call = upstream.call()
    assert not call.received().whole


def test_upgrade_to_another_protocol_is_ignored_and_the_request_served(
    gateway: Gateway, upstream: Upstream
) -> None:
    """Java's client offers h2c with every request; a gateway that takes the offer would be blind to what follows."""
    with Client(gateway.port) as client:
        client.ask(
            "POST",
            "/v1/files",
            b"abc",
            [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")],
        )
        assert client.read().body == b"abc"
        client.ask("GET", "/v1/next")
        assert client.read().status == 200
    call = upstream.call()
    assert call.header("upgrade") is None and call.header("http2-settings") is None


def test_upgrade_without_connection_upgrade_is_no_handshake(gateway: Gateway, upstream: Upstream) -> None:
    """Upgrade is hop by hop: unless Connection names it, it was meant for someone else."""
    assert once(gateway.port, "GET", "/v1/realtime", headers=[("Upgrade", "websocket")]).status == 200
    call = upstream.call()
    assert call.header("upgrade") is None and call.header("connection") in (None, "keep-alive")


def test_headers_named_by_connection_stop_here(gateway: Gateway, upstream: Upstream) -> None:
    once(
        gateway.port,
        "GET",
        "/v1/models",
        headers=[("Connection", "keep-alive, X-Hop"), ("X-Hop", "1"), ("TE", "trailers"), ("X-End", "2")],
    )
    call = upstream.call()
    assert call.header("x-hop") is None and call.header("te") is None
    assert call.header("x-end") == "2"


def test_a_length_named_by_connection_does_not_lose_the_body(gateway: Gateway, upstream: Upstream) -> None:
    once(gateway.port, "POST", "/v1/files", b"abc", [("Connection", "Content-Length")])
    assert upstream.call().body == b"abc"


@both()
def test_an_own_page_by_head_has_no_body_that_could_be_taken_for_the_next_answer(gateway: Gateway) -> None:
    with Client(gateway.port) as client:
        for method, target in (
            ("HEAD", "/healthz/"),
            ("GET", "/healthz"),
            ("HEAD", "/readyz"),
            ("GET", "/healthz/"),
        ):
            client.ask(method, target)
            answer = client.read(to=method)
            assert (answer.status, bool(answer.body)) == (200, method == "GET")
