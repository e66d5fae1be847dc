"""One URL of a component: bounded, without redirects, and what a value holds stays a value."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.components.component import ComponentError, OverHTTP
from engines.components.http import URLAsked, filled, split_url
from engines.errors import Kind
from tests.engines.asking import closed_port
from tests.engines.components.asking import limits
from tests.flow.upstream import Call, Upstream, waits

CANARY = "sk-canary-77"


@contextlib.asynccontextmanager
async def asked(url: str, http: dict[str, Any] | None = None, **changed: Any) -> AsyncIterator[URLAsked]:
    one = URLAsked("c", OverHTTP(url, **(http or {})), limits(**changed))
    try:
        yield one
    finally:
        await one.aclose()


async def refusal(one: URLAsked, **options: Any) -> ComponentError:
    with pytest.raises(ComponentError) as refused:
        await one.post({"a": 1}, **options)
    assert refused.value.component == "c" and CANARY not in str(refused.value)
    return refused.value


async def test_what_goes_out(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(b'{"ok": true}'))
    http = {"api_key": CANARY, "headers": {"X-Extra": "1"}}
    async with asked(f"{upstream.url}/tool/?key=of%20mine", http) as one:
        came = await one.post({"q": "ö\ud800"}, idempotency_key="run:step")
        assert await came.json("c") == {"ok": True}
    call = upstream.call().received()
    assert call.line == b"POST /v1/tool/?key=of%20mine HTTP/1.1"
    assert call.header("authorization") == f"Bearer {CANARY}" and call.header("x-extra") == "1"
    assert call.header("idempotency-key") == "run:step"
    assert call.json() == {"q": "ö?"}
    assert CANARY not in repr(OverHTTP("https://x", CANARY, {"X-Token": CANARY}))


async def test_a_redirect_is_not_followed(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(b"", 302, [("Location", "http://169.254.169.254/latest")]))
    async with asked(upstream.url) as one:
        assert "answered 302, and redirects are not followed" in str(await refusal(one))
    assert len(upstream.calls) == 1


async def test_an_answer_is_bounded_in_size_and_time(upstream: Upstream) -> None:
    def endless(call: Call) -> None:
        call.begin("application/json")
        with contextlib.suppress(OSError):
            while True:
                call.chunk(b" " * 10_000)

    upstream.plays(endless)
    async with asked(upstream.url, max_answer_bytes=50_000) as one:
        assert "more than 50000 bytes" in str(await refusal(one))
    upstream.plays(waits)
    async with asked(upstream.url, answer_s=0.2, attempts=1) as one:
        late = await refusal(one)
    assert late.kind is Kind.TIMEOUT_ANSWER and "0.2 s" in str(late)


async def test_what_is_over_at_the_next_try_is_tried_again_and_what_has_effects_is_not(
    upstream: Upstream,
) -> None:
    def second(call: Call) -> None:
        if len(upstream.calls) % 2:
            call.answer(CANARY.encode(), 500)
        else:
            call.answer(b"{}")

    upstream.plays(second)
    async with asked(upstream.url) as one:
        await one.post({})
        assert len(upstream.calls) == 2
        assert (await refusal(one, once=True)).kind is Kind.SERVER
        assert len(upstream.calls) == 3
    async with asked(f"http://127.0.0.1:{closed_port()}") as one:
        assert (await refusal(one, once=True)).kind is Kind.CONNECT


async def test_a_body_that_breaks_off_is_asked_for_again(upstream: Upstream) -> None:
    def breaks(call: Call) -> None:
        if len(upstream.calls) == 1:
            call.begin("application/json")
            call.chunk(b'{"a')
            call.reset()
        else:
            call.answer(b'{"a": 1}')

    upstream.plays(breaks)
    async with asked(upstream.url) as one:
        assert await (await one.post({})).json("c") == {"a": 1}


async def test_a_rate_limit_is_waited_for(upstream: Upstream) -> None:
    def limited(call: Call) -> None:
        if len(upstream.calls) < 3:
            call.answer(b"", 429, [("retry-after-ms", "30")])
        else:
            call.answer(b"{}")

    upstream.plays(limited)
    async with asked(upstream.url) as one:
        await one.post({})
    assert len(upstream.calls) == 3


async def test_one_that_keeps_failing_is_left_alone(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(b"", 500))
    async with asked(upstream.url, breaker_failures=2, attempts=1) as one:
        for _ in range(2):
            assert (await refusal(one)).kind is Kind.SERVER
        left_alone = await refusal(one)
    assert left_alone.kind is Kind.OPEN and left_alone.retry_after_s and len(upstream.calls) == 2


async def test_who_leaves_closes_the_connection(upstream: Upstream) -> None:
    upstream.plays(waits)
    async with asked(upstream.url) as one:
        task = asyncio.create_task(one.post({}))
        call = await asyncio.to_thread(upstream.call)
        task.cancel()
        assert await asyncio.to_thread(call.was_left)


async def test_no_json_and_a_strange_encoding_are_said(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(b"<html>"))
    async with asked(upstream.url) as one:
        with pytest.raises(ComponentError, match="6 bytes that are no JSON"):
            await (await one.post({})).json("c")
        upstream.plays(lambda call: call.answer(b"x", 200, [("Content-Encoding", "br")]))
        assert "encoding" in str(await refusal(one))


@pytest.mark.parametrize(
    ("url", "base", "target"),
    [
        ("https://h", "https://h", ""),
        ("https://h/", "https://h", ""),
        ("https://h:1/a/", "https://h:1/a", "/"),
        ("https://h/a?q={query}&n={k}", "https://h/a", "?q={query}&n={k}"),
    ],
)
def test_a_url_is_taken_apart(url: str, base: str, target: str) -> None:
    assert split_url(url) == (base, target)


@pytest.mark.parametrize(
    "url",
    (
        *("ftp://h", "h/a", "https://{query}/a", "https://h/{query}", "https://u:p@h/a", "https://h/a#b"),
        *("https://h/?{query}=1", "https://h/?q={secret}", "https://h/?q={"),
    ),
)
def test_a_url_that_cannot_be_says_why(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        split_url(url)


@given(st.text(), st.text())
def test_a_value_stays_the_value_it_is(query: str, further: str) -> None:
    target = filled("/a?q={query}&fixed=1&k={k}", {"query": query, "k": further})
    path, _, held = target.partition("?")
    expected = [("q", query), ("fixed", "1"), ("k", further)]
    assert path == "/a" and target.isascii()
    assert parse_qsl(held, keep_blank_values=True, errors="strict") == expected
