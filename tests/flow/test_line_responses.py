"""`/v1/responses` over real sockets: what is remembered, who is asked, whose ids are, and what works after a hit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from learning.outcomes.judging import Judging
from store.people.limits import Budget, Limits, Terms
from tests.flow.line import Got, Line, Upstream, line, upstream
from tests.flow.responses_upstream import ResponsesUpstream
from tests.patience import PATIENCE_S, until

QUESTION = "How do I list all files in a directory on Linux, including hidden ones?"
ALIKE = "How can I list all files in a Linux directory, including the hidden ones?"


@dataclass
class Stage:
    """A gateway with a small and a large upstream behind it, and what they say."""

    gate: Line
    small: Upstream
    large: Upstream
    small_says: ResponsesUpstream
    large_says: ResponsesUpstream

    async def ask(self, given: Any, headers: dict[str, str] | None = None, **fields: Any) -> Got:
        return await self.gate.post("/responses", {"model": "gpt-4o", "input": given} | fields, headers)

    async def at(self, method: str, path: str, headers: dict[str, str] | None = None) -> Got:
        async with self.gate.session.request(method, self.gate.url + path, headers=headers) as response:
            return Got(response.status, response.headers.copy(), await response.read())

    def asked_of(self, upstream: Upstream, method: str = "/responses") -> list[dict[str, Any]]:
        return [one.json for one in upstream.asked if one.path.endswith(method) and one.body]


@asynccontextmanager
async def stage(data: Path, *, exact: bool = True, **more: Any) -> AsyncIterator[Stage]:
    async with upstream() as small, upstream() as large:
        says = ResponsesUpstream("small", "From the small one."), ResponsesUpstream("large", "Use ls -a.")
        small.script, large.script = says
        model = {"engines": ["small", "large"], "policy": "few_shot", "few_shot": {"theta": 0.8, "m": 1}}
        config = {
            "engines": {
                "small": {"base_url": small.url, "model": "small-model", "advanced": {"attempts": 1}}
                | more.pop("small", {}),
                "large": {"base_url": large.url, "advanced": {"attempts": 1}} | more.pop("large", {}),
            },
            "models": {"gpt-4o": model},
            "memory": {"data_dir": str(data), "exact": {"enabled": exact}} | more.pop("memory", {}),
        } | more
        async with line(config) as gate:
            yield Stage(gate, small, large, *says)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(tmp_path / "data") as made:
        yield made


def text(got: Got) -> str:
    output = got.json["output"] if got.body.startswith(b"{") else streamed(got)[-1]["response"]["output"]
    return str(output[0]["content"][0]["text"])


def streamed(got: Got) -> list[dict[str, Any]]:
    lines = got.body.decode().splitlines()
    found = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert [f"event: {one['type']}" for one in found] == [one for one in lines if one.startswith("event: ")]
    return found


async def test_a_repeat_is_answered_from_memory_with_the_upstreams_own_id(here: Stage) -> None:
    first = await here.ask(QUESTION, instructions="Be brief.", user="u1")
    again = await here.ask(QUESTION, instructions="Be brief.", user="u1")
    assert first.status == again.status == 200 and again.hit and again.body == first.body
    assert len(here.large.asked) == 1 and here.large.asked[0].path == "/v1/responses"
    stream = await here.ask(QUESTION, instructions="Be brief.", user="u1", stream=True)
    events = streamed(stream)
    assert stream.hit and [e["sequence_number"] for e in events] == list(range(len(events)))
    assert events[-1] == {"type": "response.completed", "response": first.json} | events[-1]
    assert "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta") == "Use ls -a."
    other = await here.ask(QUESTION, instructions="Be brief.", user="u2")
    assert not other.hit


async def test_a_stream_passes_as_it_came_and_is_remembered(here: Stage) -> None:
    got = await here.ask(QUESTION, stream=True)
    kinds = [e["type"] for e in streamed(got)]
    assert (
        "response.of_next_year" in kinds and kinds[-1] == "response.completed" and b"[DONE]" not in got.body
    )
    plain = await here.ask(QUESTION)
    assert plain.hit and plain.json == streamed(got)[-1]["response"]


async def test_a_broken_stream_ends_with_a_numbered_error_event(here: Stage) -> None:
    here.large_says.breaks = True
    body = {"model": "gpt-4o", "input": QUESTION, "stream": True}
    came = bytearray()
    with pytest.raises(aiohttp.ClientPayloadError):
        async with here.gate.session.post(here.gate.url + "/responses", json=body) as response:
            async for chunk in response.content.iter_any():
                came += chunk
    events = streamed(Got(200, {}, bytes(came)))
    assert events[-1]["type"] == "error" and events[-1]["code"] == "upstream_stream_broken"
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    here.large_says.breaks = False
    await here.gate.settled()
    assert not (await here.ask(QUESTION, stream=True)).hit


async def test_a_similar_request_goes_to_the_small_engine_with_the_example_as_input_items(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path / "data", exact=False) as here:
        await here.ask(QUESTION, instructions="Be brief.")
        got = await here.ask(ALIKE, instructions="Be brief.", temperature=0.5)
        assert got.headers["x-understudy-engine"] == "small" and got.headers["x-understudy-examples"] == "1"
        asked = here.asked_of(here.small)[0]
        assert asked == {
            "model": "small-model",
            "instructions": "Be brief.",
            "temperature": 0.5,
            "input": [
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "content": "Use ls -a."},
                {"role": "user", "content": ALIKE},
            ],
        }
        # What the upstream does not hold as the client asked it is kept here: read, listed, continued, deleted.
        id = got.json["id"]
        read = await here.at("GET", f"/responses/{id}")
        assert read.json == got.json
        listed = (await here.at("GET", f"/responses/{id}/input_items")).json["data"]
        assert [one["content"] for one in listed] == [[{"type": "input_text", "text": ALIKE}]]
        more = await here.ask("And in Windows?", previous_response_id=id)
        assert more.headers["x-understudy-engine"] == "large" and more.headers["x-understudy-examples"] == "0"
        sent = here.asked_of(here.large)[-1]
        assert "previous_response_id" not in sent and "instructions" not in sent
        asked, said, then = sent["input"]
        assert said == {"role": "assistant", "content": "From the small one."}
        assert [one["content"][0]["text"] for one in (asked, then)] == [ALIKE, "And in Windows?"]
        item = {"type": "item_reference", "id": got.json["output"][0]["id"]}
        await here.ask([{"role": "user", "content": ALIKE}, item, {"role": "user", "content": "And?"}])
        assert here.asked_of(here.large)[-1]["input"][1] == said
        assert (await here.at("POST", f"/responses/{id}/cancel")).status == 400
        replay = await here.at("GET", f"/responses/{id}?stream=true&starting_after=2")
        assert streamed(replay)[0]["sequence_number"] == 3
        assert (await here.at("DELETE", f"/responses/{id}")).json["deleted"] is True
        assert id not in here.small_says.stored
        assert (await here.at("GET", f"/responses/{id}")).status == 404


async def test_previous_response_id_works_after_a_hit_and_goes_where_the_state_is(here: Stage) -> None:
    first = await here.ask(QUESTION)
    assert (await here.ask(QUESTION)).hit
    more = await here.ask("And in Windows?", previous_response_id=first.json["id"])
    assert more.status == 200 and more.headers["x-understudy-engine"] == "large"
    assert here.asked_of(here.large)[-1]["previous_response_id"] == first.json["id"]
    again = await here.ask("And in Windows?", previous_response_id=first.json["id"])
    assert not again.hit and again.json["id"] != more.json["id"]
    assert (await here.at("DELETE", f"/responses/{first.json['id']}")).json["deleted"] is True
    after = await here.ask(QUESTION)
    assert not after.hit and after.json["id"] != first.json["id"]


@pytest.mark.parametrize(
    "more",
    [
        {"background": True},
        {"conversation": "conv_1"},
        {"prompt": {"id": "pmpt_1"}},
        {"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}]},
        {"input": [{"type": "item_reference", "id": "msg_1"}, {"role": "user", "content": "And?"}]},
    ],
    ids=["background", "conversation", "prompt", "hosted tool", "file", "item"],
)
async def test_what_depends_on_more_than_the_body_is_the_references_and_not_remembered(
    here: Stage, more: dict[str, Any]
) -> None:
    await here.ask(QUESTION)
    for _ in range(2):
        got = (
            await here.ask(**{"given": ALIKE} | more)
            if "input" not in more
            else await here.ask(more["input"])
        )
        assert got.status == 200 and not got.hit
        assert got.headers["x-understudy-engine"] == "large" and got.headers["x-understudy-examples"] == "0"
    rows = here.gate.gateway.memory.store.decisions.requests.recent(10)  # type: ignore[union-attr]
    assert [row.reason for row in rows][:2] == ["state", "state"] and rows[0].prompt_tokens == 7


async def test_calls_are_not_replayed_and_store_false_keeps_nothing(here: Stage) -> None:
    tools = [{"type": "function", "name": "weather", "parameters": {}}]
    for _ in range(2):
        got = await here.ask("Weather in Oslo?", tools=tools)
        assert not got.hit and got.json["output"][0]["type"] == "function_call"
    before = here.gate.gateway.memory.store.answers.exact.count("default")  # type: ignore[union-attr]
    for _ in range(2):
        assert not (await here.ask("What is six times seven?", store=False)).hit
    assert here.gate.gateway.memory.store.answers.exact.count("default") == before  # type: ignore[union-attr]


async def test_engines_that_do_not_speak_it_are_not_asked(tmp_path: Path) -> None:
    async with stage(tmp_path / "data", exact=False, small={"apis": ["completions"]}) as here:
        await here.ask(QUESTION)
        got = await here.ask(ALIKE)
        assert got.headers["x-understudy-engine"] == "large" and not here.small.asked


async def test_a_small_engine_of_another_api_answers_with_examples(tmp_path: Path) -> None:
    async with stage(tmp_path / "data", exact=False, small={"apis": ["chat"]}) as here:
        await here.ask(QUESTION)
        got = await here.ask(ALIKE)
        assert got.headers["x-understudy-engine"] == "small" and got.json["object"] == "response"
        assert int(got.headers["x-understudy-examples"]) > 0
        assert len(here.small.asked[-1].json["messages"]) > 1


async def test_answers_are_compared_in_their_own_api(tmp_path: Path) -> None:
    async with stage(
        tmp_path / "data",
        exact=False,
        judging={"engine": "large", "share_offloaded": 1.0, "advanced": {"share_reference": 0.0}},
    ) as here:
        here.small_says.says = here.large_says.says
        await here.ask(QUESTION, user="ann")
        got = await here.ask(ALIKE, user="ann")
        assert got.headers["x-understudy-engine"] == "small"
        (judging,) = here.gate.gateway.parts.owned(Judging)
        async with asyncio.timeout(PATIENCE_S):
            await judging.join()
        for asked in (here.asked_of(here.large)[-1], here.asked_of(here.small)[-1]):
            assert asked["input"] == ALIKE and asked["store"] is False and "user" not in asked


async def test_an_id_of_another_tenant_is_not_there(tmp_path: Path) -> None:
    listen = {"tenant_headers": ["Authorization"]}
    async with stage(tmp_path / "data", memory={"anonymous": False}, listen=listen) as here:
        ann, bob = ({"Authorization": f"Bearer {name}"} for name in ("ann", "bob"))
        first = await here.ask(QUESTION, ann)
        id = first.json["id"]
        before = len(here.large.asked)
        for got in (
            await here.at("GET", f"/responses/{id}", bob),
            await here.at("DELETE", f"/responses/{id}", bob),
            await here.at("GET", f"/responses/{id}/input_items", bob),
            await here.ask("And?", bob, previous_response_id=id),
        ):
            assert got.status == 404 and got.json["error"]["code"] == "response_not_found"
        assert len(here.large.asked) == before
        assert (await here.at("GET", f"/responses/{id}", ann)).json == first.json


async def test_with_keys_ids_are_their_tenants_and_limits_hold_in_this_apis_own_fields(
    tmp_path: Path,
) -> None:
    price = {"input_usd_per_mtok": 10.0, "cached_input_usd_per_mtok": 1.0, "output_usd_per_mtok": 100.0}
    async with stage(tmp_path / "data", exact=False, small={"price": price}, large={"price": price}) as here:
        assert here.gate.gateway.memory is not None
        store = here.gate.gateway.memory.store
        headers = []
        for tenant, name in (("acme", "one"), ("acme", "two"), ("beta", "three")):
            limits = Limits(max_output_tokens=50, budgets=(Budget(1.0, "day"),))
            _, secret = await asyncio.to_thread(store.keys.create, tenant, name, terms=Terms(limits=limits))
            await until(lambda secret=secret: store.keys.lookup(secret) is not None, "the key known")
            headers.append({"Authorization": f"Bearer {secret}"})
        one, two, three = headers
        first = await here.ask(QUESTION, one, user="ann")
        assert first.status == 200 and float(first.headers["x-understudy-cost"]) == pytest.approx(352e-6)
        assert here.asked_of(here.large)[-1]["max_output_tokens"] == 50
        assert (await here.ask(QUESTION, one, max_output_tokens=51)).status == 400
        offloaded = await here.ask(ALIKE, one, user="ann")
        assert offloaded.headers["x-understudy-engine"] == "small"
        asked = len(here.large.asked) + len(here.small.asked)
        for id in (first.json["id"], offloaded.json["id"]):
            assert (await here.at("GET", f"/responses/{id}", three)).status == 404
            assert (await here.at("DELETE", f"/responses/{id}", three)).status == 404
            assert (await here.ask("And?", three, previous_response_id=id)).status == 404
            assert (await here.ask("And?", one, previous_response_id=id, user="bob")).status == 404
        assert len(here.large.asked) + len(here.small.asked) == asked
        for id in (first.json["id"], offloaded.json["id"]):
            assert (await here.at("GET", f"/responses/{id}", two)).json["id"] == id
            more = await here.ask("And?", two, previous_response_id=id)
            assert more.status == 200 and more.headers["x-understudy-engine"] == "large"
            assert here.asked_of(here.large)[-1]["max_output_tokens"] == 50
        assert (await here.at("GET", "/responses/resp_that_nobody_noted", one)).status == 404
