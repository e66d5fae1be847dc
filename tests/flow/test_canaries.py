"""A hundred secrets through every way to fail, to correct and to delete: none stays in log, metrics, files, prompts, spans,
webhooks or exports.

Of the gateway everything is real: its process, its sockets, its log and its data folder. The upstream is scripted.
"""

from __future__ import annotations

import base64
import json
import random
import string
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.flow.client import Answer, Client, request
from tests.flow.process import Gateway, ran, running
from tests.flow.upstream import Call, Upstream

CHAT = "/v1/chat/completions"
JSON = [("Content-Type", "application/json")]
FORMS: tuple[tuple[str, str, int], ...] = (
    ("sk-", string.ascii_letters + string.digits, 40),
    ("ghp_", string.ascii_letters + string.digits, 36),
    ("AKIA", string.ascii_uppercase + "234567", 16),
    ("xoxb-", string.digits, 24),
    ("hf_", string.ascii_letters, 34),
    ("glpat-", string.ascii_letters + string.digits, 20),
)
"""As providers write their keys: prefix, alphabet, how many more characters."""

WITH_CORRECTIONS: tuple[dict[str, Any], ...] = ({}, {"thumb": "down"}, {"score": 0.1}, {"comment": "Wrong."})


class Canaries:
    """Makes secrets, and remembers each with where it was put."""

    def __init__(self) -> None:
        self._random = random.Random(4)
        self.signing = base64.b64encode(self._random.randbytes(32)).decode()
        """What webhooks are signed with."""
        self.placed: dict[str, str] = {}

    def new(self, where: str) -> str:
        prefix, alphabet, length = FORMS[len(self.placed) % len(FORMS)]
        made = prefix + "".join(self._random.choices(alphabet, k=length))
        self.placed[made] = where
        return made

    def found_in(self, data: bytes) -> dict[str, str]:
        """Those that stand in `data`, or enough of one to guess by."""
        return {c: where for c, where in self.placed.items() if c.encode()[:20] in data}


class Attempt:
    """The gateway under test, and ways to put secrets into what is sent to it."""

    def __init__(self, gateway: Gateway, upstream: Upstream, canaries: Canaries, key: str) -> None:
        self.gateway, self.upstream, self.canaries, self.key = gateway, upstream, canaries, key

    def new(self, where: str) -> str:
        return self.canaries.new(where)

    def sends(
        self, method: str, target: str, body: bytes | None = None, headers: Any = (), *, key: str = ""
    ) -> Answer:
        sent = [("Authorization", f"Bearer {key or self.key}"), *headers]
        with Client(self.gateway.port) as client:
            client.send_what_is_taken(request(method, target, body, sent))
            return client.read(to=method)

    def asks(self, text: str, headers: Any = (), **fields: Any) -> Answer:
        body = {"model": "m", "messages": [{"role": "user", "content": text}], **fields}
        return self.sends("POST", CHAT, json.dumps(body).encode(), [*JSON, *headers])

    def gives(self, path: str, headers: Any = (), **fields: Any) -> Answer:
        return self.sends("POST", f"/v1{path}", json.dumps(fields).encode(), [*JSON, *headers])


def completion(call: Call, text: str = "Forty-two.") -> None:
    """A whole chat answer."""
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    call.answer(
        json.dumps(
            {"id": f"chatcmpl-{id(call)}", "object": "chat.completion", "choices": choices, "usage": usage}
        ).encode()
    )


# ---- what a client does wrong


def refused_by_us(at: Attempt) -> Iterator[tuple[Answer, tuple[int, ...]]]:
    for n in range(4):
        yield at.sends("GET", "/v1/models", key=at.new(f"unknown key {n}")), (401,)
        basic = [("Authorization", f"Basic {at.new(f'basic credential {n}')}")]
        yield at.sends("POST", CHAT, b"{}", basic, key="us-none"), (401,)
    carried = [
        (name, at.new(name)) for name in ("Cookie", "X-Goog-Api-Key", "Ocp-Apim-Subscription-Key", "X-Secret")
    ]
    for _ in range(3):
        yield at.sends("POST", CHAT, f'{{"a": "{at.new("cut JSON")}"'.encode(), [*JSON, *carried]), (400,)
        twice = f'{{"model": 1, "k": "{at.new("wrong types")}", "messages": "{at.new("wrong messages")}"}}'
        yield at.sends("POST", CHAT, twice.encode(), JSON), (400,)
        yield at.sends("POST", CHAT, at.new("not JSON").encode(), JSON), (400,)
        query = f"{CHAT}?api_key={at.new('a query')}&token={at.new('another query')}"
        yield at.sends("POST", query, b"[]", JSON), (400,)
    yield (
        at.sends("POST", CHAT, b"{}", [*JSON, ("Content-Encoding", at.new("an encoding"))]),
        (415,),
    )
    yield (
        at.sends("POST", CHAT, b"{}", [("Content-Type", "text/plain; key=" + at.new("a type"))]),
        (
            200,
            415,
        ),
    )
    yield at.sends("POST", CHAT, b'"' + at.new("a huge body").encode() * 60_000 + b'"', JSON), (400, 413)
    yield at.asks("Q", [("x-understudy-engine", at.new("an engine's name"))]), (400,)
    yield at.asks("Q", [("x-understudy-examples", at.new("a number of examples"))]), (400,)
    yield at.asks("Q", [("x-understudy-preference", at.new("a preference"))]), (400,)
    yield at.sends("POST", CHAT, b"{}", [*JSON, ("Expect", at.new("an expectation"))]), (417,)
    yield at.sends("GET", f"/elsewhere?key={at.new('outside')}"), (404,)
    for path in ("/feedback", "/examples"):
        yield at.gives(path, **{at.new("a field's name"): at.new("a field's value")}), (400,)
        yield at.sends("POST", f"/v1{path}", at.new("a body").encode(), JSON), (400,)
    yield at.gives("/feedback", completion_id=at.new("an answer's id"), thumb="down"), (404,)
    yield at.gives("/feedback", decision_id=at.new("a decision's id"), thumb=at.new("a thumb")), (400, 404)
    yield at.sends("DELETE", f"/v1/examples/ex-1?user={at.new('a user')}"), (400, 404)


# ---- what an upstream does wrong


def failed_upstream(at: Attempt) -> Iterator[tuple[Answer, tuple[int, ...]]]:
    def says(status: int, where: str) -> None:
        secret = at.new(where)
        body = json.dumps({"error": {"message": f"Incorrect API key: {secret}", "code": secret}}).encode()
        headers = [("Content-Type", "application/json"), ("x-debug", at.new(f"header of {where}"))]
        at.upstream.plays(lambda call: call.answer(body, status, headers))

    for status in (400, 401, 403, 404, 422, 500, 503):
        says(status, f"an upstream's {status}")
        yield at.asks(f"Asked for {at.new('a prompt that fails')} and {status}"), (status, 502)
        yield at.gives("/embeddings", model="e", input=at.new("an input that fails")), (status, 502)
    raw = {
        "no HTTP": b"%s\r\n\r\n",
        "a broken header": b"HTTP/1.1 200 OK\r\nX-A: a\0%s\r\n\r\n",
        "a cut body": b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n%s",
        "HTML": b"HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>%s",
    }
    for where, form in raw.items():
        at.upstream.says(form % at.new(where).encode())
        yield at.asks("Q", seed=len(where)), (500, 502)
    for end in (b"", b'data: {"error": {"message": "%s"}}\n\n'):
        at.upstream.plays(broken_stream(at, end))
        yield at.asks("Q", stream=True), (200, 502)


def broken_stream(at: Attempt, end: bytes) -> Callable[[Call], None]:
    said, failed = at.new("a stream that breaks").encode(), at.new("an error event").encode()

    def plays(call: Call) -> None:
        call.begin()
        call.chunk(b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % said)
        call.chunk(end % failed if end else b"data: {")
        call.reset()

    return plays


# ---- what people correct and delete


def corrected_and_deleted(at: Attempt) -> Iterator[tuple[Answer, tuple[int, ...]]]:
    at.upstream.plays(completion)
    for n, more in enumerate(WITH_CORRECTIONS):
        question = f"What is the password of host number {n}, said {at.new('a question')}?"
        first = at.asks(question)
        yield first, (200,)
        decision = first.header("x-understudy-decision-id")
        correction = f"It is {at.new('a correction')}, and nothing else."
        yield at.gives("/feedback", decision_id=decision, correction=correction, **more), (200, 201, 400)
        demonstration = {
            "messages": [{"role": "user", "content": f"Key of {n}: {at.new('a demonstration')}?"}]
        }
        given = at.gives("/examples", **demonstration, answer=f"Say {at.new('its answer')} to nobody.")
        yield given, (200, 201, 400)
        if given.status < 300:
            yield at.sends("DELETE", f"/v1/examples/{given.json()['id']}"), (200,)
    yield at.sends("DELETE", f"/v1/examples?user={at.new('a deleted user')}"), (200,)


# ---- who is told of it


class Listener:
    """A server that takes whatever is posted: an OpenTelemetry collector, or the receiver of webhooks."""

    def __init__(self) -> None:
        taken = self.taken = bytearray()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                taken.extend(str(self.headers).encode())
                taken.extend(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Listener:
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def a_gateway(upstream: Upstream, canaries: Canaries, data: Path, collector: Listener) -> Iterator[Gateway]:
    operators = [canaries.new(f"an operator's key {n}") for n in range(5)]

    def engine(name: int) -> dict[str, Any]:
        # Every failure is to be met, none to be spared by a breaker.
        advanced = {"attempts": 1, "breaker_failures": 1000, "headers": {"x-team": operators[name + 1]}}
        return {"base_url": upstream.url, "api_key": operators[name], "advanced": advanced}

    config = {
        "upstream": {"base_url": upstream.url, "api_key": operators[0]},
        "engines": {"small": engine(1), "large": engine(3)},
        "models": {
            "m": {"engines": ["small", "large"], "policy": "few_shot", "proof": "off", "few_shot": {"m": 1}}
        },
        "memory": {"data_dir": str(data), "exact": {"enabled": True}},
        "listen": {"advanced": {"max_json_mib": 1}},
        "otel": {"endpoint": collector.url, "advanced": {"metrics_every_s": 1}},
        "webhooks": [{"url": f"{collector.url}/hook", "secret": f"whsec_{canaries.signing}"}],
    }
    path = data.parent / "config.json.yaml"
    path.write_text(json.dumps(config))
    with running("--config", str(path)) as gateway:
        yield gateway


@pytest.mark.timeout(600)
def test_no_secret_is_left_anywhere(upstream: Upstream, tmp_path: Path) -> None:
    data, canaries = tmp_path / "data", Canaries()
    status, printed, said = ran("keys", "create", "--data", str(data), "--tenant", "acme")
    assert status == 0, said
    key = next(word for word in printed.split() if word.startswith("us-"))
    ending = ran(
        "keys", "create", "--data", str(data), "--tenant", "beta", "--name", "leaving", "--expires", "1d"
    )
    assert ending[0] == 0, ending[2]
    made = ran("admin", "token", "create", "--data", str(data), "--name", "prometheus", "--role", "viewer")
    assert made[0] == 0, made[2]
    token = next(word for word in made[1].split() if word.startswith("us-admin-"))
    with Listener() as collector, a_gateway(upstream, canaries, data, collector) as gateway:
        at = Attempt(gateway, upstream, canaries, key)
        for ways in (refused_by_us, failed_upstream, corrected_and_deleted):
            for answer, expected in ways(at):
                assert answer.status in expected, (ways.__name__, answer.status, answer.body[:300])
        upstream.plays(completion)
        asked_before = len(upstream.calls)
        for n in range(4):
            assert at.asks(f"What is the password of host number {n}?").status == 200
        prompts = b"".join(call.received().body for call in upstream.calls[asked_before:])
        metrics = at.sends("GET", "/metrics", key=token).body
        assert gateway.stop() == 0
        log = gateway.log().encode()
    assert len(canaries.placed) >= 100
    assert b'"event":"request"' in log and b"understudy_requests_total" in metrics and b"password" in prompts
    assert canaries.found_in(log) == {}
    assert canaries.found_in(metrics) == {}
    assert canaries.found_in(prompts) == {}
    spans = bytes(collector.taken)
    assert b"key.expiring" in spans and b"leaving" in spans, "a webhook came, too"
    assert canaries.signing.encode() not in spans + log + metrics
    assert b"gen_ai.provider.name" in spans and b"gen_ai.client.token.usage" in spans
    assert canaries.found_in(spans) == {}
    assert b'tenant="acme"' in metrics
    assert canaries.found_in(exported(data)) == {}
    files = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    assert any(b"password of host number" in content for content in files.values()), (
        "what is harmless is kept"
    )
    assert {path.name: found for path, kept in files.items() if (found := canaries.found_in(kept))} == {}
    assert key.encode() not in log + metrics + prompts + spans + b"".join(files.values())


def exported(data: Path) -> bytes:
    """All that an export of requests writes without being asked for content, in both forms."""
    status, lines, said = ran("export", "requests", "--data", str(data))
    assert status == 0 and "acme" in lines, said
    file = data.parent / "requests.parquet"
    status, _, said = ran("export", "requests", "--data", str(data), "--output", str(file))
    assert status == 0, said
    columns = pyarrow.parquet.read_table(file).to_pylist()
    assert len(columns) == len(lines.splitlines())
    return lines.encode() + json.dumps(columns).encode()
