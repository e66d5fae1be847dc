"""By default a small engine answers nobody before comparisons have proved it, and no longer, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from learning.guarantee.proof import ProofFollower
from learning.outcomes.account import Purse
from learning.outcomes.judging import Judging
from router.embedding.embedder import Embedder, EmbedderLate
from router.plan import Plan
from router.policies.late import LateDecisions
from router.proving.gate import WITHOUT_VECTOR
from store.records import OutcomeRecord, Vector
from tests.flow.line import Asked, Got, Line, Upstream, completion, line, upstream
from tests.patience import until
from understudy.settings.models import ModelSettings

POLICIES = ["few_shot", "in_context"]


@dataclass
class Rehearsal:
    """A line whose small engine is compared by hand."""

    gate: Line
    large: Upstream
    asked: list[Got] = field(default_factory=list)

    async def ask(self) -> Got:
        number = len(self.asked)
        got = await self.gate.chat(f"What does the error code {number} of the coffee machine mean?")
        assert got.status == 200
        self.asked.append(got)
        return got

    async def offloads(self) -> bool:
        """Whether the small engine answers. `in_context` explores: now and then the large one does in its place."""
        return any([(await self.ask()).headers["x-understudy-engine"] == "small" for _ in range(4)])

    async def compare(self, quality: float, times: int) -> None:
        """Ask, and note how good the small engine's own answer to each would have been.

        No other comparison is made from now on: by those, answers of these two engines are equal.
        """
        (judging,) = self.gate.gateway.parts.owned(Judging)
        await judging.aclose()
        memory = self.gate.gateway.memory
        assert memory is not None
        for _ in range(times):
            got = await self.ask()
            small = got.headers["x-understudy-engine"] == "small"
            outcome = OutcomeRecord(
                got.headers["x-understudy-decision-id"],
                "default",
                0.0,
                "judge",
                "judge/small/without",
                "small",
                (),
                served=small,
                quality=quality,
            )
            await asyncio.to_thread(memory.store.outcomes.note(outcome).result, 5)
        (follower,) = self.gate.gateway.parts.owned(ProofFollower)
        assert await asyncio.to_thread(follower.caught_up)


@asynccontextmanager
async def rehearsal(data: Path, policy: str, **model: Any) -> AsyncIterator[Rehearsal]:
    async with upstream() as small, upstream() as large:
        price = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}
        # At this dial only the price counts; at this loss few comparisons prove much.
        served = {
            "proof": "on",
            "max_loss": 0.3,
            "in_context": {"preference": 0.0, "max_examples": 0},
        } | model
        config = {
            "engines": {
                "small": {"base_url": small.url, "api_key": "none", "price": price},
                "large": {"base_url": large.url, "api_key": "none", "price": dict.fromkeys(price, 20)},
            },
            "models": {
                "gpt-4o": {"engines": ["small", "large"], "policy": policy, "few_shot": {"theta": 1.0}}
                | served
            },
            "memory": {"data_dir": str(data)},
        }
        async with line(config) as gate:
            yield Rehearsal(gate, large)


def test_proof_is_asked_for_by_default() -> None:
    settings = ModelSettings(engines=("small", "large"), policy="few_shot")
    assert settings.proves and settings.max_loss == 0.05


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
async def test_a_small_engine_answers_once_it_is_proven_and_not_before(tmp_path: Path, policy: str) -> None:
    async with rehearsal(tmp_path, policy) as here:
        first = await here.ask()
        assert first.headers["x-understudy-engine"] == "large"
        assert first.headers["x-understudy-reason"] == "shadow"
        await here.compare(1.0, 80)
        assert await here.offloads()
        by_small = [got.headers for got in here.asked if got.headers["x-understudy-engine"] == "small"]
        assert not any("x-understudy-reason" in headers for headers in by_small)
    async with rehearsal(tmp_path, policy) as here:
        (follower,) = here.gate.gateway.parts.owned(ProofFollower)
        assert await asyncio.to_thread(follower.caught_up)
        assert await here.offloads(), "a restart forgets no proof"


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_small_engine_that_turns_bad_is_sent_back_within_few_checks(
    tmp_path: Path, policy: str
) -> None:
    async with rehearsal(tmp_path, policy) as here:
        await here.compare(1.0, 60)
        assert await here.offloads()
        await here.compare(0.0, 15)
        got = await here.ask()
        assert got.headers["x-understudy-engine"] == "large"
        # By then it may be known what comparing costs here, and that is more than can be saved.
        assert got.headers["x-understudy-reason"] in ("shadow", "proof_too_dear")


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_junk_engine_answers_nobody(tmp_path: Path, policy: str) -> None:
    async with rehearsal(tmp_path, policy) as here:
        await here.compare(0.0, 60)
        assert {got.headers["x-understudy-engine"] for got in here.asked} == {"large"}


async def test_a_client_is_told_where_proof_would_cost_more_than_it_can_save(tmp_path: Path) -> None:
    async with rehearsal(tmp_path, "few_shot") as here:
        (judging,) = here.gate.gateway.parts.owned(Judging)
        assert (await here.ask()).headers["x-understudy-reason"] == "shadow"
        # What comparing cost, and that the price of a request is known, comes about with traffic.
        accounts = judging._accounts

        def known() -> bool:
            accounts._known.clear()
            return accounts.read("default", "usd").price > 0

        await until(known, "the price of a request")
        for _ in range(30):
            accounts.note(Purse(accounts, "default", "usd", 0.0, 0.0), 1000.0, 1, 0.0)
        got = await here.ask()
        assert got.headers["x-understudy-engine"] == "large"
        assert got.headers["x-understudy-reason"] == "proof_too_dear"
        memory = here.gate.gateway.memory
        assert memory is not None
        requests = memory.store.decisions.requests
        await until(
            lambda: "proof_too_dear" in {row.reason for row in requests.recent(9)}, "its row in the log"
        )


async def test_an_engine_that_the_client_names_needs_no_proof_and_proves_nothing(tmp_path: Path) -> None:
    async with rehearsal(tmp_path, "few_shot") as here:
        got = await here.gate.chat("What is 6 times 7?", {"x-understudy-engine": "small"})
        assert got.headers["x-understudy-engine"] == "small"
        memory = here.gate.gateway.memory
        assert memory is not None
        choice = memory.store.decisions.choices.get("default", got.headers["x-understudy-decision-id"])
        assert choice is not None and not choice.noted


async def test_without_proof_the_rule_decides_as_before(tmp_path: Path) -> None:
    async with rehearsal(tmp_path, "few_shot", proof="off", few_shot={"theta": 0.5, "m": 1}) as here:
        assert (await here.ask()).headers["x-understudy-engine"] == "large"
        got = await here.ask()
        assert got.headers["x-understudy-engine"] == "small" and "x-understudy-reason" not in got.headers


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_request_whose_embedding_was_late_is_compared_and_remembered_all_the_same(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on: list[asyncio.Task[Plan]] = []
    go_on = LateDecisions.go_on

    async def late(self: Embedder, text: str) -> Vector:
        raise EmbedderLate("late")

    def noted(self: LateDecisions, plan: Plan, decide: Any) -> Plan:
        plan = go_on(self, plan, decide)
        assert plan.late is not None
        going_on.append(plan.late)
        return plan

    async def answers_when_it_is_known(request: web.Request, asked: Asked) -> web.Response:
        await asyncio.wait(going_on)
        return web.json_response(completion("42"))

    monkeypatch.setattr(Embedder, "embed", late)
    monkeypatch.setattr(LateDecisions, "go_on", noted)
    async with rehearsal(tmp_path, policy) as here:
        here.large.script = answers_when_it_is_known
        got = await here.ask()
        assert (got.headers["x-understudy-engine"], len(going_on)) == ("large", 1)
        memory = here.gate.gateway.memory
        assert memory is not None
        outcomes = memory.store.outcomes
        await until(lambda: {one.engine for one in outcomes.after(0)} >= {"small"}, "its comparison")
        choice = memory.store.decisions.choices.get("default", got.headers["x-understudy-decision-id"])
        assert choice is not None and choice.vector is not None and choice.scope
        assert memory.store.examples.count("default") == 1


@pytest.mark.parametrize("policy", POLICIES)
async def test_what_is_proven_answers_although_the_embedding_is_late_and_its_check_counts(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(self: Embedder, text: str) -> Vector:
        raise EmbedderLate("late")

    async with rehearsal(tmp_path, policy) as here:
        await here.compare(1.0, 40)
        assert await here.offloads()
        monkeypatch.setattr(Embedder, "embed", late)
        # As if enough texts had been embedded to guess by.
        monkeypatch.setattr(Embedder, "guessed", Embedder.embed_blocking)
        assert await here.offloads()
        got = next(got for got in reversed(here.asked) if got.headers["x-understudy-engine"] == "small")
        memory = here.gate.gateway.memory
        assert memory is not None
        id, choices = got.headers["x-understudy-decision-id"], memory.store.decisions.choices
        await until(lambda: choices.get("default", id) is not None, "its choice")
        choice = choices.get("default", id)
        assert choice is not None and choice.vector is None and WITHOUT_VECTOR in choice.noted
        before = here.gate.gateway.parts.owned(ProofFollower)[0]._gates["gpt-4o"].summary()[0].compared
        await here.compare(1.0, 3)
        (follower,) = here.gate.gateway.parts.owned(ProofFollower)
        assert follower._gates["gpt-4o"].summary()[0].compared == before + 3
