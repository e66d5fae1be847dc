"""Answers to similar questions, over real sockets with the real embedder: off unless asked for, and never without proof."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.reuse.stage import SemanticAnswers
from store.answers.semantic_entries import SemanticEntries
from tests.flow.line import Asked, Got, Line, Upstream, completion, line, upstream
from tests.store.behind import database

QUESTION = "How do I list all files in a directory, including the hidden ones?"
ALIKE = (
    "How to list all files in a directory, including the hidden ones?",
    "How can I list all files in a directory, including the hidden ones?",
    "How do I list every file in a directory, including the hidden ones?",
    "How do I show all files in a directory, including the hidden ones?",
)
DIFFERENT = (
    "How do I list all files in a directory, not including the hidden ones?",
    "How do I list all 5 files in a directory, including the hidden ones?",
    "Why do I list all files in a directory, including the hidden ones?",
    "How do I list all files in a directory of Windows, including the hidden ones?",
)
LOOSE: dict[str, Any] = {"deltas": {"default": 0.2}}
OFTEN = {"reuse_audit_share": 0.5, "reuse_deadline_ms": 10_000}
"""One wrong in five is proved within tens of comparisons, and every second reuse is audited."""
FEWEST_LABELS = 30
"""Without an error among them, fewer prove nothing at a delta of 0.2."""
MOST_ASKED = 400
"""Coins are not seeded. What has not come about by then would have had to miss far more often than once in 1e30."""


@dataclass
class Stage:
    """A gateway with one engine behind it."""

    gate: Line
    behind: Upstream

    async def earn(self, headers: Mapping[str, str] | None = None) -> int:
        """Ask alike questions until one is answered from memory; gives how many the engine was asked."""
        before = len(self.behind.asked)
        await self.gate.chat(QUESTION, headers)
        for question in itertools.islice(itertools.cycle(ALIKE), MOST_ASKED):
            if reused(await self.gate.chat(question, headers)):
                return len(self.behind.asked) - before
        raise AssertionError(f"nothing was reused within {MOST_ASKED} questions")

    async def never(self, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> None:
        """Asked many times over, this must reach the engine every time."""
        before = len(self.behind.asked)
        for _ in range(8):
            assert not reused(await self.gate.post("/chat/completions", body, headers))
        assert len(self.behind.asked) == before + 8

    async def until_reused(self, question: str, **fields: Any) -> Got:
        """Audits aside, this must come from memory."""
        for _ in range(MOST_ASKED):
            got = await self.gate.chat(question, **fields)
            if reused(got):
                return got
        raise AssertionError("never reused")

    @property
    def metrics(self) -> str:
        return self.gate.gateway.metrics.exposition().decode()


def chat(question: str) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": [{"role": "user", "content": question}]}


def reused(got: Got) -> bool:
    return got.hit or "x-understudy-reuse" in got.headers


@asynccontextmanager
async def stage(data: Path, reuse: dict[str, Any] | None, **memory: Any) -> AsyncIterator[Stage]:
    async with upstream() as behind:
        behind.says = "Use ls -a."
        advanced = OFTEN | memory.pop("advanced", {})
        kept: dict[str, Any] = {"data_dir": str(data), "exact": {"enabled": False}, "advanced": advanced}
        kept |= memory
        if reuse is not None:
            kept["semantic_reuse"] = reuse
        config = {
            "engines": {"large": {"base_url": behind.url, "advanced": {"attempts": 1}}},
            "models": {"gpt-4o": {"engines": ["large"]}},
            "memory": kept,
        }
        async with line(config) as gate:
            yield Stage(gate, behind)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Stage]:
    async with stage(tmp_path / "data", LOOSE) as made:
        yield made


@pytest.mark.slow
async def test_by_default_nothing_is_reused_compared_or_kept_for_it(tmp_path: Path) -> None:
    async with stage(tmp_path / "data", None) as here:
        for question in (QUESTION, *ALIKE * 20):
            assert not reused(await here.gate.chat(question))
        assert len(here.behind.asked) == 81
        assert rows(here, "semantic_entries") == rows(here, "semantic_counts") == 0
        assert "understudy_semantic" not in here.metrics


@pytest.mark.slow
async def test_a_client_that_was_not_opted_in_gets_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path / "data", LOOSE | {"deltas": {"some-key": 0.2}}) as here:
        for question in (QUESTION, *ALIKE * 20):
            assert not reused(await here.gate.chat(question))
        assert rows(here, "semantic_entries") == 0


async def test_nothing_is_reused_before_it_is_proven_then_a_hit_says_what_it_is(here: Stage) -> None:
    assert await here.earn() > FEWEST_LABELS
    got = await here.until_reused(ALIKE[0])
    assert got.text == "Use ls -a."
    assert got.headers["x-understudy-reuse"] == "semantic"
    parts = [part.strip() for part in got.headers["Cache-Status"].split(";")]
    assert parts[:3] == ["understudy", "hit", "detail=semantic"] and parts[3].startswith("ttl=")
    assert "x-understudy-engine" not in got.headers
    for series in (
        'understudy_semantic_decisions_total{result="reuse"}',
        'understudy_semantic_decisions_total{result="unproven"}',
        'understudy_semantic_comparisons_total{result="right"}',
    ):
        assert series in here.metrics


@pytest.mark.slow
async def test_an_answer_that_agreed_is_not_remembered_a_second_time(here: Stage) -> None:
    await here.earn()
    assert rows(here, "semantic_entries") == rows(here, "examples") == 1


@pytest.mark.slow
async def test_a_reused_answer_is_replayed_as_a_real_stream(here: Stage) -> None:
    words = "One two three four five six seven eight nine ten eleven twelve."

    async def say(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(completion(words))

    here.behind.says, here.behind.script = words, say
    await here.earn()
    got = await here.until_reused(ALIKE[1], stream=True, stream_options={"include_usage": True})
    assert got.headers["Content-Type"].startswith("text/event-stream")
    assert got.text == words and len(got.events) > 4
    assert got.events[-1]["choices"] == [] and got.events[-1]["usage"]["total_tokens"] > 0


@pytest.mark.slow
async def test_a_question_that_differs_in_what_matters_is_never_answered_from_memory(here: Stage) -> None:
    await here.earn()
    asked = len(here.behind.asked)
    for question in DIFFERENT:
        assert not reused(await here.gate.chat(question))
    assert len(here.behind.asked) == asked + len(DIFFERENT)
    assert f'understudy_semantic_decisions_total{{result="gate"}} {len(DIFFERENT)}.0' in here.metrics


@pytest.mark.slow
async def test_a_request_that_differs_in_anything_else_is_never_a_candidate(here: Stage) -> None:
    await here.earn()
    system = {"role": "system", "content": "Be brief."}
    before = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello!"}]
    asked = {"role": "user", "content": ALIKE[0]}
    others: list[dict[str, Any]] = [
        {"temperature": 0},
        {"response_format": {"type": "text"}},
        {"a_field_of_next_year": 1},
        {"messages": [system, asked]},
        {"messages": [*before, asked]},
    ]
    for number, fields in enumerate(others, 1):
        # The very first question had no candidate either.
        counted = f'understudy_semantic_decisions_total{{result="no_candidate"}} {number}.0'
        assert counted in here.metrics
        assert not reused(await here.gate.post("/chat/completions", chat(ALIKE[0]) | fields))
    assert counted not in here.metrics


@pytest.mark.slow
async def test_what_asks_to_be_asked_or_is_not_one_plain_text_is_never_answered_from_memory(
    here: Stage,
) -> None:
    await here.earn()
    for headers in (
        {"Cache-Control": "no-cache"},
        {"Cache-Control": "no-store"},
        {"x-understudy-engine": "large"},
        {"x-understudy-examples": "0"},
    ):
        await here.never(chat(ALIKE[0]), headers)
    for fields in (
        {"store": False},
        {"n": 2},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": ALIKE[0]}]}]},
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]},
                {"role": "user", "content": ALIKE[0]},
            ]
        },
    ):
        await here.never(chat(ALIKE[0]) | fields)


@pytest.mark.slow
async def test_another_tenant_never_gets_it_nor_its_proofs(here: Stage) -> None:
    alice, bob = {"Authorization": "Bearer sk-alice"}, {"Authorization": "Bearer sk-bob"}
    await here.earn(alice)
    here.behind.says = "Bob's own."
    assert await here.earn(bob) > FEWEST_LABELS
    assert (await here.gate.chat(ALIKE[0], bob)).text == "Bob's own."


@pytest.mark.slow
async def test_only_the_key_that_opted_in_is_answered_so(tmp_path: Path) -> None:
    open_to_all = {"advanced": {"quarantine_h": 0}}
    async with stage(tmp_path / "data", None, **open_to_all) as here:
        keys = here.gate.gateway.memory.store.keys  # type: ignore[union-attr]
        (one, secret), (_, other) = [await asyncio.to_thread(keys.create, "acme", n) for n in ("one", "two")]
    async with stage(tmp_path / "data", LOOSE | {"deltas": {one.id: 0.2}}, **open_to_all) as here:
        opted_in, not_asked = ({"Authorization": f"Bearer {s}"} for s in (secret, other))
        await here.earn(opted_in)
        await here.never(chat(ALIKE[0]), not_asked)


async def test_the_small_engine_never_gives_the_evidence(tmp_path: Path) -> None:
    async with upstream() as small, upstream() as large:
        small.says, large.says = "From the small one.", "Use ls -a."
        config = {
            "engines": {"small": {"base_url": small.url}, "large": {"base_url": large.url}},
            "models": {
                "gpt-4o": {
                    "engines": ["small", "large"],
                    "policy": "few_shot",
                    "few_shot": {"theta": 0.8, "m": 1},
                }
            },
            "memory": {
                "data_dir": str(tmp_path),
                "exact": {"enabled": False},
                "semantic_reuse": LOOSE,
                "advanced": OFTEN,
            },
        }
        async with line(config) as gate:
            here = Stage(gate, large)
            await gate.chat(QUESTION)
            for question in itertools.islice(itertools.cycle(ALIKE), 40):
                await gate.chat(question)
            assert small.asked
            assert 'understudy_semantic_comparisons_total{result="wrong"}' not in here.metrics


@pytest.mark.slow
async def test_wrong_answers_shut_it(here: Stage) -> None:
    await here.earn()
    here.behind.says = "That was never right."
    wrong = 0
    for question in itertools.islice(itertools.cycle(ALIKE), MOST_ASKED // 2):
        got = await here.gate.chat(question)
        wrong += reused(got) and got.text != here.behind.says
    assert wrong <= 40, "audits see every second one, and close the rungs"
    for question in ALIKE * 10:
        assert (await here.gate.chat(question)).text == here.behind.says


async def test_an_answer_the_model_failed_to_give_proves_nothing(here: Stage) -> None:
    await here.gate.chat(QUESTION)

    async def fail(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no", "type": "t"}}, status=500)

    here.behind.script = fail
    for question in ALIKE:
        assert (await here.gate.chat(question)).status == 500
    assert rows(here, "semantic_observations") == rows(here, "semantic_counts") == 0
    assert 'understudy_semantic_comparisons_total{result="abandoned"} 4.0' in here.metrics


@pytest.mark.parametrize(
    "answer",
    [
        {"finish_reason": "length"},
        {"message": {"refusal": "I cannot help with that."}},
    ],
)
async def test_a_cut_or_refused_answer_is_never_kept_for_others(here: Stage, answer: dict[str, Any]) -> None:
    async def say(request: web.Request, asked: Asked) -> web.StreamResponse:
        return web.json_response(completion("Use ls", **answer))

    here.behind.script = say
    await here.gate.chat(QUESTION)
    assert rows(here, "semantic_entries") == 0


async def test_redacted_pairs_are_never_kept_for_others(here: Stage) -> None:
    await here.gate.chat("Write a short reminder about hidden files to jane.roe@northwind-mail.com, please.")
    assert rows(here, "examples") == 1 and rows(here, "semantic_entries") == 0


@pytest.mark.slow
async def test_what_was_proven_survives_a_restart(tmp_path: Path) -> None:
    async with stage(tmp_path / "data", LOOSE) as here:
        await here.earn()
    async with stage(tmp_path / "data", LOOSE) as here:
        for question in itertools.islice(itertools.cycle(ALIKE), FEWEST_LABELS):
            if reused(await here.gate.chat(question)):
                break
        else:
            raise AssertionError("what was proven is gone")


@pytest.mark.slow
async def test_a_forgotten_tenant_leaves_nothing_and_starts_from_nothing(here: Stage) -> None:
    await here.earn()
    memory = here.gate.gateway.memory
    assert memory is not None
    await asyncio.to_thread(memory.store.forget_tenant, "default")
    for table in ("semantic_entries", "semantic_observations", "semantic_counts"):
        assert rows(here, table) == 0
    await asyncio.sleep(1.1)  # other workers', and this one's, memory of the counts follows within a second
    assert await here.earn() > FEWEST_LABELS


@pytest.mark.slow
async def test_a_deleted_example_is_never_given_out_again(here: Stage) -> None:
    await here.earn()
    memory = here.gate.gateway.memory
    assert memory is not None
    ids = [e.id for e in memory.store.examples.page("default")]
    await asyncio.wrap_future(memory.store.examples.remove("default", ids))
    assert rows(here, "semantic_entries") == rows(here, "semantic_observations") == 0
    here.behind.says = "Something new."
    assert (await here.gate.chat(ALIKE[0])).text == "Something new."


@pytest.mark.slow
async def test_an_expired_answer_is_never_given_out(here: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await here.earn()
    (answers,) = here.gate.gateway.parts.owned(SemanticAnswers)
    assert isinstance(answers._entries, SemanticEntries)
    monkeypatch.setattr(answers._entries, "_ttl_s", 1e-6)
    assert not reused(await here.gate.chat(ALIKE[0]))
    assert not reused(await here.gate.chat(ALIKE[1]))


async def test_a_late_decision_is_gone_without(tmp_path: Path) -> None:
    async with stage(tmp_path / "data", LOOSE, advanced={"reuse_deadline_ms": 1e-6}) as here:
        for question in (QUESTION, *ALIKE):
            got = await here.gate.chat(question)
            assert got.status == 200 and not reused(got)
        assert 'understudy_bypassed_total{stage="semantic:TimeoutError"}' in here.metrics


def rows(here: Stage, table: str) -> int:
    memory = here.gate.gateway.memory
    assert memory is not None
    found: tuple[int] = database(memory.store).read().execute(f"SELECT count(*) FROM {table}").fetchone()
    return found[0]


@pytest.mark.slow
async def test_an_answer_found_wrong_is_reused_no_more(here: Stage) -> None:
    ann = {"Authorization": "Bearer sk-ann"}
    await here.earn(ann)
    got = await here.until_reused(ALIKE[0], headers=ann)
    said = {"decision_id": got.headers["x-understudy-decision-id"], "thumb": "down"}
    assert (await here.gate.post("/feedback", said, ann)).status == 201
    assert rows(here, "semantic_entries") == 0
    assert not reused(await here.gate.chat(ALIKE[0], ann))
