"""Embeddings of an OpenAI-compatible API: in the texts' order, and what is none says what came."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from typing import Any

import numpy as np
import pytest

from engines.components.component import ComponentError
from engines.components.registry import ComponentRegistry, over_http
from tests.engines.components.asking import limits, spec, work
from tests.flow.upstream import Call, Upstream


def registry(upstream: Upstream, batch: int = 8, **http: Any) -> ComponentRegistry:
    made = spec("openai", upstream.url, http={"model": "m", **http}, limits=limits(batch=batch))
    return ComponentRegistry([over_http(made)])


def embedding(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.5]


def answers(call: Call) -> None:
    data = [{"index": n, "embedding": embedding(text)} for n, text in enumerate(call.json()["input"])]
    # In another order: the index counts.
    call.answer(json.dumps({"data": data[::-1]}).encode())


async def test_texts_of_several_runs_share_a_request(upstream: Upstream) -> None:
    upstream.plays(answers)
    components = registry(upstream, dimensions=3)
    first, second = await asyncio.gather(
        components.embed("c", ["a", "bb"], work("r1")), components.embed("c", ["ccc"], work("r2"))
    )
    assert first.dtype == np.float32 and first.tolist() == [[1, 1, 0.5], [2, 1, 0.5]]
    assert second.tolist() == [[3, 1, 0.5]]
    call = upstream.call()
    assert call.line == b"POST /v1/embeddings HTTP/1.1"
    assert call.json() == {
        "input": ["a", "bb", "ccc"],
        "encoding_format": "base64",
        "model": "m",
        "dimensions": 3,
    }
    assert (await components.embed("c", [], work())).shape == (0, 0)
    assert components.identity("c").endswith("m 3") and components.effective_batch("c") == 8
    await components.aclose()


async def test_several_servers_share_the_requests_and_one_that_is_down_is_passed_by(
    upstream: Upstream,
) -> None:
    other = Upstream()
    try:
        for server in (upstream, other):
            server.plays(answers)
        components = registry(upstream, batch=1, model="m", further_urls=(other.url,))
        assert [server.name for server in components.probed] == [
            f"127.0.0.1:{server.port}" for server in (upstream, other)
        ]
        texts = ["a" * n for n in range(1, 9)]
        assert [row[0] for row in (await components.embed("c", texts, work())).tolist()] == list(range(1, 9))
        assert len(upstream.calls) >= 2 and len(other.calls) >= 2
        assert len(upstream.calls) + len(other.calls) == 8
        other.close()
        assert [row[0] for row in (await components.embed("c", texts, work())).tolist()] == list(range(1, 9))
        await components.aclose()
    finally:
        other.close()


async def test_a_large_answer_is_read_too(upstream: Upstream) -> None:
    def many(call: Call) -> None:
        data = [{"embedding": [1.0] * 2000} for _ in call.json()["input"]]
        call.answer(json.dumps({"data": data}).encode())

    upstream.plays(many)
    components = registry(upstream, batch=32)
    assert (await components.embed("c", ["x" * 5000] * 32, work())).shape == (32, 2000)
    await components.aclose()


def packed(numbers: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


async def test_vectors_may_come_packed_or_as_numbers(upstream: Upstream) -> None:
    data = [{"embedding": packed([1.0, 2.0])}, {"embedding": [3, 4.0]}]
    upstream.plays(lambda call: call.answer(json.dumps({"data": data}).encode()))
    components = registry(upstream)
    assert (await components.embed("c", ["a", "b"], work())).tolist() == [[1, 2], [3, 4]]
    await components.aclose()


ROW = {"embedding": [1.0, 2.0, 3.0]}


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"data": [ROW]}, "1 embeddings for 2 texts"),
        ({"data": [ROW, ROW, ROW]}, "3 embeddings for 2 texts"),
        ({"data": [ROW, {"embedding": [1.0]}]}, "of 1 and of 3 numbers"),
        ({"data": [{"embedding": [1.0, 2.0]}] * 2}, "of 2 numbers; 3 are due"),
        ({"data": [{**ROW, "index": 0}] * 2}, "index"),
        ({"data": [{**ROW, "index": 7}, ROW]}, "index"),
        ({"data": [ROW, {"embedding": [1.0, "2", 3.0]}]}, "finite numbers"),
        ({"data": [ROW, {"embedding": [1e300, 1.0, 1.0]}]}, "finite numbers"),
        ({"data": [ROW, {"embedding": [0.0, 0.0, 0.0]}]}, "zeros"),
        ({"data": [ROW, {"embedding": "AAAA"}]}, "finite numbers"),
        ({"data": [ROW, {"embedding": "AAAAAAA"}]}, "finite numbers"),
        ({"data": [ROW, {"embedding": packed([1.0, float("nan"), 1.0])}]}, "finite numbers"),
        ({"data": [ROW, {"embedding": packed([1.0])}]}, "of 1 and of 3 numbers"),
        ({"data": [ROW, {"embedding": {}}]}, "an empty object as an embedding"),
        ({"data": [ROW, None]}, "null as an embedding"),
        ({"error": "secret"}, "an object with error, without an array `data`"),
        ([], "an array of 0"),
    ],
)
async def test_what_is_no_embedding_says_what_came(upstream: Upstream, answer: Any, says: str) -> None:
    upstream.plays(lambda call: call.answer(json.dumps(answer).encode()))
    components = registry(upstream, dimensions=3)
    with pytest.raises(ComponentError) as failed:
        await components.embed("c", ["a", "b"], work())
    assert says in failed.value.message and "secret" not in failed.value.message
    await components.aclose()


async def test_without_dimensions_the_first_answer_tells_what_is_due(upstream: Upstream) -> None:
    upstream.plays(answers)
    components = registry(upstream)
    await components.embed("c", ["a"], work())
    upstream.plays(lambda call: call.answer(b'{"data": [{"embedding": [1.0]}]}'))
    with pytest.raises(ComponentError, match="of 1 numbers; 3 are due"):
        await components.embed("c", ["a"], work())
    await components.aclose()


async def test_a_text_that_is_refused_does_not_fail_another_run(upstream: Upstream) -> None:
    def choosy(call: Call) -> None:
        if "bad" in call.json()["input"]:
            call.answer(b'{"error": {"message": "too long"}}', 400)
        else:
            answers(call)

    upstream.plays(choosy)
    components = registry(upstream)
    good, bad = await asyncio.gather(
        components.embed("c", ["a"], work("r1")),
        components.embed("c", ["bad"], work("r2")),
        return_exceptions=True,
    )
    assert isinstance(good, np.ndarray) and isinstance(bad, ComponentError)
    assert "status 400" in bad.message
    await components.aclose()
