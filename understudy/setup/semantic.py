"""From the settings to the objects of semantic reuse. Imported only where somebody opted in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gateway.keepers.keeper import Keeper
from gateway.reuse.keepers import Comparer, EntryKeeper, UnlessAgreed
from gateway.reuse.metrics import SemanticMetrics
from gateway.reuse.stage import Knobs, SemanticAnswers
from learning.reuse.equivalence import same_text
from understudy.memory import Memory
from understudy.settings.knobs import knobs_of
from understudy.settings.memory import MemorySettings

_THREADS = 2


@dataclass(frozen=True, slots=True)
class SemanticParts:
    """The stage of the pipeline, and what stands before and behind the keeper of examples."""

    answers: SemanticAnswers
    before: Keeper
    behind: Keeper

    def around(self, examples: Keeper) -> list[Keeper]:
        """The keeper of examples between the two that belong to reuse, in the order in which they must run."""
        return [self.before, UnlessAgreed(examples), self.behind]


def semantic_parts(
    memory: Memory, settings: MemorySettings, counters: SemanticMetrics
) -> SemanticParts | None:
    """None without examples, since a candidate is an example."""
    store, embedder = memory.store, memory.embedder
    if embedder is None or store.indexes is None:
        return None
    entries, deadline_ms = store.answers.entries, settings.advanced.reuse_deadline_ms
    knobs = knobs_of(
        Knobs,
        settings.semantic_reuse,
        audit_share=settings.advanced.reuse_audit_share,
        deadline_s=None if deadline_ms is None else deadline_ms / 1000,
    )
    answers = SemanticAnswers(
        embedder,
        store.indexes,
        entries,
        store.answers.observations,
        ThreadPoolExecutor(_THREADS, thread_name_prefix="semantic"),
        counters,
        knobs,
        memory.templates,
        bank=store.examples,
    )
    max_bytes = int(settings.advanced.exact_max_entry_kib * 1024)
    return SemanticParts(
        answers,
        Comparer(same_text, counters),
        EntryKeeper(entries, max_bytes=max_bytes),
    )
