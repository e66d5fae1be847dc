"""A test of an engine times its health check and its answer, and tells neither key nor content."""

from __future__ import annotations

import json

from tests.engines.asking import closed_port
from tests.flow.line import completion
from tests.flow.upstream import Call, Upstream
from understudy.settings.config import Config
from understudy.settings.file import parse_config
from understudy.trying_engines import tried


def config(port: int, **more: object) -> Config:
    engine = {"base_url": f"http://127.0.0.1:{port}/v1", "model": "m", "api_key": "our-own-house-key", **more}
    return parse_config({"engines": {"large": engine}, "models": {"demo": {"engines": ["large"]}}})


async def test_both_are_timed_and_what_it_cost_is_told() -> None:
    upstream = Upstream()
    upstream.plays(lambda call: call.answer(json.dumps(completion("OK.")).encode()))
    price = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}
    try:
        (one,) = await tried(config(upstream.port, price=price), "large")
    finally:
        upstream.close()
    assert one.good and one.said.startswith("answered in")
    assert one.health_ms is not None and one.answer_ms is not None and one.cost_usd > 0 < one.prompt_tokens


async def test_one_without_a_model_of_its_own_is_asked_for_one_that_it_serves() -> None:
    asked: list[str] = []

    def answers(call: Call) -> None:
        if call.body:
            asked.append(json.loads(call.body)["model"])
        call.answer(json.dumps(completion("OK.")).encode())

    upstream = Upstream()
    upstream.plays(answers)
    try:
        (one,) = await tried(config(upstream.port, model=None), "large")
    finally:
        upstream.close()
    assert one.good and asked == ["demo"]


async def test_what_fails_is_told_with_its_reason_and_without_the_key() -> None:
    (gone,) = await tried(config(closed_port()), "large")
    assert not gone.good and "refused" in gone.said and gone.answer_ms is None

    def refuses(call: Call) -> None:
        ok = call.line.startswith(b"GET")
        call.answer(b'{"error":{"message":"no our-own-house-key"}}', 200 if ok else 401)

    upstream = Upstream()
    upstream.plays(refuses)
    try:
        (one,) = await tried(config(upstream.port), "large")
    finally:
        upstream.close()
    assert not one.good and "refused 401" in one.said and "house-key" not in one.said
    assert one.health_ms is not None and one.cost_usd == 0


async def test_an_engine_that_is_sent_its_clients_keys_is_not_asked_further() -> None:
    upstream = Upstream()
    upstream.plays(lambda call: call.answer(b"{}"))
    engine = {
        "base_url": f"http://127.0.0.1:{upstream.port}/v1",
        "advanced": {"forwards_client_key": True, "attempts": 1},
    }
    made = parse_config({"engines": {"large": engine}, "models": {"demo": {"engines": ["large"]}}})
    try:
        (one,) = await tried(made, "large")
    finally:
        upstream.close()
    assert one.good and one.answer_ms is None and "own keys" in one.said
