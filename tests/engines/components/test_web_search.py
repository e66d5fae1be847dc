"""A web search by URL template or JSON body, and JSON pointers."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from engines.components.component import ComponentError, SearchShape
from engines.components.registry import ComponentRegistry, over_http
from tests.engines.components.asking import spec, work
from tests.flow.upstream import Upstream

BRAVE = SearchShape("/web/results", ("/title", "/description"))


def registry(
    upstream: Upstream, shape: SearchShape = BRAVE, query: str = "?q={query}&count={k}"
) -> ComponentRegistry:
    made = spec(
        "search",
        f"{upstream.url}/search{query}",
        http={"headers": {"X-Subscription-Token": "t"}},
        search=shape,
    )
    return ComponentRegistry([over_http(made)])


def plays(upstream: Upstream, answer: Any) -> None:
    upstream.plays(lambda call: call.answer(json.dumps(answer).encode()))


async def test_texts_of_the_best_hits(upstream: Upstream) -> None:
    hits = [{"title": "A", "description": "one"}, {"title": "B"}, {"description": "three"}]
    plays(upstream, {"web": {"results": hits}})
    components = registry(upstream)
    query = "a&count=99#x\r\nHost: evil ö {k}"
    assert await components.search("c", query, 2, work()) == ["A\none", "B"]
    call = upstream.call()
    target = urlsplit(call.target.decode())
    assert target.path == "/v1/search" and parse_qsl(target.query) == [("q", query), ("count", "2")]
    assert call.method == "GET" and call.header("x-subscription-token") == "t"
    assert call.header("host") == f"127.0.0.1:{upstream.port}"
    assert components.effective_batch("c") == 1
    await components.aclose()


async def test_by_post(upstream: Upstream) -> None:
    plays(upstream, {"results": [{"content": "x"}]})
    body = {"query": "{query}", "max_results": "{k}", "deep": {"also {query}": ["{query}", True]}}
    components = registry(upstream, SearchShape("/results", ("/content",), body), query="")
    assert await components.search("c", 'q"{k}', 5, work()) == ["x"]
    call = upstream.call()
    assert call.json() == {"query": 'q"{k}', "max_results": 5, "deep": {"also {query}": ['q"{k}', True]}}
    await components.aclose()


async def test_no_hits_are_no_error(upstream: Upstream) -> None:
    plays(upstream, {"web": {"results": []}})
    components = registry(upstream)
    assert await components.search("c", "q", 2, work()) == []
    await components.aclose()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            {"web": {"results": [{"title": "A"}, {"url": "secret"}]}},
            "2 hits, and hit 2 has no text at /title or /desc",
        ),
        ({"web": {"results": [{"title": " "}]}}, "1 hits, and hit 1 has no text"),
        ({"web": {"results": [None]}}, "hit 1 has no text"),
        ({"web": {"results": {"a": 1}}}, "an object with a at /web/results, not an array"),
        ({"web": {}}, "nothing at /web/results: /web is an empty object"),
        ({"error": "secret"}, "nothing at /web/results: its root is an object with error"),
        ([], "its root is an array of 0"),
    ],
)
async def test_hits_without_text_say_what_came(upstream: Upstream, answer: Any, says: str) -> None:
    plays(upstream, answer)
    components = registry(upstream)
    with pytest.raises(ComponentError) as failed:
        await components.search("c", "q", 4, work())
    assert says in failed.value.message and "secret" not in failed.value.message
    await components.aclose()
