"""A dead, slow, resetting or lying upstream: a 502 or 504 in OpenAI's shape, or a broken stream; never a success."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.flow.client import Client, once, request
from tests.flow.process import Gateway, running
from tests.flow.upstream import Call, Upstream, begins_and_waits, waits

OK = b"HTTP/1.1 200 OK\r\n"
TWO = b"Content-Length: 2\r\n\r\n{}"
CHAT = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}'
CANARY = "sk-canary-4f1d9c"
SECRETS = [("Authorization", f"Bearer {CANARY}"), ("api-key", CANARY), ("Cookie", f"session={CANARY}")]


NOT_HTTP = {
    "nothing": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "plain text": b"hello\r\n\r\n",
    "another version": b"HTTP/2 200 OK\r\n\r\n{}",
    "no number for a status": b"HTTP/1.1 abc OK\r\n" + TWO,
    "a status below 100": b"HTTP/1.1 099 OK\r\n" + TWO,
    "an upgrade nobody asked for": (
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nhello"
    ),
    "a length that is no number": OK + b"Content-Length: abc\r\n\r\n{}",
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}a",
    "length and chunked": OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a body longer than its length": OK + b"Content-Length: 2\r\n\r\n{}{}{}",
    "a body shorter than its length": OK + b"Content-Length: 20\r\n\r\n{}",
    "a coding that would be lost": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "a header beyond 64 KiB": OK + b"X-Long: " + b"a" * 100_000 + b"\r\n" + TWO,
    "five hundred headers": OK + b"".join(b"X-%d: 1\r\n" % n for n in range(500)) + TWO,
    "a bare CR in a header": OK + b"X-One: a\rX-Two: b\r\n" + TWO,
    "CR before CRLF": OK + b"X-One: a\r\r\nX-Two: b\r\n" + TWO,
    "NUL in a header": OK + b"X-One: a\0b\r\n" + TWO,
    "a control character in a header": OK + b"X-One: a\x01b\r\n" + TWO,
    "DEL in a header": OK + b"X-One: a\x7fb\r\n" + TWO,
    "a space in a header's name": OK + b"X One: a\r\n" + TWO,
    "a header's name beyond ASCII": OK + b"X-\xe9: a\r\n" + TWO,
}


@pytest.mark.parametrize("said", NOT_HTTP.values(), ids=NOT_HTTP)
def test_what_is_not_an_answer_becomes_502(gateway: Gateway, upstream: Upstream, said: bytes) -> None:
    upstream.says(said)
    with Client(gateway.port) as client:
        client.ask("POST", "/v1/files", b"{}", SECRETS)
        answer = client.read()
        assert answer.status == 502 and answer.whole
        error = answer.error()
        assert error["type"] == "api_error" and error["code"].startswith("upstream_")
        assert "upstream" in error["message"] and CANARY not in error["message"]
        client.ask("GET", "/healthz")
        assert client.read().status == 200, "the client's connection is still good"


@pytest.mark.slow
def test_a_refused_connection_is_502_and_says_so(tmp_path: Path) -> None:
    # Bound, so that nobody else gets the port meanwhile, and not listening.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with running("--upstream", f"http://127.0.0.1:{port}/v1?".rstrip("?")) as gateway:
            answer = once(gateway.port, "POST", "/v1/files?key=" + CANARY, b"{}", SECRETS)
            assert answer.status == 502
            assert answer.error()["message"] == f"No connection to 127.0.0.1:{port}: Connection refused."
            chat = once(gateway.port, "POST", "/v1/chat/completions", CHAT, SECRETS)
            assert chat.status == 502 and chat.error()["code"] == "upstream_connection_failed"
            assert CANARY.encode() not in answer.body + chat.body
            gateway.wait_for_log('"path":"/v1/chat/completions"')
            assert CANARY not in gateway.log()


def test_a_host_that_does_not_exist_is_502_and_says_so() -> None:
    with running("--upstream", "http://no-such-host.invalid/v1") as gateway:
        answer = once(gateway.port, "GET", "/v1/models")
        assert answer.status == 502
        assert "no-such-host.invalid" in answer.error()["message"]


def test_a_reset_before_the_head_is_502(gateway: Gateway, upstream: Upstream) -> None:
    upstream.plays(lambda call: call.reset())
    answer = once(gateway.port, "POST", "/v1/files", b"{}", SECRETS)
    assert answer.status == 502 and "reset" in answer.error()["message"].lower()


@pytest.mark.parametrize("reset", [False, True])
def test_a_kept_connection_that_closes_without_a_byte_is_replaced_once(
    gateway: Gateway, upstream: Upstream, reset: bool
) -> None:
    def script(call: Call) -> None:
        if upstream.calls.index(call) == 1:
            if reset:
                call.reset()
        else:
            call.answer(call.body, keep=True)

    upstream.plays(script)
    for _ in range(2):
        answer = once(gateway.port, "POST", "/v1/embeddings", CHAT)
        assert answer.status == 200 and answer.body == CHAT
    assert (len(upstream.calls), upstream.connections) == (3, 2)


def test_nothing_is_asked_again_whose_answer_had_begun_or_that_was_asked_on_a_new_connection(
    gateway: Gateway, upstream: Upstream
) -> None:
    def script(call: Call) -> None:
        if upstream.calls.index(call) == 1:
            call.send(b"HTTP/1.1 200 OK\r\nContent-Ty")
        elif upstream.calls.index(call) == 0:
            call.answer(b"{}", keep=True)

    upstream.plays(script)
    assert [once(gateway.port, "POST", "/v1/embeddings", CHAT).status for _ in range(3)] == [200, 502, 502]
    assert len(upstream.calls) == 3


def test_a_reset_after_the_head_of_a_small_answer_is_502(gateway: Gateway, upstream: Upstream) -> None:
    def script(call: Call) -> None:
        call.send(OK + b"Content-Length: 20\r\n\r\nabc")
        time.sleep(0.05)
        call.reset()

    upstream.plays(script)
    assert once(gateway.port, "POST", "/v1/files", b"{}").error()["code"] == "upstream_stream_broken"


@pytest.mark.parametrize("ending", ["cut", "reset", "broken chunk"])
def test_a_stream_that_breaks_ends_in_an_error_event_and_a_closed_connection(
    gateway: Gateway, upstream: Upstream, ending: str
) -> None:
    def script(call: Call) -> None:
        call.begin()
        call.chunk(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
        time.sleep(0.1)
        if ending == "reset":
            call.reset()
        elif ending == "broken chunk":
            call.send(b"zz\r\n")

    upstream.plays(script)
    with Client(gateway.port) as client:
        client.ask("POST", "/v1/chat/completions", CHAT, SECRETS)
        answer = client.read()
        assert answer.status == 200 and not answer.whole
        assert answer.body.startswith(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
        assert b'\n\ndata: {"error":{"message":"The upstream' in answer.body and answer.body.endswith(
            b"}}\n\n"
        )
        assert CANARY.encode() not in answer.body
        assert client.hung_up()


@pytest.mark.parametrize(("path", "numbered"), [("/v1/responses", True), ("/v1/messages", False)])
def test_a_cut_stream_ends_in_the_error_event_of_its_own_api(
    gateway: Gateway, upstream: Upstream, path: str, numbered: bool
) -> None:
    def script(call: Call) -> None:
        call.begin()
        call.chunk(b'event: begun\ndata: {"type":"begun","sequence_number":6}\n\n')
        time.sleep(0.1)

    upstream.plays(script)
    answer = once(gateway.port, "POST", path, CHAT)
    told = json.loads(answer.body.split(b"\n\nevent: error\ndata: ")[1])
    assert not answer.whole and told["type"] == "error"
    assert not numbered or (told["sequence_number"], told["code"]) == (7, "upstream_stream_broken")


def test_a_stream_whose_length_hides_its_cut_still_ends_in_an_error_event(
    gateway: Gateway, upstream: Upstream
) -> None:
    """No length and no chunks: only the missing terminal event shows that something is missing."""
    upstream.says(
        OK + b'Content-Type: text/event-stream\r\n\r\ndata: {"choices":[{"delta":{"content":"a"}}]}\n\n'
    )
    with Client(gateway.port) as client:
        client.ask("POST", "/v1/responses", CHAT)
        answer = client.read()
        assert not answer.whole and b'"upstream_stream_broken"' in answer.body


@pytest.mark.parametrize("text", ["[DONE]", "message_stop", '\\"response.completed\\"'])
def test_a_cut_stream_that_merely_quotes_a_terminal_event_is_broken(
    gateway: Gateway, upstream: Upstream, text: str
) -> None:
    def script(call: Call) -> None:
        call.begin()
        call.chunk(b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % text.encode())
        call.end()

    upstream.plays(script)
    answer = once(gateway.port, "POST", "/v1/chat/completions", CHAT)
    assert not answer.whole and b'"upstream_stream_broken"' in answer.body


def test_a_stream_of_two_choices_is_broken_while_one_of_them_is_not_done(
    gateway: Gateway, upstream: Upstream
) -> None:
    def script(call: Call) -> None:
        call.begin()
        call.chunk(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n')
        call.chunk(b'data: {"choices":[{"index":1,"delta":{"content":"a"},"finish_reason":null}]}\n\n')
        call.end()

    upstream.plays(script)
    assert not once(gateway.port, "POST", "/v1/chat/completions", CHAT).whole


def test_an_event_stream_without_a_single_byte_stays_one(gateway: Gateway, upstream: Upstream) -> None:
    def script(call: Call) -> None:
        call.begin()
        call.end()

    upstream.plays(script)
    answer = once(gateway.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.whole and answer.body == b""


def test_an_event_stream_without_a_single_byte_or_a_declared_end_is_broken(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.says(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    answer = once(gateway.port, "POST", "/v1/chat/completions", CHAT)
    assert not answer.whole and b'"upstream_stream_broken"' in answer.body


def test_a_terminal_event_of_any_size_ends_a_stream(gateway: Gateway, upstream: Upstream) -> None:
    """`response.completed` repeats the whole response: its name stands far before its end."""
    body = (
        b'event: response.created\ndata: {"type":"response.created"}\n\n'
        b'event: response.completed\ndata: {"type":"response.completed","response":{"text":"%s"}}\n\n'
        % (b"x" * 200_000)
    )
    upstream.says(OK + b"Content-Type: text/event-stream\r\n\r\n" + body)
    answer = once(gateway.port, "POST", "/v1/responses", CHAT)
    assert answer.whole and answer.body == body


@pytest.mark.parametrize(
    "ending",
    [
        b"data: [DONE]\n\n",
        b"data: [DONE]\r\n\r\n",
        b"data: [DONE]\n",
        b"data:[DONE]\n\n",
        b"data: [DONE]",
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: {"choices":[],"usage":{}}\n\n',
        b'data: {"error":{"message":"overloaded"}}\n\n',
        b'event: error\ndata: {"type":"error"}\n\n',
        b"data: [DONE]\n\n: bye\n\n",
    ],
)
def test_a_stream_that_says_how_it_ended_is_whole(
    gateway: Gateway, upstream: Upstream, ending: bytes
) -> None:
    body = b': hello\n\ndata: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n' + ending

    def script(call: Call) -> None:
        call.begin()
        call.chunk(body)
        call.end()

    upstream.plays(script)
    answer = once(gateway.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.whole and answer.body == body


@pytest.mark.slow
def test_a_head_that_never_comes_is_504(impatient: Gateway, upstream: Upstream) -> None:
    upstream.plays(waits)
    answer = once(impatient.port, "POST", "/v1/chat/completions", CHAT, SECRETS)
    assert answer.status == 504
    assert answer.error() == {
        "message": "The upstream sent no data for 1.5 s (first_data_s).",
        "type": "api_error",
        "param": None,
        "code": "upstream_timeout",
    }
    assert upstream.call().was_left(), "and the upstream was let go"


def test_a_stream_that_stalls_ends_in_an_error_event(impatient: Gateway, upstream: Upstream) -> None:
    upstream.plays(begins_and_waits)
    answer = once(impatient.port, "POST", "/v1/chat/completions", CHAT)
    assert not answer.whole and b"for 1.5 s in the middle of its answer (gap_s)" in answer.body


def test_a_head_without_a_body_is_still_waiting_for_its_first_chunk(
    impatient: Gateway, upstream: Upstream
) -> None:
    def script(call: Call) -> None:
        call.begin()
        assert call.hung_up()

    upstream.plays(script)
    answer = once(impatient.port, "POST", "/v1/chat/completions", CHAT)
    assert not answer.whole and b"sent no data for 1.5 s (first_data_s)" in answer.body


def test_a_slow_but_steady_stream_outlives_every_limit(impatient: Gateway, upstream: Upstream) -> None:
    def script(call: Call) -> None:
        call.begin()
        for _ in range(9):
            call.chunk(b'data: {"choices":[{"index":0,"delta":{"content":"and "}}]}\n\n')
            time.sleep(0.2)
        call.chunk(b"data: [DONE]\n\n")
        call.end()

    upstream.plays(script)
    answer = once(impatient.port, "POST", "/v1/chat/completions", CHAT)
    assert answer.whole and answer.body.endswith(b"data: [DONE]\n\n")


def test_a_stream_that_says_nothing_but_comments_has_not_begun(
    impatient: Gateway, upstream: Upstream
) -> None:
    """A proxy that pings for a dead engine hides nothing."""

    def script(call: Call) -> None:
        call.begin()
        with suppress(OSError):
            while True:
                call.chunk(b": ping\n\n")
                time.sleep(0.1)

    upstream.plays(script)
    answer = once(impatient.port, "POST", "/v1/chat/completions", CHAT)
    assert not answer.whole and b"sent no data for 1.5 s (first_data_s)" in answer.body


def test_a_download_that_is_cut_is_not_whole(gateway: Gateway, upstream: Upstream) -> None:
    upstream.says(
        OK + b"Content-Type: application/octet-stream\r\nContent-Length: 200000\r\n\r\n" + b"a" * 1000
    )
    with Client(gateway.port) as client:
        client.ask("GET", "/v1/files/f/content")
        answer = client.read()
        assert answer.status == 200 and not answer.whole and answer.body == b"a" * 1000


def test_chunks_cut_short_are_not_whole(gateway: Gateway, upstream: Upstream) -> None:
    upstream.says(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    with Client(gateway.port) as client:
        client.ask("GET", "/v1/files/f/content")
        assert not client.read().whole


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3,
    ],
)
def test_interim_answers_are_waited_through(gateway: Gateway, upstream: Upstream, interim: bytes) -> None:
    upstream.says(interim + OK + b"X-Final: yes\r\n" + TWO)
    answer = once(gateway.port, "POST", "/v1/files", b"{}")
    assert answer.status == 200 and answer.header("X-Final") == "yes" and answer.body == b"{}"


def test_header_bytes_that_are_not_utf8_do_not_fail_the_answer(gateway: Gateway, upstream: Upstream) -> None:
    upstream.says(OK + b"X-Name: caf\xe9\r\n" + TWO)
    answer = once(gateway.port, "GET", "/v1/models")
    assert answer.status == 200
    value = answer.header("X-Name")
    assert value is not None and value.encode("latin-1").decode() == "café"


def test_a_body_that_is_not_the_gzip_it_claims_arrives_as_it_came(
    gateway: Gateway, upstream: Upstream
) -> None:
    upstream.says(OK + b"Content-Encoding: gzip\r\n" + TWO)
    answer = once(gateway.port, "GET", "/v1/models")
    assert answer.status == 200 and answer.body == b"{}" and answer.header("Content-Encoding") == "gzip"


def test_no_header_of_the_upstream_can_become_two(gateway: Gateway, upstream: Upstream) -> None:
    upstream.says(OK + b"X-One: a\r\n  b%0d%0aX-Two: c\r\n" + TWO)
    answer = once(gateway.port, "GET", "/v1/models")
    assert answer.header("X-Two") is None and (answer.header("X-One") or "").startswith("a")


def test_a_redirect_is_the_clients_business(gateway: Gateway, upstream: Upstream) -> None:
    upstream.says(b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:9/v1/models\r\n" + TWO)
    answer = once(gateway.port, "POST", "/v1/chat/completions", CHAT, SECRETS)
    assert answer.status == 307 and answer.header("Location") == "http://127.0.0.1:9/v1/models"
    assert len(upstream.calls) == 1


def test_an_answer_before_the_upload_is_over_is_passed_on(gateway: Gateway, upstream: Upstream) -> None:
    upstream.plays(
        lambda call: call.answer(b'{"error":{"message":"too big"}}', 413, reason="Too Large"),
        reads_body=False,
    )
    with Client(gateway.port) as client:
        client.send_what_is_taken(request("POST", "/v1/files", b"x" * 3_000_000))
        answer = client.read()
        assert answer.status == 413 and answer.json()["error"]["message"] == "too big"


def test_errors_of_the_upstream_come_as_they_came(gateway: Gateway, upstream: Upstream) -> None:
    html = b"<html><h1>503 over capacity</h1></html>"
    upstream.plays(
        lambda call: call.answer(
            html,
            503,
            [("Content-Type", "text/html"), ("Retry-After", "7"), ("x-ratelimit-remaining-requests", "0")],
            reason="Busy",
        )
    )
    answer = once(gateway.port, "POST", "/v1/chat/completions", CHAT)
    assert (answer.status, answer.reason, answer.body) == (503, "Busy", html)
    assert answer.header("Retry-After") == "7" and answer.header("x-ratelimit-remaining-requests") == "0"
    assert len(upstream.calls) == 1, "a transparent gateway does not retry"


def test_no_failure_writes_a_secret_into_the_log(gateway: Gateway, upstream: Upstream) -> None:
    upstream.plays(lambda call: call.reset())
    answer = once(gateway.port, "POST", f"/v1/files?key={CANARY}&api_key={CANARY}", CANARY.encode(), SECRETS)
    assert CANARY.encode() not in answer.body
    once(gateway.port, "GET", "/v1/last-of-the-secrets")
    assert CANARY not in gateway.wait_for_log("/v1/last-of-the-secrets")


def test_the_log_is_json_and_nothing_unexpected_happened(gateway: Gateway) -> None:
    once(gateway.port, "GET", "/healthz")
    events = {line["event"] for line in gateway.log_lines()}
    assert "unexpected_error" not in events
