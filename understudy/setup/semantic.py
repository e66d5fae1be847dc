"""From the settings to the objects of semantic reuse. Imported only where somebody opted in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from gateway.reuse.keepers import Comparer, EntryKeeper, around
from gateway.reuse.metrics import SemanticMetrics
from gateway.reuse.stage import Knobs, SemanticAnswers
from learning.reuse.equivalence import same_text
from understudy.built import Built
from understudy.settings.knobs import knobs_of

_THREADS = 2


def add_to(built: Built) -> None:
    """Reuse answers, unless there are no examples: a candidate is an example."""
    memory, settings = built.remembered, built.config.memory
    store, embedder = memory.store, memory.embedder
    if settings is None or embedder is None or store.indexes is None:
        return
    counters = SemanticMetrics(built.metrics.registry)
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
    comparer, entry_keeper = Comparer(same_text, counters), EntryKeeper(entries, max_bytes=max_bytes)
    built.around_examples = partial(around, comparer=comparer, entries=entry_keeper)
    built.semantic = built.parts.add(answers, stop=answers.close)
