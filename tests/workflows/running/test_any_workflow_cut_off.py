"""Any workflow whose processes die after some writes, one after the other, comes to what its definition says all the same.

A process dies between two writes of the store: what it had in memory is gone, what it was asking is broken off. Whoever
looks at a step that is `unknown` knows what the tool did.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.batching import virtual_time
from benchmarks.runs_store import OpenedRuns
from engines.components.component import Work
from gateway.runs.step_door import StepDoor
from store.errors import StoreFailed
from store.workflows.records import Resolution
from tests.gateway.serving import open_admission
from tests.workflows.definitions import (
    EMBEDDER,
    Answers,
    Refused,
    answers,
    chat_messages,
    definition,
    definitions,
    inputs,
)
from tests.workflows.running.carried_out import TENANT, taken_over
from tests.workflows.running.declared_world import begun
from tests.workflows.running.test_any_workflow import (
    BATCHES,
    PATIENT,
    SETS,
    Ended,
    Slow,
    expected,
    over,
    reached,
)
from workflows.definition import Definition, Splits, StepSpec
from workflows.plan import Profile
from workflows.progress import StepState
from workflows.running.live import LiveRun
from workflows.running.means import Means
from workflows.running.runs import Runs
from workflows.transform import Value

MOST_S = 50_000.0
"""Of virtual time, for one process: many times what a run takes."""


class Dying:
    """A store that takes so many writes of a run that has begun, and then no more."""

    def __init__(self, store: OpenedRuns, writes: float) -> None:
        self._store = store
        self._left = writes
        self.dead = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def save(self, *args: Any, **more: Any) -> Future[None]:
        """As WorkflowRuns."""
        return self._write(self._store.save, *args, **more)

    def _write(self, write: Any, *args: Any, **more: Any) -> Future[None]:
        if self._left <= 0:
            self.dead.set()
            future: Future[None] = Future()
            future.set_exception(StoreFailed("the process is gone"))
            return future
        self._left -= 1
        return write(*args, **more)  # type: ignore[no-any-return]


@dataclass
class Outside:
    """What all processes did to the world: what was asked under which key, how often, and how often it might be."""

    asked: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    allowed: Counter[str] = field(default_factory=Counter)

    def effects(self) -> Counter[str]:
        """Each effect once, as the reference counts them."""
        return Counter(f"{name} {sorted(args.items())}" for name, args in self.asked.values())


class OneOfSeveral(Slow):
    """The world as one process sees it."""

    def __init__(self, definition: Definition, said: Answers, seed: int, outside: Outside) -> None:
        super().__init__(definition, said, seed)
        self._outside = outside

    async def call(
        self, name: str, args: Mapping[str, Any], work: Work, idempotency_key: str, may_retry: bool
    ) -> str:
        """As Components."""
        if name in self.with_effects:
            self._outside.asked[idempotency_key] = (name, args)
            self._outside.times[idempotency_key] += 1
            self._outside.allowed[idempotency_key] += may_retry
        return await super().call(name, args, work, idempotency_key, may_retry)


async def _lives(
    definition: Definition,
    said: Answers,
    given: Mapping[str, Value],
    batches: Mapping[str, int],
    seed: int,
    writes: Sequence[int],
) -> tuple[Ended, Outside]:
    store, outside, id = OpenedRuns(), Outside(), ""
    for life, left in enumerate((*writes, float("inf"))):
        world = OneOfSeveral(definition, said, seed + life, outside)
        dying = Dying(store, left)
        means = Means(world, world, lambda world=world: Profile(batches))  # type: ignore[misc]
        runs = Runs(
            StepDoor(world.answer, open_admission()),
            dying,
            PATIENT,
            shared=False,
            owner=f"p{life}",
            means=means,
        )  # type: ignore[arg-type]
        runs.start()
        try:
            if not id:
                run = await begun(runs, definition, given, background=True)
                id = run.id
            else:
                await taken_over(runs, f"p{life - 1}")
                if id not in runs.live:
                    continue
                run = runs.live[id]
            until = time.time() + MOST_S
            while not over(run) and not dying.dead.is_set():
                assert time.time() < until, (run.ended, dict(run.progress.steps))
                await _decided(runs, run, said, outside)
                await asyncio.sleep(1.0)
            if over(run) and not dying.dead.is_set():
                steps = {name: reached(definition, run, name) for name in definition.steps}
                return Ended(run.ended == "done", steps, outside.effects()), outside
            run.lost = True
        finally:
            await runs.aclose(grace_s=0)
    raise AssertionError("nobody carried it on")


async def _decided(runs: Runs, run: LiveRun, said: Answers, outside: Outside) -> None:
    """Whoever is asked tells what a tool did that was being asked when its process died."""
    for step in [id for id, state in run.progress.steps.items() if state is StepState.UNKNOWN]:
        key = f"{run.id}:{step}"
        try:
            told = said.call(*outside.asked[key])
        except (KeyError, Refused):
            outside.allowed[key] += key in outside.asked
            await runs.resolve(TENANT, run.id, step, Resolution("retry"))
        else:
            await runs.resolve(TENANT, run.id, step, Resolution("value", told))


@pytest.mark.slow
@settings(max_examples=100)
@given(
    definitions(),
    inputs(),
    answers(),
    BATCHES,
    st.sampled_from(SETS),
    st.integers(0, 1 << 16),
    st.lists(st.integers(0, 25), min_size=1, max_size=3),
)
def test_whenever_processes_die_a_run_comes_to_the_same_and_no_effect_happens_twice(
    definition: Definition,
    given: Mapping[str, Value],
    said: Answers,
    batches: Mapping[str, int],
    passes: frozenset[Any],
    seed: int,
    writes: Sequence[int],
) -> None:
    changed = replace(definition, passes=passes)
    found, outside = virtual_time.run(lambda: _lives(changed, said, given, batches, seed, writes))
    if ("failed", "interrupted") not in found.steps.values():
        # A step that was being asked in two processes that died is not asked by a third.
        assert found == expected(definition, said, given)
    assert all(count <= 1 + outside.allowed[key] for key, count in outside.times.items())


def test_what_only_computes_outlives_any_few_processes() -> None:
    steps = [
        StepSpec("texts", "split", ("documents",), component=EMBEDDER, tokens=2, overlap=0),
        StepSpec("index", "ingest", ("texts",), component=EMBEDDER),
        StepSpec(
            "found", "search", ("question",), reads=("index",), component=EMBEDDER, index="step:index", k=2
        ),
    ]
    declared = definition(*steps, passes=frozenset())
    said, given = Answers(1), {"question": "Q?", "documents": ["a b c", "d"]}
    for writes in (1, 2, 3):
        found, _ = virtual_time.run(
            lambda writes=writes: _lives(declared, said, given, {EMBEDDER: 2}, 1, [writes, *[1] * 5])  # type: ignore[misc]
        )
        assert found == expected(declared, said, given)


@pytest.mark.parametrize("writes", range(1, 7))
@pytest.mark.parametrize("chained", [False, True])
def test_pieces_that_come_once_a_run_was_taken_up_wait_for_no_index_that_nothing_reads(
    chained: bool, writes: int
) -> None:
    # In a chain, too, the index of no documents is there at once.
    after = () if chained else ("first",)
    steps = [
        StepSpec("list", "chat", messages=chat_messages("List"), model="small", splits=Splits("lines")),
        StepSpec("first", "ingest", ("documents",), component=EMBEDDER),
        StepSpec("second", "ingest", ("list",), component=EMBEDDER, after=after),
        StepSpec("answer", "chat", messages=chat_messages("{{list}}"), model="small", reads=("list",)),
    ]
    declared = definition(*steps, chained=chained, passes=frozenset())
    said, given = Answers(1), {"question": "Q?", "documents": []}
    found, _ = virtual_time.run(lambda: _lives(declared, said, given, {EMBEDDER: 2}, 1, [writes]))
    assert found == expected(declared, said, given)
