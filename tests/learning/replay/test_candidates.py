"""What could be replayed, what it has to gain and what it would cost, reckoned from the books."""

from __future__ import annotations

from pathlib import Path

import pytest

from learning.replay.candidates import Scope
from learning.replay.gain import companion_gain
from store.jobs.replay_records import ReplayBudget
from tests.learning.replay.bank import TENANT, bank_of, kin, right, wrong


async def test_companions_gain_is_the_mean_of_related_neighbours(tmp_path: Path) -> None:
    some = kin(5)
    async with bank_of(tmp_path, [(f, wrong(f)) for f in some]) as (made, examples):
        found = {c.example_id: c for c in made._candidates.of(TENANT)}
        assert set(found) == {e.id for e in examples}
        indexes = made.store.indexes
        assert indexes is not None
        one = found[examples[0].id]
        vector = made.store.examples.vectors_of(TENANT, [one.example_id], indexes.version)[one.example_id]
        near = [(id, s) for id, s in indexes.nearest(TENANT, vector, 5) if id != one.example_id]
        related = [(s, found[id].gain) for id, s in near if s >= Scope().related_above]
        assert one.companion_gain == pytest.approx(companion_gain(related))
        assert one.nearest == pytest.approx(max(s for _, s in near))
        assert one.distil is not None
        assert one.expand is not None
        assert one.expand.cost.usd > 0 < one.distil.cost.usd


async def test_what_came_of_replays_before_says_what_to_expect_and_what_to_leave(tmp_path: Path) -> None:
    some = kin(4)
    pairs = [(f, wrong(f) if n < 3 else right(f)) for n, f in enumerate(some)]
    async with bank_of(tmp_path, pairs, expand={"enabled": False}, samples=1) as (made, examples):
        ways = [c.distil for c in made._candidates.of(TENANT)]
        assert {way.chance for way in ways if way} == {0.1}, "the engine's own answers"
        made.store.examples.update(TENANT, examples[0].id, contributor="k").result()
        made.store.examples.ledger.note_quality(examples[0].id, 0.0)
        made.store.examples.flush_uses().result()  # type: ignore[union-attr]
        told = {c.example_id: c.distil for c in made._candidates.of(TENANT)}[examples[0].id]
        assert told is not None
        assert told.chance == pytest.approx((2 * 0.1 + 1) / 3), "somebody said that it was of no use"
        await made.run(ReplayBudget(usd=5.0))
        assert all(c.distil is None for c in made._candidates.of(TENANT)), "all were replayed lately"
        results = made.jobs.results("distil", TENANT)
        assert results["large", "replaced"] == 3
