"""/rerank as vLLM, Cohere and Jina answer it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from engines.components.component import ComponentError
from engines.components.registry import ComponentRegistry, over_http
from tests.engines.components.asking import limits, spec, work
from tests.flow.upstream import Call, Upstream


def registry(upstream: Upstream, batch: int = 8) -> ComponentRegistry:
    made = spec("rerank", f"{upstream.url}/rerank", http={"model": "m"}, limits=limits(batch=batch))
    return ComponentRegistry([over_http(made)])


def scored(call: Call) -> list[dict[str, Any]]:
    """Longer texts are better; best first, as all of them answer."""
    texts = call.json()["documents"]
    found = [{"index": n, "relevance_score": len(text) / 10} for n, text in enumerate(texts)]
    return sorted(found, key=lambda each: -each["relevance_score"])


def vllm(call: Call) -> Any:
    texts = call.json()["documents"]
    results = [
        {**each, "document": {"text": texts[each["index"]], "multi_modal": None}} for each in scored(call)
    ]
    return {
        "id": "rerank-1",
        "model": "m",
        "usage": {"prompt_tokens": 9, "total_tokens": 9},
        "results": results,
    }


def cohere(call: Call) -> Any:
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    return {"results": scored(call), "id": "07734bd2", "meta": meta}


def jina(call: Call) -> Any:
    texts = call.json()["documents"]
    results = [{**each, "document": {"text": texts[each["index"]]}} for each in scored(call)]
    return {"model": "jina-reranker-v3", "object": "list", "usage": {"total_tokens": 9}, "results": results}


@pytest.mark.parametrize("shape", [vllm, cohere, jina])
async def test_scores_come_in_the_order_of_the_texts(
    upstream: Upstream, shape: Callable[[Call], Any]
) -> None:
    upstream.plays(lambda call: call.answer(json.dumps(shape(call)).encode()))
    components = registry(upstream)
    assert await components.rerank("c", "why?", ["a", "ccc", "bb"], work()) == [0.1, 0.3, 0.2]
    call = upstream.call()
    assert call.line == b"POST /v1/rerank HTTP/1.1"
    asked = {"query": "why?", "documents": ["a", "ccc", "bb"], "top_n": 3, "model": "m"}
    assert call.json() == asked
    await components.aclose()


async def test_a_request_has_one_query_and_pieces_with_the_same_share_it(upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(json.dumps(cohere(call)).encode()))
    components = registry(upstream)
    found = await asyncio.gather(
        components.rerank("c", "q1", ["a"], work("r1")),
        components.rerank("c", "q2", ["bb"], work("r2")),
        components.rerank("c", "q1", ["ccc"], work("r1")),
    )
    assert found == [[0.1], [0.2], [0.3]]
    asked = sorted((call.json()["query"], call.json()["documents"]) for call in upstream.calls)
    assert asked == [("q1", ["a", "ccc"]), ("q2", ["bb"])]
    await components.aclose()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"results": [{"index": 0, "relevance_score": 1}]}, "1 scores for 2 texts"),
        ({"results": [{"index": 0, "relevance_score": 1}] * 2}, "index"),
        ({"results": [{"index": 2, "relevance_score": 1}] * 2}, "index"),
        ({"results": [{"index": True, "relevance_score": 1}] * 2}, "index"),
        (
            {"results": [{"index": 0, "relevance_score": "1"}] * 2},
            "a text of 1 characters as `relevance_score`",
        ),
        ({"results": [{"index": 0, "relevance_score": None}] * 2}, "null as `relevance_score`"),
        ({"results": [1, 2]}, "index"),
        ({"data": []}, "an object with data, without an array `results`"),
        ("no", "a text of 2 characters"),
    ],
)
async def test_what_is_no_ranking_says_what_came(upstream: Upstream, answer: Any, says: str) -> None:
    upstream.plays(lambda call: call.answer(json.dumps(answer).encode()))
    components = registry(upstream)
    with pytest.raises(ComponentError) as failed:
        await components.rerank("c", "q", ["a", "b"], work())
    assert says in failed.value.message
    await components.aclose()


async def test_one_query_that_fails_leaves_the_other(upstream: Upstream) -> None:
    def choosy(call: Call) -> None:
        if call.json()["query"] == "bad":
            call.answer(b"{}", 422)
        else:
            call.answer(json.dumps(jina(call)).encode())

    upstream.plays(choosy)
    components = registry(upstream)
    good, bad = await asyncio.gather(
        components.rerank("c", "good", ["a"], work("r1")),
        components.rerank("c", "bad", ["a"], work("r2")),
        return_exceptions=True,
    )
    assert good == [0.1] and isinstance(bad, ComponentError) and "422" in bad.message
    await components.aclose()
