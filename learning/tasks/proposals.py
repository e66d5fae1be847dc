"""Finds tasks in what is remembered: instructions under which nearly all answers are few distinct labels. A person decides.

Counts examples: each is an answer of the reference with the fingerprint of its instructions; one that stands for several
requests counts as many. Private tenants are passed over. Reads only.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator

from router.digest import shared_scope
from router.tasks.form import normalised, read
from store import Store
from store.records import Example
from store.tasks.tasks import TaskRow

LEAST_ANSWERS = 200
MOST_LABELS = 100
COVERED = 0.95
"""Share of the answers that are among the commonest labels."""
_LATEST = 20_000
_ASKED_OF = 50
"""Of a scope's requests, how many are looked up to tell which served model they were for."""


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
        grounds = _labels(examples)
        model = _model(store, tenant, examples) if grounds is not None else ""
        if grounds is not None and model and (model, scope) not in known:
            labels, told = grounds
            name = f"task-{scope[:8]}"
            yield TaskRow(
                tenant, model, name, "proposal", "proposed", scope, labels, time.time(), grounds=told
            )


def _answers(examples: list[Example]) -> int:
    return sum(1 + example.merged for example in examples)


def _labels(examples: list[Example]) -> tuple[tuple[str, ...], dict[str, float]] | None:
    """The labels, commonest first, each as it is mostly written, and the figures; None where the answers are no labels."""
    total = _answers(examples)
    if total < LEAST_ANSWERS:
        return None
    written: dict[str, Counter[str]] = defaultdict(Counter)
    for example in examples:
        found = read(example.answer)
        if found is not None:
            written[normalised(found[0])][found[0]] += 1 + example.merged
    ranked = sorted(written.values(), key=lambda ways: (-ways.total(), min(ways)))[:MOST_LABELS]
    covered = sum(ways.total() for ways in ranked) / total
    # What was answered once may be a slip, or a text that happens to be short.
    labels = tuple(ways.most_common(1)[0][0] for ways in ranked if ways.total() > 1)
    if covered < COVERED or len(labels) < 2:
        return None
    return labels, {"answers": total, "distinct": len(written), "covered": round(covered, 4)}


def _model(store: Store, tenant: str, examples: list[Example]) -> str:
    """The served model of most of these requests; empty where the log of requests no longer tells."""
    requests = (store.decisions.requests.get(e.request_id, tenant) for e in examples[:_ASKED_OF])
    counted = Counter(request.model for request in requests if request is not None)
    return counted.most_common(1)[0][0] if counted else ""
