"""Any workflow over the executor itself comes to the same with every set of passes as without.

Engines and components are simulated and answer after random pauses of virtual time, so steps end in any order; the store is
the one in memory; the executor, its growing and its saving are the real ones.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from benchmarks.batching import virtual_time
from benchmarks.runs_store import OpenedRuns
from engines.components.component import Work
from engines.errors import StreamBroken
from gateway.runs.step_door import StepDoor
from gateway.send import Send
from router.asked import Asked
from router.finished import Finished, Outcome
from tests.gateway.serving import open_admission
from tests.workflows.definitions import (
    EMBEDDER,
    MAX_ITEMS,
    RERANKER,
    WEB,
    Answers,
    Refused,
    answers,
    definitions,
    doc_qa,
    inputs,
    offsets,
)
from tests.workflows.running.carried_out import KNOBS
from tests.workflows.running.declared_world import World, begun, chunk, finished
from workflows.definition import PASSES, Definition
from workflows.plan import Profile
from workflows.running.live import LiveRun
from workflows.running.means import Means
from workflows.running.runs import Runs
from workflows.transform import Value

PATIENT = replace(KNOBS, max_items=MAX_ITEMS, lease_s=1e6, poll_s=1e5)
"""A run may take hours of virtual time, and nobody else looks for it."""
SETS = tuple(frozenset(some) for count in range(5) for some in itertools.combinations(PASSES, count))
INHERITED = "inherited"
"""Instead of the code of what a step depends on: which of several is known first is nobody's promise."""
BATCHES = st.fixed_dictionaries({name: st.integers(1, 4) for name in (EMBEDDER, RERANKER, WEB)})


class Slow(World):
    """Each answer takes a random time of its own."""

    def __init__(self, definition: Definition, said: Answers, seed: int) -> None:
        super().__init__(said, seed)
        self.splits = {
            name: spec.splits for name, spec in definition.steps.items() if spec.splits is not None
        }
        self.told: Counter[str] = Counter()
        """What was asked of tools with effects: as the reference counts it."""
        self.with_effects = {spec.component for spec in definition.steps.values() if spec.effects}
        self._random = random.Random(seed)

    async def pause(self, who: str) -> None:
        """Take no time, up to a second, or up to half a minute."""
        self.under_way[who] += 1
        try:
            await asyncio.sleep(self._random.random() * self._random.choice((0.0, 1.0, 1.0, 30.0)))
        finally:
            self.under_way[who] -= 1

    async def answer(self, asked: Asked, send: Send) -> Finished:
        """As Pipeline.answer; the stream of a list may break off half way."""
        splits = self.splits.get(asked.placement.step)
        if splits is None:
            return await super().answer(asked, send)
        await self.pause("chat")
        try:
            text = self.answers.chat(asked.chat.messages, splits)
        except Refused:
            send.whole(
                400, CIMultiDict({"Content-Type": "application/json"}), b'{"error": {"message": "no"}}'
            )
            return finished(asked, Outcome.UPSTREAM_ERROR, 400)
        write = await send.begin(200, CIMultiDict({"Content-Type": "text/event-stream"}))
        broken = breaks(self.answers, text)
        left = text[: len(text) // 2] if broken else text
        while left:
            size = self._random.randint(1, 12)
            piece, left = left[:size], left[size:]
            await write(chunk({"choices": [{"index": 0, "delta": {"content": piece}}]}))
            await self.pause("chat")
        if broken:
            await send.break_off(StreamBroken("it broke", engine="e"))
            return finished(asked, Outcome.FAILED, 200)
        await write(b"data: [DONE]\n\n")
        await send.end()
        return finished(asked, Outcome.ANSWERED, 200)

    async def call(
        self, name: str, args: Mapping[str, Any], work: Work, idempotency_key: str, may_retry: bool
    ) -> str:
        """As Components."""
        if name in self.with_effects:
            assert idempotency_key, "an effect has a key"
            self.effects[idempotency_key] += 1
            self.told[f"{name} {sorted(args.items())}"] += 1
        await self.pause(name)
        return str(self._said(name, lambda: self.answers.call(name, args)))

    def offsets(self, name: str, text: str) -> list[tuple[int, int]]:
        """Words are tokens."""
        return offsets(text)


@dataclass(frozen=True)
class Ended:
    """What came of a run: of its output, of each step, and outside."""

    done: bool
    steps: Mapping[str, tuple[str, Any]]
    effects: Counter[str]


def breaks(answers: Answers, answer: str) -> bool:
    """Whether the stream of a splitting chat breaks off half way."""
    return answers.failing > 0 and zlib.crc32(answer.encode()) % 3 == 0


def expected(definition: Definition, said: Answers, given: Mapping[str, Value]) -> Ended:
    """What comes of it module after module."""
    return carried_out(replace(definition, passes=frozenset()), said, given, {}, seed=0)


def carried_out(
    definition: Definition,
    said: Answers,
    given: Mapping[str, Value],
    batches: Mapping[str, int],
    seed: int,
) -> Ended:
    """What came of a run over the executor, in virtual time."""
    return virtual_time.run(lambda: _ended(definition, Slow(definition, said, seed), given, batches))


async def _ended(
    definition: Definition, world: Slow, given: Mapping[str, Value], batches: Mapping[str, int]
) -> Ended:
    means = Means(world, world, lambda: Profile(batches))
    runs = Runs(
        StepDoor(world.answer, open_admission()), OpenedRuns(), PATIENT, shared=False, owner=None, means=means
    )
    runs.start()
    try:
        run = await begun(runs, definition, given)
        while not over(run):
            await asyncio.sleep(1.0)
        assert not world.under_way.total(), "what nobody waits for is not asked"
        assert all(count == 1 for count in world.effects.values()), "no effect happens twice"
        steps = {name: reached(definition, run, name) for name in definition.steps}
        return Ended(run.ended == "done", steps, world.told)
    finally:
        await runs.aclose(grace_s=0)


def over(run: LiveRun) -> bool:
    """Whether all of it has ended and is committed."""
    return run.ended is not None and all(cell.kept for cell in run.cells.values())


def reached(definition: Definition, run: LiveRun, name: str) -> tuple[str, Any]:
    """What a step of the definition came to: its state, and its value or the code of its failure."""
    cell = run.cells[run.flow.unfolding.variable(name)]
    if cell.state in ("ready", "skipped"):
        return _shown(definition, name, cell.state, cell.value)
    if cell.failure is None:
        return cell.state, None
    return cell.state, cell.failure.code if len(cell.failure.chain) == 1 else INHERITED


def _shown(definition: Definition, name: str, state: str, held: Any) -> tuple[str, Any]:
    """Vectors and indexes are not compared but by what is found with them."""
    opaque = state == "ready" and definition.steps[name].kind in ("embed", "ingest")
    return (state, None) if opaque else (state, held)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    definitions(),
    inputs(),
    answers(),
    BATCHES,
    st.sampled_from(SETS),
    st.integers(0, 1 << 16),
)
def test_values_errors_and_effects_are_those_without_passes(
    definition: Definition,
    given: Mapping[str, Value],
    said: Answers,
    batches: Mapping[str, int],
    passes: frozenset[Any],
    seed: int,
) -> None:
    with_passes = replace(definition, passes=passes)
    assert carried_out(with_passes, said, given, batches, seed) == expected(definition, said, given)


@settings(max_examples=10)
@given(answers(), BATCHES, st.integers(0, 1 << 16), st.booleans())
def test_questions_about_documents_come_out_alike_with_each_set_of_passes(
    said: Answers, batches: Mapping[str, int], seed: int, chained: bool
) -> None:
    given = {"question": "which of a, b and c?", "documents": ["a b c a", "", "c d"]}
    made = doc_qa(chained=chained)
    wanted = expected(made, said, given)
    for passes in SETS:
        assert carried_out(replace(made, passes=passes), said, given, batches, seed) == wanted
