"""Answers of many providers over real sockets: each is remembered, loses nothing in a replay either way, and is booked as
due."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from tests.flow.line import Asked, Got, Line, Upstream, line, upstream
from tests.flow.providers.merged import merged, missing
from tests.flow.providers.shapes import SHAPES, Event, Says, Shape, anthropic, openai

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRICE = {
    "input_usd_per_mtok": 3,
    "output_usd_per_mtok": 15,
    "cached_input_usd_per_mtok": 0.3,
    "advanced": {"cache_write_usd_per_mtok": 3.75},
}
APIS = ["chat", "completions", "messages"]
REASONS = ["eos", "end_turn", "stop_sequence", "COMPLETE"]
_questions = itertools.count()


def due_usd(prompt: int, completion: int, cached: int, written: int) -> float:
    """What these tokens cost."""
    return ((prompt - cached - written) * 3 + completion * 15 + cached * 0.3 + written * 3.75) / 1e6


@dataclass
class Provided:
    """A gateway before a provider that always answers in one shape."""

    gate: Line
    behind: Upstream

    async def ask(self, shape: Shape, question: str, *, stream: bool) -> Got:
        """Ask as an SDK does that wants its usage."""
        self.behind.script = _script(shape)
        said = {"prompt": question} if shape.api == "completions" else _messages(question)
        body = {"model": "m", "max_tokens": 500, "temperature": 0} | said | shape.asked | {"stream": stream}
        if stream and shape.api != "messages":
            body["stream_options"] = {"include_usage": True}
        got = await self.gate.post(shape.path, body, {"Authorization": "Bearer sk-one"})
        assert got.status == 200, got.body
        return got

    async def usage(self, got: Got) -> dict[str, Any]:
        """What the request cost, as its client is told."""
        url = f"{self.gate.url}/usage/{got.headers['x-understudy-decision-id']}"
        async with self.gate.session.get(url, headers={"Authorization": "Bearer sk-one"}) as response:
            assert response.status == 200
            found: dict[str, Any] = await response.json()
            return found

    async def remembered(self, result: str) -> float:
        """How many answers the metrics count so."""
        async with self.gate.session.get(self.gate.url.removesuffix("/v1") + "/metrics") as response:
            text = await response.text()
        counted = [
            row
            for row in text.splitlines()
            if row.startswith("understudy_remembered_total{") and result in row
        ]
        return sum(float(row.split()[-1]) for row in counted)


def _messages(question: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}]}


def _script(shape: Shape) -> Any:
    async def answers(request: web.Request, asked: Asked) -> web.StreamResponse:
        if not asked.json.get("stream"):
            return web.json_response(shape.whole)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in shape.body():
            await response.write(event)
        return response

    return answers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provided(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Provided]:
    folder: Path = tmp_path_factory.mktemp("providers")
    async with upstream() as behind:
        engine = {"base_url": behind.url, "api_key": "none", "apis": APIS, "price": PRICE}
        memory = {
            "data_dir": str(folder),
            "examples": {"enabled": False},
            "advanced": {"exact_tool_calls": True},
        }
        config = {"engines": {"one": engine}, "models": {"m": {"engines": ["one"]}}, "memory": memory}
        async with line(config) as gate:
            yield Provided(gate, behind)


def usage_of(answer: dict[str, Any]) -> Any:
    """The usage that stands where clients look for it."""
    return answer.get("usage") or answer["choices"][-1].get("usage")


def without_usage(answer: dict[str, Any]) -> dict[str, Any]:
    """The rest of an answer: usage may be repeated where the API has it."""
    rest = {name: value for name, value in answer.items() if name != "usage"}
    choices = answer.get("choices") or ()
    return rest | {"choices": [{n: v for n, v in choice.items() if n != "usage"} for choice in choices]}


def new_question() -> str:
    return f"Question {next(_questions)}?"


every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


@every_shape
async def test_a_stream_is_remembered_and_repeats_as_the_same_stream(
    provided: Provided, shape: Shape
) -> None:
    question = new_question()
    first = await provided.ask(shape, question, stream=True)
    again = await provided.ask(shape, question, stream=True)
    assert not first.hit and first.body == b"".join(shape.body())
    assert again.hit
    said, repeated = merged(first.body, shape.api), merged(again.body, shape.api)
    assert usage_of(repeated), "wherever it was told"
    assert missing(without_usage(said), without_usage(repeated)) == []
    assert missing(without_usage(repeated), without_usage(said)) == [], "a replay says nothing else"


@every_shape
async def test_a_stream_repeats_in_one_piece_with_all_that_was_said(provided: Provided, shape: Shape) -> None:
    question = new_question()
    await provided.ask(shape, question, stream=True)
    again = await provided.ask(shape, question, stream=False)
    assert again.hit
    assert missing(shape.whole, again.json) == []
    assert again.json["id"] and again.json["model"] and again.json.get("created", 1)


@every_shape
async def test_an_answer_in_one_piece_repeats_as_a_stream_of_all_that_was_said(
    provided: Provided, shape: Shape
) -> None:
    question = new_question()
    first = await provided.ask(shape, question, stream=False)
    plain = await provided.ask(shape, question, stream=False)
    again = await provided.ask(shape, question, stream=True)
    assert not first.hit and plain.hit and plain.json == shape.whole
    assert again.hit
    due = shape.whole | ({} if shape.api != "chat" else {"object": "chat.completion.chunk"})
    assert missing(due, merged(again.body, shape.api)) == []


@every_shape
async def test_what_is_due_is_booked(provided: Provided, shape: Shape) -> None:
    due = due_usd(*shape.due)
    plain = await provided.ask(shape, new_question(), stream=False)
    assert float(plain.headers["x-understudy-cost"]) == pytest.approx(due, abs=1e-9)
    for got in (plain, await provided.ask(shape, new_question(), stream=True)):
        booked = await provided.usage(got)
        assert booked["cost_usd"] == pytest.approx(due, abs=1e-9), booked


async def test_no_two_shapes_have_one_name() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 12


# ---- what no provider's shape holds alone

SAYS = Says("c-1", "m")
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


def changed(*stream: Event, name: str = "changed") -> Shape:
    return replace(openai(), name=name, stream=stream)


def call(id: str, name: str, arguments: str, index: int | None = 0) -> dict[str, Any]:
    made = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return made if index is None else {"index": index} | made


async def both_ways(provided: Provided, shape: Shape) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the repeat in one piece, the repeat as a stream): both are hits."""
    question = new_question()
    await provided.ask(shape, question, stream=True)
    plain = await provided.ask(shape, question, stream=False)
    streamed = await provided.ask(shape, question, stream=True)
    assert plain.hit and streamed.hit
    return plain.json, merged(streamed.body, shape.api)


@pytest.mark.parametrize("index", [0, None], ids=["index 0", "no index"])
async def test_a_new_id_at_a_known_index_begins_a_new_call(provided: Provided, index: int | None) -> None:
    at: dict[str, Any] = {} if index is None else {"index": index}
    shape = changed(
        SAYS({"role": "assistant", "tool_calls": [call("a", "f", '{"x":', index)]}),
        SAYS({"tool_calls": [at | {"function": {"arguments": "1}"}}]}),
        SAYS({"tool_calls": [call("b", "g", '{"y":2}', index)]}),
        SAYS({}, "tool_calls"),
        SAYS(usage=USAGE),
    )
    for answer in await both_ways(provided, shape):
        calls = answer["choices"][0]["message"]["tool_calls"]
        assert [(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in calls] == [
            ("a", "f", '{"x":1}'),
            ("b", "g", '{"y":2}'),
        ]


async def test_calls_keep_the_unknown_members_they_came_with(provided: Provided) -> None:
    signed = {"extra_content": {"google": {"thought_signature": "CpcG"}}}
    shape = changed(
        SAYS({"role": "assistant", "tool_calls": [call("a", "f", "{}") | signed]}),
        SAYS({}, "tool_calls"),
        SAYS(usage=USAGE),
    )
    for answer in await both_ways(provided, shape):
        assert answer["choices"][0]["message"]["tool_calls"][0]["extra_content"] == signed["extra_content"]


@pytest.mark.parametrize("reason", REASONS)
async def test_a_providers_own_word_for_stop_is_one(provided: Provided, reason: str) -> None:
    shape = changed(SAYS({"role": "assistant", "content": "Hi"}), SAYS({}, reason), SAYS(usage=USAGE))
    for answer in await both_ways(provided, shape):
        assert answer["choices"][0]["finish_reason"] == reason


async def test_of_unknown_members_the_last_value_that_is_not_null_is_repeated_and_lists_are_appended(
    provided: Provided,
) -> None:
    shape = changed(
        SAYS({"role": "assistant", "content": "Hi"}, None, {"foo": 1, "seen": ["a"], "at": {"x": 1}}, late=1),
        SAYS({"content": "!"}, None, {"foo": 2, "seen": ["b"], "at": {"y": 2}}, late=2, notes=[1]),
        SAYS({}, "stop", {"foo": None, "seen": None}, late=None),
        SAYS(usage=USAGE, notes=[2]),
    )
    for answer in await both_ways(provided, shape):
        choice = answer["choices"][0]
        assert (choice["foo"], choice["seen"], answer["late"], answer["notes"]) == (2, ["a", "b"], 2, [1, 2])
        assert choice["at"] == {"x": 1, "y": 2} and choice["message"]["content"] == "Hi!"


async def test_a_null_member_is_not_unknown(provided: Provided) -> None:
    nulls = {"brand_new": None, "other_new": None}
    shape = changed(
        SAYS({"role": "assistant", "content": "Hi"} | nulls, None, nulls, **nulls),
        SAYS(nulls, "stop", nulls, **nulls),
        SAYS(usage=USAGE),
    )
    for answer in await both_ways(provided, shape):
        assert answer["choices"][0]["message"]["content"] == "Hi"


async def test_pictures_in_a_stream_are_repeated(provided: Provided) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}, "index": 0}
    shape = changed(
        SAYS({"role": "assistant", "content": "", "images": [picture]}), SAYS({}, "stop"), SAYS(usage=USAGE)
    )
    for answer in await both_ways(provided, shape):
        assert answer["choices"][0]["message"]["images"] == [picture]


@pytest.mark.parametrize("place", ["choice", "delta", "top"])
async def test_what_cannot_be_merged_is_not_remembered_and_is_named(provided: Provided, place: str) -> None:
    name = f"shifty_{place}"
    pieces: list[dict[str, Any]] = [{name: 1}, {name: {"a": 2}}]
    stream = [
        SAYS(
            {"role": "assistant", "content": f"{n}"} | (piece if place == "delta" else {}),
            None,
            piece if place == "choice" else {},
            **(piece if place == "top" else {}),
        )
        for n, piece in enumerate(pieces)
    ]
    shape = changed(*stream, SAYS({}, "stop"), SAYS(usage=USAGE))
    question, before = new_question(), await provided.remembered(f"unmergeable:{name}")
    await provided.ask(shape, question, stream=True)
    assert not (await provided.ask(shape, question, stream=True)).hit
    assert await provided.remembered(f"unmergeable:{name}") > before


async def test_an_answer_of_which_the_end_never_came_is_not_remembered(provided: Provided) -> None:
    shape = changed(SAYS({"role": "assistant", "content": "Hi"}), SAYS(usage=USAGE))
    question = new_question()
    await provided.ask(shape, question, stream=True)
    assert not (await provided.ask(shape, question, stream=True)).hit


async def test_messages_repeat_without_what_only_the_stream_needs(provided: Provided) -> None:
    question, shape = new_question(), anthropic()
    await provided.ask(shape, question, stream=True)
    again = await provided.ask(shape, question, stream=False)
    assert again.hit and again.json == shape.whole
