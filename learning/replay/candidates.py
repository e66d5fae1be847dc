"""Which examples could be replayed, with what they have to gain and what that is expected to cost. Reads only; asks nobody.

Looked at are a tenant's examples with the highest gains, and their nearest neighbours: beside one of those a companion may
promise more than the example itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engines.engine import Engine
from learning.replay.gain import companion_gain
from learning.replay.material import Engines, Material
from learning.replay.plan import Candidate, Cost, Way, chance, chance_of_better
from learning.replay.verdicts import Judge
from store.examples.accounting import GainRow
from store.jobs.replay_jobs import ReplayJobs
from store.jobs.replay_records import StepKind
from store.records import Example

_VERDICT_PROMPT_TOKENS = 600
_GENERATE_PROMPT_TOKENS = 300
_VERDICT_TOKENS = 40
_ANSWER_S = 2.0
"""Of an engine that has answered nothing lately."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is looked at, and how much each step asks."""

    most: int = 2000
    """Examples of a tenant, those with the highest gains first."""
    neighbours: int = 8
    """k of G(e+)."""
    samples: int = 3
    variations: int = 3
    expand: bool = True
    again_after_s: float = 7 * 86_400.0
    related_above: float = 0.4
    """Cosine under which a neighbour is about something else, and says nothing of what a companion would gain: a mean over
    distant ones alone would be as high as over near ones."""


class Candidates:
    """Over an open store with an index."""

    def __init__(self, material: Material, jobs: ReplayJobs, judge: Judge, scope: Scope) -> None:
        self._material = material
        self._store = material.store
        self._jobs = jobs
        self._judge = judge
        self._scope = scope

    def of(self, tenant: str, now_s: float | None = None) -> list[Candidate]:
        """A tenant's candidates, in no order. Blocks for about a second per million examples."""
        now_s = time.time() if now_s is None else now_s
        rows = self._store.examples.ledger.highest_gains(tenant, now_s, self._scope.most)
        near = self._near(tenant, [row.id for row in rows])
        known = {row.id: row for row in rows}
        others = sorted({id for pairs in near.values() for id, _ in pairs} - set(known))
        if self._scope.expand:
            near |= self._near(tenant, others)
            missing = sorted({id for pairs in near.values() for id, _ in pairs} - set(known))
            known |= {row.id: row for row in self._store.examples.ledger.gains_of(tenant, missing, now_s)}
        lately = self._jobs.replayed_since(tenant, now_s - self._scope.again_after_s)
        past = _Past.read(self._jobs, tenant)
        return [
            self._candidate(tenant, known[id], near[id], known, lately, past) for id in near if id in known
        ]

    def _near(self, tenant: str, ids: Sequence[int]) -> dict[int, list[tuple[int, float]]]:
        """Each with its nearest others. What has no vector yet is left out: it is retrieved by nobody either."""
        indexes = self._store.indexes
        assert indexes is not None
        found = {}
        for id, vector in self._store.examples.vectors_of(tenant, ids, indexes.version).items():
            pairs = indexes.nearest(tenant, vector, self._scope.neighbours + 1)
            found[id] = [pair for pair in pairs if pair[0] != id][: self._scope.neighbours]
        return found

    def _candidate(
        self,
        tenant: str,
        row: GainRow,
        near: Sequence[tuple[int, float]],
        known: Mapping[int, GainRow],
        lately: set[tuple[StepKind, int]],
        past: _Past,
    ) -> Candidate:
        example = self._store.examples.get(tenant, row.id)
        distil = expand = None
        companion = companion_gain(
            (s, known[id].gain) for id, s in near if id in known and s >= self._scope.related_above
        )
        engines = None if example is None else self._material.engines_for(example)
        if example is not None and engines is not None and self._material.instructions(example) is not None:
            if row.kind == "observed" and not row.pinned and ("distil", row.id) not in lately:
                distil = Way(self._distil_cost(example, engines), past.distil(example, engines))
            if self._scope.expand and engines.small is not None and ("expand", row.id) not in lately:
                expand = Way(self._expand_cost(example, engines), past.expand())
        nearest = max((similarity for _, similarity in near), default=0.0)
        return Candidate(tenant, row.id, row.gain, companion, nearest, distil, expand, row.created_at_s)

    def _distil_cost(self, example: Example, engines: Engines) -> Cost:
        asked = _question_tokens(example)
        answer = max(1, example.completion_tokens)
        return _sum(
            (self._scope.samples, _cost(engines.reference, asked, answer)),
            (self._scope.samples * self._judge.verdicts, self._verdict(asked, answer)),
        )

    def _expand_cost(self, example: Example, engines: Engines) -> Cost:
        assert engines.small is not None
        asked, count = _question_tokens(example), self._scope.variations
        answer = max(1, example.completion_tokens)
        return _sum(
            (1, _cost(engines.generator, _GENERATE_PROMPT_TOKENS + asked, count * (asked + 12))),
            (count, _cost(engines.reference, asked, answer)),
            (count, _cost(engines.small, asked, answer)),
            (count * self._judge.verdicts, self._verdict(asked, answer)),
        )

    def _verdict(self, asked: int, answer: int) -> Cost:
        return _cost(self._judge.engine, _VERDICT_PROMPT_TOKENS + asked + 2 * answer, _VERDICT_TOKENS)


@dataclass(frozen=True, slots=True)
class _Past:
    """What came of a tenant's replays so far."""

    distilled: Mapping[tuple[str, str], int]
    expanded: Mapping[tuple[str, str], int]

    @classmethod
    def read(cls, jobs: ReplayJobs, tenant: str) -> _Past:
        return cls(jobs.results("distil", tenant), jobs.results("expand", tenant))

    def distil(self, example: Example, engines: Engines) -> float:
        """How likely asking again betters this answer: by whose it is, and by what was said of answers made with it."""
        source = example.source_engine
        tries = sum(count for (whose, _), count in self.distilled.items() if whose == source)
        # The engine that is to be asked gave this answer itself: another of its answers is rarely better.
        own = source == engines.reference.info.name
        before = chance(self.distilled.get((source, "replaced"), 0), tries, rarely=own)
        return chance_of_better(before, example.quality_sum, example.quality_count)

    def expand(self) -> float:
        """How likely anything new comes of expanding."""
        new = sum(count for (_, result), count in self.expanded.items() if result == "expanded")
        return chance(new, sum(self.expanded.values()))


def _question_tokens(example: Example) -> int:
    # The prompt's tokens as its engine counted them: its instructions are in them.
    return max(1, example.prompt_tokens or len(example.question) // 4)


def _cost(engine: Engine, prompt_tokens: int, completion_tokens: int) -> Cost:
    usd = engine.info.price.cost_usd(prompt_tokens, completion_tokens)
    return Cost(usd, prompt_tokens + completion_tokens, engine.load().answer_s or _ANSWER_S)


def _sum(*parts: tuple[int, Cost]) -> Cost:
    return Cost(
        sum(times * cost.usd for times, cost in parts),
        sum(times * cost.tokens for times, cost in parts),
        sum(times * cost.seconds for times, cost in parts),
    )
