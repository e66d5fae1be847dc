"""From the settings to the objects of semantic reuse. Imported only where somebody opted in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from engines.engine import Engine
from gateway.keepers.keeper import Keeper
from gateway.metrics import Metrics
from gateway.reuse.keepers import Comparer, EntryKeeper, UnlessAgreed
from gateway.reuse.metrics import SemanticMetrics
from gateway.reuse.stage import Knobs, SemanticAnswers
from learning.outcomes.spend import Spend
from learning.reuse.equivalence import same_text
from learning.reuse.near_misses import PURPOSE, NearMisses
from store.answers.semantic_aliases import SemanticAliases
from store.answers.semantic_entries import SemanticEntries
from store.answers.semantic_observations import SemanticObservations
from understudy.memory import Memory
from understudy.settings.config import Config
from understudy.settings.knobs import knobs_of
from understudy.settings.memory import MemorySettings

_THREADS = 2


@dataclass(frozen=True, slots=True)
class SemanticParts:
    """The stage of the pipeline, and what stands before and behind the keeper of examples."""

    answers: SemanticAnswers
    before: Keeper
    behind: Keeper
    near_misses: NearMisses | None = None
    """Started and stopped with the gateway."""

    def around(self, examples: Keeper) -> list[Keeper]:
        """The keeper of examples between the two that belong to reuse, in the order in which they must run."""
        return [self.before, UnlessAgreed(examples), self.behind]


def semantic_parts(
    memory: Memory, settings: MemorySettings, metrics: Metrics, near_misses: NearMisses | None = None
) -> SemanticParts | None:
    """None without examples, since a candidate is an example."""
    store, embedder = memory.store, memory.embedder
    if embedder is None or store.indexes is None:
        return None
    counters = SemanticMetrics(metrics.registry)
    aliases = SemanticAliases(store.db) if near_misses is not None else None
    entries = SemanticEntries(store.db, ttl_s=settings.exact.ttl_s, aliases=aliases)
    knobs = knobs_of(
        Knobs,
        settings.semantic_reuse,
        audit_share=settings.advanced.reuse_audit_share,
        deadline_s=settings.advanced.reuse_deadline_ms / 1000,
    )
    answers = SemanticAnswers(
        embedder,
        store.indexes,
        entries,
        SemanticObservations(store.db),
        ThreadPoolExecutor(_THREADS, thread_name_prefix="semantic"),
        counters,
        knobs,
    )
    max_bytes = int(settings.advanced.exact_max_entry_kib * 1024)
    take = near_misses.take if near_misses else None
    return SemanticParts(
        answers,
        Comparer(same_text, counters),
        EntryKeeper(entries, max_bytes=max_bytes, near_miss=take),
        near_misses,
    )


def near_misses(
    config: Config, memory: Memory, engines: Mapping[str, Engine], metrics: Metrics
) -> NearMisses | None:
    """Judged as replay judges, for at most what one run of replay may cost, per day. None unless asked for."""
    replay, judging = config.replay, config.judging
    name = replay.judge or (judging.engine if judging else None)
    if not replay.advanced.near_misses or name is None:
        return None
    workers = config.listen.workers
    spent_usd = sum(
        line.spent.usd
        for line in memory.store.replay.side_costs.spend(since_s=time.time() - 86_400)
        if line.purpose == PURPOSE
    )
    return NearMisses(
        engines[name],
        SemanticAliases(memory.store.db),
        Spend(replay.max_run_usd / workers, spent_usd=spent_usd / workers),
        metrics.registry,
        memory.store.replay.side_costs.book,
        fields=judging.advanced.judge_fields if judging else {},
    )
