"""Any method and any path below the prefix reaches the upstream byte for byte; nothing else does."""

from __future__ import annotations

import socket

import pytest

from tests.flow.client import Client, once, request
from tests.flow.process import Gateway, running
from tests.flow.upstream import Call, Upstream

TARGETS = [
    "/v1",
    "/v1/",
    "/v1?",
    "/v1/models",
    "/v1/models/",
    "/v1/models?",
    "/v1/models?a=1&a=2&a=1&b",
    "/v1/models?&&=&a==b",
    "/v1/models?q=a+b%20c%2Bd",
    "/v1/models??x=?",
    "/v1//models///x",
    "/v1/models/org%2Fname",
    "/v1/models/org%2fname",
    "/v1/models/a%20b%25c",
    "/v1/models/%E4%BD%A0%e5%a5%bd",
    "/v1/models/%FF%fe%00",
    "/v1/models/ft:gpt-4o:acme::abc;v=1,2",
    "/v1/models/a'b(c)*!~$@_-.",
    "/v1/{id}/<x>|^`\\",
    '/v1/"quoted"',
    "/v1/chat%2Fcompletions",
    "/v1/chat/completions/",
    "/v1/files/a#b",
    "/v1/files?x=http://elsewhere.test/v1",
    "/v1/files?" + "q=" + "x" * 8000,
]


@pytest.mark.parametrize("target", TARGETS, ids=[t[:40] for t in TARGETS])
def test_a_target_arrives_byte_for_byte(gateway: Gateway, upstream: Upstream, target: str) -> None:
    assert once(gateway.port, "GET", target).status == 200
    assert upstream.call().line == f"GET {target} HTTP/1.1".encode()


@pytest.mark.parametrize(
    "target",
    [
        "/v1/..",
        "/v1/../../admin/keys",
        "/v1/./models",
        "/v1/models/.",
        "/v1/models/../files?x=1",
        "/v1/%2e%2E/models",
        "/v1/models/.%2e/files",
        "/v1/%252e%252e/files",
        "/v1/..%2fadmin",
        "/v1/..%5Cadmin",
        "/v1/..\\admin",
        "/v1/..;x=1/admin",
        "/v1/..#fragment",
    ],
)
def test_a_path_that_an_upstream_could_resolve_elsewhere_is_400(
    gateway: Gateway, upstream: Upstream, target: str
) -> None:
    answer = once(gateway.port, "GET", target)
    assert answer.status == 400 and answer.error()["code"] == "invalid_path"
    assert not upstream.calls


def test_dots_that_are_no_segment_of_their_own_are_passed_on(gateway: Gateway, upstream: Upstream) -> None:
    for target in ("/v1/files/..a", "/v1/files/a..", "/v1/files/...", "/v1/files/a?x=../..", "/v1/a..b/.c"):
        assert once(gateway.port, "GET", target).status == 200
        assert upstream.calls[-1].target == target.encode()


@pytest.mark.parametrize(
    "method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "PURGE", "REPORT", "SEARCH"]
)
@pytest.mark.parametrize("body", [None, b"", b"abc"])
def test_a_method_arrives_with_its_body(
    gateway: Gateway, upstream: Upstream, method: str, body: bytes | None
) -> None:
    answer = once(gateway.port, method, "/v1/things/1", body)
    call = upstream.call()
    assert call.method == method and call.body == (body or b"") and answer.body == (body or b"")


def test_a_get_without_a_body_gets_none_on_the_way(gateway: Gateway, upstream: Upstream) -> None:
    once(gateway.port, "GET", "/v1/models")
    call = upstream.call()
    assert call.header("content-length") is None and call.header("transfer-encoding") is None
    assert call.header("content-type") is None and call.header("accept-encoding") is None
    assert call.header("user-agent") is None


OUTSIDE = [
    "/",
    "/v2/models",
    "/v1x/models",
    "/V1/models",
    "/models",
    "/%761/models",
    "//v1/models",
    "/v1%2Fmodels",
    "/admin",
]


@pytest.mark.parametrize("target", [*OUTSIDE, "/?x=/v1/", "*"])
def test_outside_the_prefix_is_404_in_openai_shape(gateway: Gateway, upstream: Upstream, target: str) -> None:
    answer = once(gateway.port, "OPTIONS" if target == "*" else "GET", target)
    assert answer.status == 404
    error = answer.error()
    assert error["type"] == "invalid_request_error" and error["code"] == "unknown_url"
    assert "/v1" in error["message"]
    assert not upstream.calls


@pytest.mark.parametrize(
    ("target", "line"),
    [
        ("http://gateway.test/v1/models?x=%20", b"GET /v1/models?x=%20 HTTP/1.1"),
        ("https://elsewhere.test:444/v1/a//b", b"GET /v1/a//b HTTP/1.1"),
    ],
)
def test_the_absolute_form_goes_to_the_configured_upstream(
    gateway: Gateway, upstream: Upstream, target: str, line: bytes
) -> None:
    assert once(gateway.port, "GET", target).status == 200
    assert upstream.call().line == line
    assert upstream.call().header("host") == f"127.0.0.1:{upstream.port}"


@pytest.mark.parametrize(
    "target", ["http://gateway.test", "http://gateway.test?x=/v1/models", "http://v1/models"]
)
def test_the_absolute_form_is_judged_by_its_path(gateway: Gateway, upstream: Upstream, target: str) -> None:
    assert once(gateway.port, "GET", target).status == 404
    assert not upstream.calls


def test_own_pages_are_not_below_the_prefix(gateway: Gateway, upstream: Upstream) -> None:
    assert once(gateway.port, "GET", "/healthz").status == 200
    assert once(gateway.port, "POST", "/healthz", b"").status == 405
    assert once(gateway.port, "GET", "/v1/healthz").status == 200
    assert [call.target for call in upstream.calls] == [b"/v1/healthz"]


def test_head_gets_the_head_of_the_answer(gateway: Gateway, upstream: Upstream) -> None:
    upstream.says(b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nContent-Length: 123456\r\nETag: x\r\n\r\n")
    with Client(gateway.port) as client:
        for _ in range(2):
            client.ask("HEAD", "/v1/files/f/content")
            answer = client.read(to="HEAD")
            assert answer.status == 200 and answer.header("Content-Length") == "123456"
            assert answer.header("ETag") == "x"


@pytest.mark.parametrize("status", [204, 304])
def test_answers_without_a_body_leave_the_connection_usable(
    gateway: Gateway, upstream: Upstream, status: int
) -> None:
    upstream.says(b"HTTP/1.1 %d None\r\nETag: x\r\nConnection: close\r\n\r\n" % status)
    with Client(gateway.port) as client:
        for _ in range(2):
            client.ask("GET", "/v1/files/f")
            answer = client.read()
            assert answer.status == status and answer.header("ETag") == "x"


def test_http_1_0_clients_get_an_answer_that_ends_with_the_connection(
    gateway: Gateway, upstream: Upstream
) -> None:
    def script(call: Call) -> None:
        call.begin("text/plain")
        call.chunk(b"hello ")
        call.chunk(b"world")
        call.end()

    upstream.plays(script)
    with Client(gateway.port) as client:
        client.send(b"GET /v1/models HTTP/1.0\r\n\r\n")
        answer = client.read()
        assert answer.header("Transfer-Encoding") is None
        assert answer.body == b"hello world"
    assert upstream.call().line == b"GET /v1/models HTTP/1.1"


def test_pipelined_requests_are_answered_in_order(gateway: Gateway, upstream: Upstream) -> None:
    with Client(gateway.port) as client:
        client.send(b"".join(request("POST", f"/v1/files?{n}", b"%d" % n) for n in range(20)))
        assert [client.read().body for _ in range(20)] == [b"%d" % n for n in range(20)]


def test_a_connection_is_reused_by_the_client_and_towards_the_upstream(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.plays(lambda call: call.answer(call.body, keep=len(upstream.calls) < 5))
    with Client(gateway.port) as client:
        for n in range(5):
            client.ask("POST", "/v1/files", b"%d" % n)
            assert client.read().body == b"%d" % n
    assert upstream.connections == 1


def test_a_pooled_connection_that_the_upstream_closed_fails_nobody(
    gateway: Gateway, upstream: Upstream
) -> None:
    """`Connection: keep-alive`, and closed all the same: the next POST must not pay for it."""

    def script(call: Call) -> None:
        call.answer(call.body, keep=True)
        call.connection.shutdown(socket.SHUT_WR)
        assert call.hung_up()
        call.keep = False

    upstream.plays(script)
    for n in range(10):
        answer = once(gateway.port, "POST", "/v1/files", b"%d" % n)
        assert answer.status == 200 and answer.body == b"%d" % n
        assert upstream.call(n).was_left()


def test_expect_100_continue_is_answered_before_the_body(gateway: Gateway, upstream: Upstream) -> None:
    with Client(gateway.port) as client:
        client.send(
            b"POST /v1/files HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        )
        assert client.read_head().status == 100
        client.send(b"hello")
        answer = client.read()
        assert answer.status == 200 and answer.body == b"hello"
    assert upstream.call().header("expect") is None


def test_expect_is_not_answered_where_the_request_is_refused(gateway: Gateway, upstream: Upstream) -> None:
    with Client(gateway.port) as client:
        client.send(b"POST /v2 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        assert client.read_head().status == 404
    answer = once(gateway.port, "POST", "/v1/files", b"", [("Expect", "a miracle")])
    assert answer.status == 417 and answer.error()["code"] == "expectation_failed"


def test_http_1_0_gets_no_100(gateway: Gateway, upstream: Upstream) -> None:
    with Client(gateway.port) as client:
        client.send(b"POST /v1/files HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello")
        assert client.read_head().status == 200


def test_headers_travel_as_they_came(gateway: Gateway, upstream: Upstream) -> None:
    sent = [
        ("Authorization", "Bearer sk-x"),
        ("OpenAI-Organization", "org-1"),
        ("x-stainless-lang", "python"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("X-Custom-MiXed", 'a,b;c="d e"'),
        ("X-Twice", "1"),
        ("X-Twice", "2"),
        ("X-Empty", ""),
        ("Cookie", "a=b; c=d"),
        ("User-Agent", "OpenAI/Python 9"),
        ("Accept-Encoding", "gzip, br, zstd"),
    ]
    upstream.says(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nx-request-id: req_9\r\nopenai-processing-ms: 7\r\nSet-Cookie: a=1\r\n"
        b"Set-Cookie: b=2\r\nX-Empty:\r\nx-ratelimit-remaining-tokens: 99\r\nServer: cloudflare\r\nDate: then\r\n"
        b"Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nX-Understudy-Engine: lie\r\n\r\n{}"
    )
    answer = once(gateway.port, "GET", "/v1/models", headers=sent)
    call = upstream.call()
    for name, value in sent:
        assert value in call.values(name)
    assert call.values("x-twice") == ["1", "2"]
    assert b"X-Custom-MiXed: " in call.head, "names keep their case"
    assert answer.header("x-request-id") == "req_9" and answer.values("Set-Cookie") == ["a=1", "b=2"]
    assert answer.header("x-ratelimit-remaining-tokens") == "99" and answer.header("X-Empty") == ""
    assert answer.header("Server") == "cloudflare" and answer.header("Date") == "then"
    assert answer.header("Keep-Alive") is None and answer.header("Proxy-Authenticate") is None
    assert answer.header("x-understudy-engine") is None


@pytest.mark.parametrize(
    ("base", "expected"), [("", b"/models?x"), ("/", b"/models?x"), ("/a%20b/v9", b"/a%20b/v9/models?x")]
)
def test_the_base_url_may_have_any_path(upstream: Upstream, base: str, expected: bytes) -> None:
    with running("--upstream", f"http://127.0.0.1:{upstream.port}{base}") as gateway:
        assert once(gateway.port, "GET", "/v1/models?x").status == 200
    assert upstream.call().target == expected
