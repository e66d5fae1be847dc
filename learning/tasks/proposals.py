"""Finds tasks in what is remembered: instructions under which nearly all answers are few distinct labels. What is found is a
task from then on, whose student is proven as any other's, or is proposed to a person, as the model's settings say.

Counts examples: each is an answer of the reference with the fingerprint of its instructions; one that stands for several
requests counts as many. Private tenants are passed over. Reads only.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import structlog

from router.digest import shared_scope
from router.tasks.form import normalised, read
from store import Store
from store.records import Example
from store.tasks.tasks import TaskRow

log = structlog.get_logger(__name__)

LEAST_ANSWERS = 200
MOST_LABELS = 100
COVERED = 0.95
"""Share of the answers that are among the commonest labels."""
_LATEST = 20_000
_LATEST_FOUND = 2_000
"""The same if nobody asked for it: it is read every few minutes."""
_WAIT_S = 30.0
_ASKED_OF = 50
"""The number of a scope's requests that are looked up to tell which served model they were for."""


def proposals(store: Store, tenant: str, *, latest: int = _LATEST) -> Iterator[TaskRow]:
    """Tasks that could be enabled, those with the most answers first. Blocks: reads `latest` examples."""
    if tenant in store.examples.private.tenants():
        return
    by_scope: dict[str, list[Example]] = defaultdict(list)
    for example in store.examples.newest(tenant, latest):
        by_scope[shared_scope(example.scope)].append(example)
    known = {
        (row.model, row.scope) for row in store.tasks.known.all(tenant=tenant) if row.state != "proposed"
    }
    for scope, examples in sorted(by_scope.items(), key=lambda found: -_answers(found[1])):
        grounds = labels_of([(example.answer, 1 + example.merged) for example in examples])
        model = _model(store, tenant, examples) if grounds is not None else ""
        if grounds is not None and model and (model, scope) not in known:
            labels, told = grounds
            name = f"task-{scope[:8]}"
            yield TaskRow(
                tenant, model, name, "proposal", "proposed", scope, labels, time.time(), grounds=told
            )


class TaskFinder:
    """Lists, in the learner's process, what is found under models that have their tasks found. A task that a person has
    paused, or that waits for one, stays as it is."""

    def __init__(
        self,
        store: Store,
        finds: Callable[[str], bool],
        *,
        most: int,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """`finds`: whether tasks of a served model are to be found; `most`: tasks of one tenant."""
        self._store = store
        self._finds = finds
        self._most = most
        self._stopping = stopping
        self._seen: dict[str, int] = {}
        """By tenant, its newest example at the last look."""

    def step(self) -> list[TaskRow]:
        """Find and list new tasks, of tenants of whom something new is remembered. Blocks; raises StoreBusy."""
        listed: list[TaskRow] = []
        for tenant in self._store.tenants():
            newest = next((example.id for example in self._store.examples.newest(tenant, 1)), 0)
            if self._stopping() or newest == self._seen.get(tenant, 0):
                continue
            for row in proposals(self._store, tenant, latest=_LATEST_FOUND):
                found = replace(row, state="on")
                if self._finds(row.model) and self._store.tasks.known.add(found, most=self._most).result(
                    _WAIT_S
                ):
                    log.info("task_found", model=row.model, task=row.name, tenant=tenant, **row.grounds)
                    listed.append(found)
            self._seen[tenant] = newest
        return listed


def _answers(examples: list[Example]) -> int:
    return sum(1 + example.merged for example in examples)


def labels_of(
    answers: Sequence[tuple[str, int]], *, least: int = LEAST_ANSWERS
) -> tuple[tuple[str, ...], dict[str, float]] | None:
    """The labels, commonest first, each as it is mostly written, and the figures; None if the answers are no labels, or
    fewer than `least`. `answers`: each with how often it was given."""
    total = sum(count for _, count in answers)
    if total < least:
        return None
    written: dict[str, Counter[str]] = defaultdict(Counter)
    for answer, count in answers:
        found = read(answer)
        if found is not None:
            written[normalised(found[0])][found[0]] += count
    ranked = sorted(written.values(), key=lambda ways: (-ways.total(), min(ways)))[:MOST_LABELS]
    covered = sum(ways.total() for ways in ranked) / total
    # What was answered once may be a slip, or a text that happens to be short.
    labels = tuple(ways.most_common(1)[0][0] for ways in ranked if ways.total() > 1)
    if covered < COVERED or len(labels) < 2:
        return None
    return labels, {"answers": total, "distinct": len(written), "covered": round(covered, 4)}


def _model(store: Store, tenant: str, examples: list[Example]) -> str:
    """The served model of most of these requests; empty if the log of requests no longer tells."""
    requests = (store.decisions.requests.get(e.request_id, tenant) for e in examples[:_ASKED_OF])
    counted = Counter(request.model for request in requests if request is not None)
    return counted.most_common(1)[0][0] if counted else ""
