"""An answer that somebody found wrong is not given again, over real sockets, by any of two gateways on one data folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from store import Store
from store.records import Example
from tests.flow.line import Asked, Got, Line, Upstream, completion, line, upstream
from tests.patience import until
from understudy.commands.forget import forget

ANN = {"Authorization": "Bearer sk-ann"}
BOB = {"Authorization": "Bearer sk-bob"}
QUESTION = "Within how many hours is a complaint answered?"
WRONG, RIGHT = "Within 24 hours.", "Within 27 hours."
MESSAGES = [{"role": "user", "content": QUESTION}]


@dataclass
class Pair:
    """Two gateways that remember in one folder, and the engine behind both."""

    one: Line
    other: Line
    behind: Upstream

    @property
    def store(self) -> Store:
        assert self.one.gateway.memory is not None
        return self.one.gateway.memory.store

    async def both_hold_it(self, headers: dict[str, str] = ANN) -> Got:
        """Have the wrong answer given once and repeated by both, from memory; gives the first."""
        self.behind.says = WRONG
        first = await self.one.chat(QUESTION, headers)
        assert not first.hit and first.text == WRONG
        for gate in (self.one, self.other, self.other):
            assert (await gate.chat(QUESTION, headers)).hit
        self.behind.says = "Anew."
        return first

    async def is_answered_anew(self) -> None:
        """Neither gateway gives the wrong answer; at once, so nothing is waited for."""
        got = [
            await gate.chat(QUESTION, ANN | {"Cache-Control": "no-store"}) for gate in (self.other, self.one)
        ]
        assert [(each.hit, each.text) for each in got] == [(False, "Anew.")] * 2

    async def is_still_remembered(self) -> None:
        assert all([(await gate.chat(QUESTION, ANN)).hit for gate in (self.one, self.other)])

    async def say(self, gate: Line | None = None, **fields: Any) -> Got:
        said = await (gate or self.one).post("/feedback", fields, ANN)
        assert said.status == 201, said.body
        return said

    def example(self) -> Example:
        (found,) = [e for tenant in self.store.tenants() for e in self.store.examples.page(tenant)]
        return found


@asynccontextmanager
async def pair(data: Path, *, examples: bool = True, m: int = 9, **memory: Any) -> AsyncIterator[Pair]:
    async with upstream() as behind:
        engine = {"base_url": behind.url, "advanced": {"attempts": 1}}
        # With nine neighbours wanted, every question is asked of the large one.
        rule = {"policy": "few_shot", "few_shot": {"m": m}} if examples else {"policy": "fixed"}
        config = {
            "engines": {"small": engine, "large": engine},
            "models": {"gpt-4o": {"engines": ["small", "large"], **rule}},
            "memory": {"data_dir": str(data), "examples": {"enabled": examples}} | memory,
        }
        async with line(config) as one, line(config) as other:
            yield Pair(one, other, behind)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Pair]:
    async with pair(tmp_path / "data") as made:
        yield made


def decision_of(got: Got) -> dict[str, str]:
    return {"decision_id": got.headers["x-understudy-decision-id"]}


FOUND_WRONG = [
    {"thumb": "down"},
    {"score": 0.1},
    {"correction": RIGHT},
    {"correction": RIGHT, "messages": MESSAGES},
]


@pytest.mark.parametrize("said", FOUND_WRONG, ids=lambda said: "+".join(said))
async def test_an_answer_found_wrong_is_given_again_by_no_gateway(here: Pair, said: dict[str, Any]) -> None:
    first = await here.both_hold_it()
    await here.say(**decision_of(first), **said)
    await here.is_answered_anew()


@pytest.mark.parametrize(
    "said", [{"thumb": "up"}, {"score": 0.9}, {"comment": "Hm."}], ids=lambda said: "+".join(said)
)
async def test_an_answer_that_was_right_is_still_repeated(here: Pair, said: dict[str, Any]) -> None:
    first = await here.both_hold_it()
    await here.say(**decision_of(first), **said)
    await here.is_still_remembered()


async def test_the_repeat_may_be_named_as_well_as_the_first_answer_and_by_either_id(here: Pair) -> None:
    await here.both_hold_it()
    repeat = await here.other.chat(QUESTION, ANN)
    assert repeat.hit
    await here.say(here.other, **decision_of(repeat), thumb="down")
    await here.is_answered_anew()
    first = await here.both_hold_it()
    await here.say(completion_id=first.json["id"], thumb="down")
    await here.is_answered_anew()


async def test_without_examples_and_texts_the_answer_goes_too(tmp_path: Path) -> None:
    async with pair(tmp_path / "data", examples=False, request_texts={"enabled": False}) as here:
        first = await here.both_hold_it()
        await here.say(**decision_of(first), thumb="down")
        await here.is_answered_anew()


async def test_without_a_log_of_requests_the_answer_goes_too(tmp_path: Path) -> None:
    async with pair(tmp_path / "data", log_requests=False) as here:
        first = await here.both_hold_it()
        await here.say(**decision_of(first), thumb="down")
        await here.is_answered_anew()


async def test_a_second_wrong_answer_in_the_place_of_the_first_goes_with_it(here: Pair) -> None:
    first = await here.both_hold_it()
    here.behind.says = WRONG
    assert not (await here.one.chat(QUESTION, ANN | {"Cache-Control": "no-cache"})).hit
    here.behind.says = "Anew."
    await here.say(**decision_of(first), thumb="down")
    await here.is_answered_anew()


async def test_the_same_wrong_answer_to_another_form_of_the_request_goes_with_it(here: Pair) -> None:
    here.behind.says = WRONG
    plain = await here.one.chat(QUESTION, ANN)
    await here.one.chat(QUESTION, ANN, max_tokens=99)
    assert (await here.other.chat(QUESTION, ANN, max_tokens=99)).hit
    here.behind.says = "Anew."
    await here.say(**decision_of(plain), thumb="down")
    assert not (await here.other.chat(QUESTION, ANN, max_tokens=99)).hit


async def test_another_tenants_same_answer_stays(here: Pair) -> None:
    await here.both_hold_it(BOB)
    first = await here.both_hold_it()
    await here.say(**decision_of(first), thumb="down")
    await here.is_answered_anew()
    assert (await here.other.chat(QUESTION, BOB)).hit


@pytest.mark.parametrize("named", ["request", "tenant", "all"])
async def test_an_operator_drops_exact_answers_from_under_running_gateways(
    tmp_path: Path, named: str
) -> None:
    async with pair(tmp_path / "data", examples=False) as here:
        await here.both_hold_it(BOB)
        first = await here.both_hold_it()
        mine = here.store.decisions.requests.get(first.headers["x-understudy-decision-id"])
        assert mine is not None
        which = {
            "request": ["--request", mine.id],
            "tenant": ["--tenant", f"id:{mine.tenant}"],
            "all": ["--all"],
        }[named]
        arguments = ["--data", str(tmp_path / "data"), "--exact", *which, "--yes"]
        done = await asyncio.to_thread(CliRunner().invoke, forget, arguments)
        assert done.exit_code == 0, done.output
        assert done.output == f"{2 if named == 'all' else 1} exact answers deleted\n"
        await here.is_answered_anew()
        assert (await here.other.chat(QUESTION, BOB)).hit == (named != "all")


@pytest.mark.parametrize(
    "arguments",
    [["--exact"], ["--exact", "--all", "--tenant", "a"], ["--all"], ["--exact", "--user", "u"]],
    ids=str,
)
def test_exact_answers_are_dropped_of_exactly_one_thing(tmp_path: Path, arguments: list[str]) -> None:
    done = CliRunner().invoke(forget, ["--data", str(tmp_path), *arguments, "--yes"])
    assert done.exit_code == 2 and "--exact" in done.output


async def quarantined(here: Pair) -> None:
    example = here.example()
    await asyncio.to_thread(here.store.examples.hold_back(example.tenant, example.id).result, 30)


async def edited(here: Pair) -> None:
    example = here.example()
    changed = here.store.examples.rewrite(
        example.tenant,
        example.id,
        question=QUESTION,
        answer=RIGHT,
        embedded_text=QUESTION,
        vector=None,
        embedding_version="",
    )
    await asyncio.to_thread(changed.result, 30)


async def deleted(here: Pair) -> None:
    url = f"{here.one.url}/examples/{here.example().request_id}"
    async with here.one.session.delete(url, headers=ANN) as response:
        assert response.status == 200


async def demonstrated(here: Pair) -> None:
    given = await here.one.post("/examples", {"messages": MESSAGES, "answer": RIGHT}, ANN)
    assert given.status == 201


@pytest.mark.parametrize("acted", [quarantined, edited, deleted, demonstrated])
async def test_with_its_example_the_answer_goes(here: Pair, acted: Callable[[Pair], Awaitable[None]]) -> None:
    await here.both_hold_it()
    await acted(here)
    await here.is_answered_anew()


async def test_answers_that_were_made_with_the_wrong_example_go_with_it(tmp_path: Path) -> None:
    alike = "Within how many hours is any complaint answered?"
    async with pair(tmp_path / "data", m=1) as here:
        first = await here.both_hold_it()
        here.behind.says = WRONG
        offloaded = await here.one.chat(alike, ANN)
        assert offloaded.headers["x-understudy-examples"] == "1"
        assert (await here.other.chat(alike, ANN)).hit
        await here.say(**decision_of(first), thumb="down")
        assert not (await here.other.chat(alike, ANN)).hit


@pytest.mark.parametrize("acted", [quarantined, edited, deleted])
async def test_an_answer_under_way_while_its_example_is_taken_back_is_not_repeated(
    tmp_path: Path, acted: Callable[[Pair], Awaitable[None]]
) -> None:
    alike = "Within how many hours is any complaint answered?"
    async with pair(tmp_path / "data", m=1) as here, asyncio.TaskGroup() as tasks:
        here.behind.says = WRONG
        await here.one.chat(QUESTION, ANN)
        await here.one.settled()
        opened, before = asyncio.Event(), len(here.behind.asked)

        async def late(request: web.Request, asked: Asked) -> web.StreamResponse:
            await until(opened.is_set, "the end of the answer")
            return web.json_response(completion(WRONG))

        here.behind.script = late
        under_way = tasks.create_task(here.one.chat(alike, ANN))
        await until(lambda: len(here.behind.asked) > before, "the request at the upstream")
        await acted(here)
        opened.set()
        assert (await under_way).headers["x-understudy-examples"] == "1"
        await here.one.settled()
        here.behind.script = None
        assert not (await here.other.chat(alike, ANN)).hit


async def test_pinning_an_example_takes_no_answer(here: Pair) -> None:
    await here.both_hold_it()
    example = here.example()
    await asyncio.to_thread(here.store.examples.pin(example.tenant, example.id, pinned=True).result, 30)
    await here.is_still_remembered()


@pytest.mark.parametrize("messages", [{}, {"messages": MESSAGES}], ids=["replaced", "demonstrated"])
async def test_a_corrected_example_is_not_judged_by_the_wrong_answer(
    here: Pair, messages: dict[str, Any]
) -> None:
    first = await here.both_hold_it()
    # The same again makes the example stand for two answers that agree, both wrong.
    here.behind.says = WRONG
    await here.one.chat(QUESTION, ANN | {"Cache-Control": "no-cache"})
    # Noted by one gateway, and written by it only after the other has taken the correction.
    await here.say(here.other, **decision_of(first), score=0.0)
    here.store.examples.ledger.note_gain([here.example().id], 5.0)
    assert here.example().merged == 1
    await here.say(**decision_of(first), correction=RIGHT, **messages)
    for gate in (here.one, here.other):
        assert gate.gateway.memory is not None
        written = gate.gateway.memory.store.examples.flush_uses()
        if written is not None:
            await asyncio.to_thread(written.result, 30)
    corrected = here.example()
    assert corrected.answer == RIGHT and corrected.kind == "demonstration"
    assert (corrected.quality_count, corrected.gain, corrected.merged) == (0, 0.0, 0)
