import asyncio
import json

import pytest
from multidict import CIMultiDict

from engines.engine import EngineInfo, EngineRequest
from simulation.engine import SimulatedEngine
from simulation.world import World

WORLD = World(facts=300)
FACT = WORLD.facts[0]
QUESTION = f"What is the {FACT.relation.nouns[0]} of {FACT.entity}?"


def engine(role="lead", *, capacity=4, pace=0.0, context_tokens=None, ttft_ms=100, token_ms=10, **more):
    info = EngineInfo("sim", model="sim-1", context_tokens=context_tokens)
    return SimulatedEngine(
        info, role=role, world=WORLD, ttft_ms=ttft_ms, token_ms=token_ms, capacity=capacity, pace=pace, **more
    )


def request(text=QUESTION, *, target="/chat/completions", method="POST", **fields):
    body = {"model": "any", "messages": [{"role": "user", "content": text}], **fields}
    return EngineRequest(method, target, CIMultiDict(), json.dumps(body).encode())


async def ask(sim, asked):
    async with sim.stream(asked) as reply:
        body = b"".join([chunk async for chunk in reply.chunks])
        return reply.status, reply.headers, body


async def events(sim, asked):
    status, headers, body = await ask(sim, asked)
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    *chunks, done, end = body.decode().split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [json.loads(c.removeprefix("data: ")) for c in chunks]


async def test_a_completion_has_openais_shape_and_says_it_is_simulated():
    status, headers, body = await ask(engine(), request())
    said = json.loads(body)
    assert status == 200
    assert headers["x-simulated"] == "true"
    assert int(headers["content-length"]) == len(body)
    assert (said["object"], said["model"], said["system_fingerprint"]) == (
        "chat.completion",
        "any",
        "simulated",
    )
    choice = said["choices"][0]
    assert (choice["index"], choice["message"]["role"], choice["finish_reason"]) == (0, "assistant", "stop")
    assert WORLD.grade(QUESTION, choice["message"]["content"]) == 1.0
    usage = said["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] > 5


async def test_a_stream_holds_a_role_the_same_words_an_end_and_no_usage_unless_asked():
    sim = engine()
    whole = json.loads((await ask(sim, request()))[2])["choices"][0]["message"]["content"]
    chunks = await events(sim, request(stream=True))
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks) == whole
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert [c["object"] for c in chunks] == ["chat.completion.chunk"] * len(chunks)
    assert len({c["id"] for c in chunks}) == 1
    assert not any("usage" in c for c in chunks)


async def test_a_stream_ends_with_usage_when_asked():
    chunks = await events(engine(), request(stream=True, stream_options={"include_usage": True}))
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert all(c["usage"] is None for c in chunks[:-1])


async def test_several_choices_come_back_whether_streamed_or_not():
    whole = json.loads((await ask(engine(), request(n=3)))[2])
    assert [c["index"] for c in whole["choices"]] == [0, 1, 2]
    chunks = await events(engine(), request(n=3, stream=True))
    for index in range(3):
        mine = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == index]
        said = "".join(c["delta"].get("content", "") for c in mine)
        assert said == whole["choices"][index]["message"]["content"]
        assert mine[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
async def test_an_answer_is_cut_at_the_asked_length(field):
    said = json.loads((await ask(engine(), request(**{field: 3})))[2])
    assert said["choices"][0]["finish_reason"] == "length"
    assert said["usage"]["completion_tokens"] <= 3
    chunks = await events(engine(), request(stream=True, **{field: 3}))
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


async def test_a_prompt_beyond_the_window_is_refused_in_openais_words():
    status, _, body = await ask(engine(context_tokens=50), request("word " * 200 + QUESTION))
    error = json.loads(body)["error"]
    assert status == 400
    assert (error["code"], error["type"], error["param"]) == (
        "context_length_exceeded",
        "invalid_request_error",
        "messages",
    )
    assert "50 tokens" in error["message"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"messages": []}', b'{"messages": "hi"}', b'{"messages": [1]}']
)
async def test_a_body_that_is_no_chat_is_refused(body):
    status, _, said = await ask(engine(), EngineRequest("POST", "/chat/completions", CIMultiDict(), body))
    assert status == 400
    assert json.loads(said)["error"]["type"] == "invalid_request_error"


async def test_models_are_listed_and_other_endpoints_are_not_there():
    status, _, body = await ask(engine(), EngineRequest("GET", "/models?limit=3", CIMultiDict(), b""))
    assert status == 200
    assert [m["id"] for m in json.loads(body)["data"]] == ["sim-1"]
    status, _, body = await ask(engine(), request(target="/embeddings"))
    assert status == 404
    assert "/embeddings" in json.loads(body)["error"]["message"]


async def entered(sim, inside, leave):
    async with sim.stream(request(stream=True)) as reply:
        inside.append(reply.status)
        await leave.wait()


async def settle(condition):
    while not condition():
        await asyncio.sleep(0)


async def test_more_requests_than_it_can_take_queue_in_order_of_arrival():
    sim, inside, order = engine(capacity=2), [], []

    async def visit(number, leave):
        async with sim.stream(request()):
            order.append(number)
            inside.append(number)
            await leave.wait()

    leaves = [asyncio.Event() for _ in range(5)]
    async with asyncio.TaskGroup() as group:
        for number, leave in enumerate(leaves):
            group.create_task(visit(number, leave))
        await settle(lambda: len(inside) == 2 and sim.load().queued == 3)
        assert (sim.load().in_flight, sim.load().capacity) == (2, 2)
        for number, leave in enumerate(leaves):
            leave.set()
            await settle(lambda n=number: len(inside) == min(5, n + 3))
    assert order == [0, 1, 2, 3, 4]
    assert (sim.load().in_flight, sim.load().queued) == (0, 0)


async def test_leaving_the_queue_the_wait_or_the_stream_frees_the_slot_at_once():
    sim = engine(capacity=1, pace=1e6)
    first = asyncio.create_task(entered(sim, [], asyncio.Event()))
    await settle(lambda: sim.load().in_flight == 1)
    queued = asyncio.create_task(entered(sim, [], asyncio.Event()))
    await settle(lambda: sim.load().queued == 1)
    queued.cancel()
    await asyncio.wait([queued])
    assert sim.load().queued == 0
    first.cancel()
    await asyncio.wait([first])
    assert sim.load().in_flight == 0

    sim = engine(capacity=1, ttft_ms=0, token_ms=1e9, pace=1)
    async with sim.stream(request(stream=True)) as reply:
        async for _ in reply.chunks:
            break
    assert sim.load().in_flight == 0


class Slept(SimulatedEngine):
    """Notes how long it would have slept."""

    async def _sleep(self, seconds):
        self.slept = [*getattr(self, "slept", []), seconds]


async def slept(pace=1.0, **fields):
    sim = Slept(
        EngineInfo("sim"),
        role="lead",
        world=WORLD,
        ttft_ms=200,
        token_ms=10,
        capacity=1,
        pace=pace,
        prefill_ms_per_ktok=1000,
        jitter=0,
    )
    _, _, body = await ask(sim, request(**fields))
    return sim.slept, body


async def test_times_follow_the_model_and_the_pace():
    whole, body = await slept()
    usage = json.loads(body)["usage"]
    expected = 0.2 + usage["prompt_tokens"] / 1000 + usage["completion_tokens"] * 0.01
    assert whole == [pytest.approx(expected)]
    streamed, _ = await slept(stream=True)
    assert sum(streamed) == pytest.approx(expected)
    assert len(streamed) > 1
    assert sum((await slept(pace=0.5))[0]) == pytest.approx(expected / 2)
    assert sum((await slept(pace=0))[0]) == 0


@pytest.mark.parametrize(
    ("name", "value"), [("capacity", 0), ("pace", -1), ("ttft_ms", -1), ("token_ms", -1)]
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"engine sim: .*{name}"):
        engine(**{name: value})


async def test_an_understudy_turns_bad_when_the_file_comes_and_a_lead_does_not(tmp_path):
    there = tmp_path / "turned-bad"
    understudy, lead = engine("understudy", turns_bad_at=there), engine(turns_bad_at=there)

    async def quality(sim):
        asked = [f"What is the {fact.relation.nouns[0]} of {fact.entity}?" for fact in WORLD.facts[:80]]
        said = [
            json.loads((await ask(sim, request(each)))[2])["choices"][0]["message"]["content"]
            for each in asked
        ]
        grades = [WORLD.grade([{"role": "user", "content": a}], s) for a, s in zip(asked, said, strict=True)]
        return sum(grades) / len(grades)

    before = await quality(understudy)
    there.touch()
    assert await quality(understudy) < before / 2
    assert await quality(lead) == 1.0
