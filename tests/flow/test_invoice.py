"""The invoice: usage as APIs and providers tell it is booked to the billionth of a dollar, or is `unpriced`; what flowed
before a client left is never booked as nothing. Through every door, over real sockets."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from engines.chat import CHARACTERS_PER_TOKEN
from store.records import RequestRecord
from tests.flow.invoice.answers import (
    DONE,
    HEAD,
    LEFT,
    TEXT,
    Left,
    Piece,
    asked_of,
    path_of,
    sse,
    streamed,
    whole,
    whole_of,
)
from tests.flow.invoice.told import TOLD, UNREADABLE, Due, Told
from tests.flow.line import Asked, Got, Line, Upstream, line, upstream
from tests.flow.test_line_limits import budget, make
from tests.patience import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

PRICE = {
    "input_usd_per_mtok": 3,
    "output_usd_per_mtok": 15,
    "cached_input_usd_per_mtok": 0.3,
    "advanced": {"cache_write_usd_per_mtok": 3.75},
}
DEAR = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 100}
APIS = ["chat", "completions", "responses", "messages", "embeddings"]
DOORS = {"pipeline": "m", "default upstream": "elsewhere"}
"""The model that is asked for, to come in by each."""
KEY = {"Authorization": "Bearer sk-one"}
_questions = itertools.count()


def usd(prompt: int, completion: int, cached: int = 0, written: int = 0) -> float:
    """What these tokens cost."""
    return ((prompt - cached - written) * 3 + completion * 15 + cached * 0.3 + written * 3.75) / 1e6


def exactly(dollars: float) -> Any:
    return pytest.approx(dollars, abs=1e-9, rel=0)


@dataclass
class Shop:
    """A gateway and the one upstream behind all of its engines."""

    gate: Line
    behind: Upstream

    def answers(self, plain: Any, events: Sequence[bytes] = ()) -> None:
        """From now on everything is answered so, whole or as a stream."""

        async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
            if not asked.json.get("stream"):
                return web.json_response(plain)
            response = await _begun(request)
            for event in events:
                await response.write(event)
            return response

        self.behind.script = script

    async def ask(self, api: str, model: str, *, stream: bool = False) -> Got:
        question = f"Question {next(_questions)}?"
        got = await self.gate.post(path_of(api), asked_of(api, question, model, stream=stream), KEY)
        assert got.status == 200, got.body
        return got

    async def leave(
        self, left: Left, after: int, model: str, headers: dict[str, str] = KEY, mark: bytes = b""
    ) -> tuple[int, str]:
        """Ask, and leave once that many events came, or `mark`: the status, and the id it is booked under."""

        async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
            response = await _begun(request)
            for piece in left.pieces[:after]:
                await response.write(piece.data)
            await until(lambda: request.transport is None, "the gateway left")
            return response

        self.behind.script = script
        body = asked_of(left.api, f"Question {next(_questions)}?", model, stream=True)
        mark, seen = mark or left.pieces[after - 1].data, b""
        async with self.gate.session.post(
            self.gate.url + path_of(left.api), json=body, headers=headers
        ) as response:
            while response.status == 200 and mark not in seen:
                came = await response.content.readany()
                assert came, seen
                seen += came
            response.close()
            return response.status, response.headers.get("x-understudy-decision-id", "")

    async def booked(self, id: str) -> RequestRecord:
        """The request's row, once it is there."""
        await until(lambda: self._row(id) is not None, "the request booked")
        return self.row(id)

    def _row(self, id: str) -> RequestRecord | None:
        memory = self.gate.gateway.memory
        assert memory is not None
        return memory.store.decisions.requests.get(id)

    def row(self, id: str) -> RequestRecord:
        row = self._row(id)
        assert row is not None
        return row

    async def shown(self, id: str) -> dict[str, Any]:
        """What the client is told, once it is known here: the row may be there a moment before."""
        async with asyncio.timeout(60):
            while True:
                async with self.gate.session.get(f"{self.gate.url}/usage/{id}", headers=KEY) as response:
                    found: dict[str, Any] = await response.json()
                if response.status != 202:
                    break
                await asyncio.sleep(0.01)
        assert response.status == 200, found
        return found

    async def costs_over(self, before: float) -> None:
        """Wait until more is booked than before, and all of it."""
        await until(lambda: sum(self.costs()) > before, "the step is booked")
        await self.gate.settled()

    def costs(self) -> list[float]:
        """All costs so far, the latest first."""
        memory = self.gate.gateway.memory
        assert memory is not None
        return [row.cost_usd or 0.0 for row in memory.store.decisions.requests.recent(1000)]


async def _begun(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    return response


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shop]:
    folder: Path = tmp_path_factory.mktemp("invoice")
    async with upstream() as behind:
        engine = {"base_url": behind.url, "api_key": "none", "apis": APIS}
        step = {"chat": "Say {{question}}", "model": "m"}
        config: dict[str, Any] = {
            "upstream": {
                "base_url": behind.url,
                "api_key": "none",
                "prices": {"elsewhere": PRICE, "dear-elsewhere": DEAR},
            },
            "engines": {
                "one": engine | {"price": PRICE},
                "dear": engine | {"price": DEAR},
                "free": engine,
            },
            "models": {
                name: {"engines": [one]} for name, one in {"m": "one", "dear": "dear", "free": "free"}.items()
            },
            "workflows": {"flow": {"inputs": {"question": "last_user"}, "steps": {"a": step}, "output": "a"}},
            "memory": {
                "data_dir": str(folder),
                "examples": {"enabled": False},
                "exact": {"enabled": False},
            },
        }
        async with line(config) as gate:
            yield Shop(gate, behind)


# ---- told


async def test_there_are_enough_of_them() -> None:
    assert len(TOLD) >= 60 and len({told.name for told in TOLD}) == len(TOLD)
    assert len({told.api for told in TOLD}) == 5 and len({told.provider for told in TOLD}) >= 10


async def _is_booked(shop: Shop, got: Got, due: Due) -> None:
    id = got.headers["x-understudy-decision-id"]
    row, shown = shop.row(id), await shop.shown(id)
    tokens = (row.prompt_tokens, row.completion_tokens, row.cached_tokens)
    assert tokens == due[:3] and not row.usage_estimated
    assert row.cost_usd == exactly(usd(*due)) and shown["cost_usd"] == row.cost_usd
    if "x-understudy-cost" in got.headers:
        assert float(got.headers["x-understudy-cost"]) == exactly(usd(*due))


@pytest.mark.parametrize("told", TOLD, ids=lambda told: told.name)
async def test_what_is_told_is_booked_to_the_billionth(shop: Shop, told: Told) -> None:
    shop.answers(whole(told), [] if told.api == "embeddings" else streamed(told))
    for model in DOORS.values():
        got = await shop.ask(told.api, model)
        assert "x-understudy-cost" in got.headers
        await _is_booked(shop, got, told.due)
        if told.api != "embeddings":
            await _is_booked(shop, await shop.ask(told.api, model, stream=True), told.due)


@pytest.mark.parametrize("api", APIS)
async def test_without_a_price_it_is_unpriced(shop: Shop, api: str) -> None:
    told = next(each for each in TOLD if each.api == api)
    shop.answers(whole(told), [] if api == "embeddings" else streamed(told))
    for model in ("free", "nobody-knows"):
        got = await shop.ask(api, model)
        assert got.headers["x-understudy-cost"] == "unpriced"
        assert (await shop.shown(got.headers["x-understudy-decision-id"]))["cost_usd"] is None
        if api != "embeddings":
            streamed_id = (await shop.ask(api, model, stream=True)).headers["x-understudy-decision-id"]
            assert (await shop.shown(streamed_id))["cost_usd"] is None


@pytest.mark.parametrize("usage", UNREADABLE, ids=str)
async def test_what_nobody_can_read_is_estimated(shop: Shop, usage: Any) -> None:
    chunk = HEAD | {"object": "chat.completion.chunk"}
    said = {"index": 0, "delta": {"content": TEXT}, "finish_reason": "stop"}
    shop.answers(whole_of("chat", usage), [sse(chunk | {"choices": [said], "usage": usage}), DONE])
    for model, stream in itertools.product(DOORS.values(), (False, True)):
        row = shop.row((await shop.ask("chat", model, stream=stream)).headers["x-understudy-decision-id"])
        assert row.usage_estimated and row.prompt_tokens > 0
        assert row.completion_tokens >= tokens_of(TEXT)
        assert row.cost_usd == exactly(usd(row.prompt_tokens, row.completion_tokens))


# ---- runs and workflows


PLACED = [
    told
    for told in TOLD
    if told.api == "chat" and told.provider in ("xai", "gemini", "moonshot", "openrouter")
]


@pytest.mark.parametrize("told", PLACED, ids=lambda told: told.name)
async def test_a_step_of_a_run_is_booked_as_any_request(shop: Shop, told: Told) -> None:
    shop.answers(whole(told), streamed(told))
    question = [{"role": "user", "content": f"Question {next(_questions)}?"}]
    step = {"model": "m", "messages": question, "understudy": {"output": {"name": "a"}}}
    before = sum(shop.costs())
    got = await shop.gate.post("/runs", {"steps": [step]}, KEY)
    assert got.status == 200 and got.json["status"] == "done", got.body
    assert got.json["cost_usd"] == exactly(usd(*told.due))
    assert sum(shop.costs()) - before == exactly(usd(*told.due))


@pytest.mark.parametrize("told", PLACED, ids=lambda told: told.name)
async def test_a_workflow_is_booked_as_what_its_steps_used(shop: Shop, told: Told) -> None:
    shop.answers(whole(told), streamed(told))
    for stream in (False, True):
        before = sum(shop.costs())
        await shop.ask("chat", "flow", stream=stream)
        await shop.costs_over(before)
        assert sum(shop.costs()) - before == exactly(usd(*told.due))


# ---- left


def tokens_of(text: str) -> int:
    return -(-len(text) // CHARACTERS_PER_TOKEN)


EVERY_EVENT = [(left, after) for left in LEFT for after in range(left.first, len(left.pieces) + 1)]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("left", "after"), EVERY_EVENT, ids=[f"{left.name} {after}" for left, after in EVERY_EVENT]
)
async def test_what_flowed_before_the_client_left_is_booked(
    shop: Shop, left: Left, after: int, door: str
) -> None:
    status, id = await shop.leave(left, after, DOORS[door])
    assert status == 200
    row = await shop.booked(id)
    seen = left.pieces[:after]
    text = "".join(piece.said for piece in seen)
    least = max(tokens_of(text), *(piece.told_tokens for piece in seen))
    assert least <= row.completion_tokens <= max(left.told_tokens, len(text)), row
    assert row.prompt_tokens > 0
    assert row.cost_usd == exactly(usd(row.prompt_tokens, row.completion_tokens))
    assert (await shop.shown(id))["cost_usd"] == row.cost_usd
    if after == len(left.pieces):
        assert (row.completion_tokens, row.usage_estimated) == (left.told_tokens, False)
    elif row.completion_tokens != left.told_tokens:
        assert row.usage_estimated


async def test_what_flowed_before_the_client_left_a_workflow_is_booked(shop: Shop) -> None:
    left = LEFT[0]
    for after in range(left.first, left.first + 3):
        before = sum(shop.costs())
        await shop.leave(left, after, "flow", mark=left.pieces[after - 1].said[-8:].encode())
        await shop.costs_over(before)
        said = "".join(piece.said for piece in left.pieces[:after])
        assert sum(shop.costs()) - before >= usd(0, tokens_of(said))


# ---- left by one who has a budget

STORY = "word " * 1_600
ENDS = (b"content_block_stop", b'"finish_reason": "stop"', b'"finish_reason": "tool_calls"')
ATTACKS = [
    left
    for left in LEFT
    if left.name in ("chat text", "chat tool calls", "chat reasoning_content", "responses function call")
    or left.api == "messages"
]
STORY_USD = len(STORY) / CHARACTERS_PER_TOKEN * 100 / 1e6


def _attack(long: Left) -> Left:
    """The same with a long story, left when all of it was said, before its usage."""
    said = next(piece for piece in long.pieces if piece.said)
    told = Piece(said.data.replace(said.said.encode(), STORY.encode()), STORY)
    ends = [piece for piece in long.pieces if any(end in piece.data for end in ENDS)]
    return Left(long.name, long.api, (*long.pieces[: long.first - 1], told, *ends[:1]))


@pytest.mark.parametrize("model", ["dear", "dear-elsewhere"])
@pytest.mark.parametrize("left", ATTACKS, ids=lambda left: left.name)
async def test_a_budget_holds_for_who_leaves_before_the_usage(shop: Shop, left: Left, model: str) -> None:
    assert pytest.approx(0.2) == STORY_USD
    who = await make(shop.gate, budget(1))
    story = _attack(left)
    statuses = []
    for _ in range(60):
        status, id = await shop.leave(story, len(story.pieces), model, who.headers)
        statuses.append(status)
        if status == 200:
            await shop.booked(id)
    answered = statuses.count(200)
    assert statuses == [200] * answered + [429] * (60 - answered)
    assert 0 < answered * STORY_USD <= 1 + STORY_USD, f"{answered} stories for a dollar"
