"""A stream is over once its last event was sent on: who closes first decides nothing about what is kept and logged."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.flow.client import Answer, Client
from tests.flow.line import events
from tests.flow.process import Gateway, running
from tests.flow.upstream import Call, Script, Upstream

DONE = b"data: [DONE]\n\n"
SAID = events("Forty two", usage=True)
USAGE = SAID[-1]
NO_DONE = SAID[:-1]
SHORT_GAP = "{attempts: 1, gap_s: 1}"


def silent(call: Call) -> None:
    assert call.hung_up()


def chatty(call: Call) -> None:
    """Goes on with comments until nobody takes them any more."""
    try:
        while True:
            call.chunk(b": still here\n\n")
            time.sleep(0.001)
    except OSError:
        call._left.set()


def says(*pieces: bytes, then: Callable[[Call], object] = silent) -> Script:
    def script(call: Call) -> None:
        call.begin()
        for piece in pieces:
            call.chunk(piece)
        then(call)

    return script


@pytest.fixture(scope="module")
def remembering(_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One managed engine, and the same upstream for models that are not listed; exact answers are kept."""
    folder: Path = tmp_path_factory.mktemp("remembering")
    (folder / "config.yaml").write_text(
        f"upstream: {{base_url: {_upstream.url}, advanced: {{gap_s: 1}}}}\n"
        f"engines:\n  large:\n    base_url: {_upstream.url}\n    advanced: {SHORT_GAP}\n"
        "    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}\n"
        "models:\n  managed: {engines: [large]}\n"
        f"memory:\n  data_dir: {folder / 'data'}\n  examples: {{enabled: false}}\nlisten: {{grace_s: 1}}\n"
    )
    with running("--config", str(folder / "config.yaml")) as process:
        yield process


_asked = iter(range(1_000_000))


def ask(client: Client, model: str = "managed", path: str = "/v1/chat/completions", **fields: Any) -> bytes:
    """Ask something new, as a stream; the body, to be sent again."""
    question = f"Question {next(_asked)}?"
    body = {"model": model, "messages": [{"role": "user", "content": question}], "stream": True} | fields
    data = json.dumps(body).encode()
    client.ask("POST", path, data, [("Authorization", "Bearer sk-one")])
    return data


def line_of(gateway: Gateway, answer: Answer) -> dict[str, Any]:
    """The log line of the request that was answered so."""
    text = gateway.wait_for_log(f'"request":"{answer.header("x-understudy-decision-id")}"')
    lines = [line for line in text.split("\n") if str(answer.header("x-understudy-decision-id")) in line]
    line: dict[str, Any] = json.loads(lines[0])
    return line


def leaves_at(gateway: Gateway, mark: bytes, *args: Any, **fields: Any) -> tuple[bytes, dict[str, Any]]:
    """(the body that was asked, the log line of a request whose client leaves as soon as it has read `mark`)."""
    with Client(gateway.port) as client:
        body = ask(client, *args, **fields)
        head = client.read_head()
        client.read_until(mark)
    return body, line_of(gateway, head)


def cache_status(gateway: Gateway, body: bytes) -> str | None:
    """Of the same request, asked again and read to the end."""
    with Client(gateway.port) as client:
        client.ask("POST", "/v1/chat/completions", body, [("Authorization", "Bearer sk-one")])
        return client.read().header("Cache-Status")


def hit(gateway: Gateway, upstream: Upstream, body: bytes) -> bool:
    upstream.plays(says(*SAID, DONE, then=lambda call: call.end()))
    return "; hit" in (cache_status(gateway, body) or "")


@pytest.mark.slow
@pytest.mark.parametrize("then", [silent, chatty])
@pytest.mark.parametrize("model", ["managed", "not-listed"])
@pytest.mark.parametrize(
    ("said", "mark"), [((*SAID, DONE), DONE), (NO_DONE, NO_DONE[-1])], ids=["done", "finish reason"]
)
def test_a_client_that_leaves_at_the_last_event_has_been_answered(
    remembering: Gateway,
    upstream: Upstream,
    model: str,
    then: Callable[[Call], None],
    said: Sequence[bytes],
    mark: bytes,
) -> None:
    upstream.plays(says(*said, then=then))
    body, line = leaves_at(remembering, mark, model, stream_options={"include_usage": True})
    assert upstream.call().was_left()
    assert (line["outcome"], line["status"]) == ("answered", 200), line
    assert line["completion_tokens"] > 0 and "error" not in line
    if model == "managed":
        assert line["cost_usd"] > 0
    if mark == DONE:
        assert line["prompt_tokens"] == 7, "the engine's own count"
        assert hit(remembering, upstream, body)


def test_a_repeat_after_the_finish_reason_alone_is_answered_from_memory(
    remembering: Gateway, upstream: Upstream
) -> None:
    upstream.plays(says(*NO_DONE))
    body, line = leaves_at(remembering, NO_DONE[-1])
    assert line["outcome"] == "answered" and hit(remembering, upstream, body)


@pytest.mark.parametrize("model", ["managed", "not-listed"])
@pytest.mark.parametrize("then", [silent, chatty])
def test_a_client_that_leaves_before_has_not(
    remembering: Gateway, upstream: Upstream, model: str, then: Callable[[Call], None]
) -> None:
    upstream.plays(says(*SAID[:2], then=then))
    body, line = leaves_at(remembering, SAID[1], model)
    assert line["outcome"] == "aborted"
    assert not hit(remembering, upstream, body)


def test_leaving_while_one_of_two_choices_goes_on_is_an_abort(
    remembering: Gateway, upstream: Upstream
) -> None:
    second = NO_DONE[-1].replace(b'"index": 0', b'"index": 1')
    upstream.plays(says(*NO_DONE))
    _, line = leaves_at(remembering, NO_DONE[-1], n=2, temperature=0)
    assert line["outcome"] == "aborted"
    upstream.plays(says(*NO_DONE, second))
    _, line = leaves_at(remembering, second, n=2, temperature=0)
    assert line["outcome"] == "answered"


@pytest.mark.parametrize(
    ("path", "said", "mark"),
    [
        ("/v1/chat/completions", (*SAID, DONE), DONE),
        (
            "/v1/responses",
            (b'data: {"type":"response.created"}\n\n', b'data: {"type":"response.completed"}\n\n'),
            b'response.completed"}\n\n',
        ),
    ],
)
@pytest.mark.parametrize("then", [silent, chatty])
def test_what_is_passed_through_is_logged_as_answered(
    gateway: Gateway,
    upstream: Upstream,
    path: str,
    said: Sequence[bytes],
    mark: bytes,
    then: Callable[[Call], None],
) -> None:
    upstream.plays(says(*said, then=then))
    _, line = leaves_at(gateway, mark, path=path)
    assert upstream.call().was_left()
    assert (line["outcome"], line["status"], line["path"]) == ("answered", 200, path)


@pytest.mark.parametrize("model", ["managed", "not-listed"])
@pytest.mark.parametrize("then", [Call.reset, silent], ids=["reset", "gap"])
def test_an_upstream_that_breaks_after_done_has_answered(
    remembering: Gateway, upstream: Upstream, model: str, then: Callable[[Call], object]
) -> None:
    upstream.plays(says(*SAID, DONE, then=then))
    with Client(remembering.port) as client:
        body = ask(client, model)
        answer = client.read()
    # A priced engine was asked for its usage, which this client did not ask for.
    sent = NO_DONE if model == "managed" else SAID
    assert answer.whole and answer.body == b"".join((*sent, DONE))
    assert line_of(remembering, answer)["outcome"] == "answered" and hit(remembering, upstream, body)


@pytest.mark.parametrize("model", ["managed", "not-listed"])
def test_a_stream_of_which_nothing_came_is_not_kept_and_fails_where_nothing_declares_its_end(
    remembering: Gateway, upstream: Upstream, model: str
) -> None:
    upstream.plays(says(then=lambda call: call.end()))
    with Client(remembering.port) as client:
        body = ask(client, model, logprobs=True)
        answer = client.read()
    assert answer.whole and answer.body == b""
    assert not hit(remembering, upstream, body)
    upstream.says(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    with Client(remembering.port) as client:
        body = ask(client, model, logprobs=True)
        answer = client.read()
    assert b'"error"' in answer.body and not answer.whole
    assert not hit(remembering, upstream, body)


@pytest.mark.parametrize("model", ["managed", "not-listed"])
def test_a_stream_with_one_choice_unfinished_fails_visibly(
    remembering: Gateway, upstream: Upstream, model: str
) -> None:
    upstream.plays(says(*NO_DONE, then=lambda call: call.end()))
    with Client(remembering.port) as client:
        body = ask(client, model, n=2, temperature=0)
        answer = client.read()
    assert b"terminal event" in answer.body and not answer.whole
    assert not hit(remembering, upstream, body)


@pytest.mark.parametrize("model", ["managed", "not-listed"])
def test_a_compressed_stream_that_was_cut_is_broken_off_and_not_kept(
    remembering: Gateway, upstream: Upstream, model: str
) -> None:
    packed = gzip.compress(b"".join(SAID[:2]))

    def script(call: Call) -> None:
        call.begin(headers=[("Content-Encoding", "gzip")])
        call.chunk(packed)
        call.end()

    upstream.plays(script)
    with Client(remembering.port) as client:
        body = ask(client, model, logprobs=True)
        answer = client.read()
    assert not answer.whole and answer.body == packed, "and no event of ours among compressed bytes"
    assert not hit(remembering, upstream, body)


@pytest.mark.parametrize("model", ["managed", "not-listed"])
@pytest.mark.parametrize("length", [True, False], ids=["length", "chunked"])
def test_a_whole_answer_that_only_calls_itself_an_event_stream_passes_as_it_came(
    remembering: Gateway, upstream: Upstream, model: str, length: bool
) -> None:
    said = b'{"object":"chat.completion","choices":[]}'

    def script(call: Call) -> None:
        if length:
            call.answer(said, headers=[("Content-Type", "text/event-stream")])
        else:
            call.begin()
            call.chunk(said)
            call.end()

    upstream.plays(script)
    with Client(remembering.port) as client:
        ask(client, model)
        answer = client.read()
    assert answer.whole and (answer.status, answer.body) == (200, said)


@pytest.mark.parametrize("model", ["managed", "not-listed"])
def test_a_short_stream_of_known_length_must_end_too(
    remembering: Gateway, upstream: Upstream, model: str
) -> None:
    upstream.plays(lambda call: call.answer(SAID[0], headers=[("Content-Type", "text/event-stream")]))
    with Client(remembering.port) as client:
        ask(client, model)
        answer = client.read()
    assert answer.status == 502 and answer.error()["code"] == "upstream_stream_broken"


def test_the_default_upstream_is_asked_once_when_its_stream_breaks(
    remembering: Gateway, upstream: Upstream
) -> None:
    upstream.plays(says(SAID[0], then=Call.reset))
    with Client(remembering.port) as client:
        ask(client, "not-listed")
        answer = client.read()
    assert b'"error"' in answer.body and not answer.whole
    assert len(upstream.calls) == 1


@pytest.mark.slow
def test_streams_read_with_the_python_sdk_are_remembered(remembering: Gateway, upstream: Upstream) -> None:
    """It leaves at [DONE]; the upstream's body ends 20 ms later."""
    openai = pytest.importorskip("openai")

    def lingers(call: Call) -> None:
        time.sleep(0.02)
        call.end()

    upstream.plays(says(*SAID, DONE, then=lingers))
    with openai.OpenAI(base_url=remembering.url, api_key="sk-test", max_retries=0) as client:
        for number in range(12):
            asked = [{"role": "user", "content": f"Number {number}?"}]
            first = client.chat.completions.create(model="managed", messages=asked, stream=True)
            assert next(iter(first)).choices[0].delta.role == "assistant" and list(first)
            remembering.wait_for_log(f'"request":"{first.response.headers["x-understudy-decision-id"]}"')
            again = client.chat.completions.with_raw_response.create(model="managed", messages=asked)
            assert "; hit" in again.headers["Cache-Status"]
