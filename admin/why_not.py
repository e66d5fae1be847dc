"""Computes why requests went to the reference engine (learning.logs.explain) beside the page: it reads many rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from admin.computing import Computations, ReportProgress
from learning.guarantee.summary import ScopeSummary
from learning.logs.explain import explained, label
from store import Store

REQUESTS = 1_000
"""The latest requests that are explained: about a tenth of a second."""
_SCOPES = 8
_FRESH_S = 20.0


@dataclass(frozen=True, slots=True)
class Question:
    """Whose requests, and each model's reference engine."""

    tenant: str | None
    references: tuple[tuple[str, str], ...]


def why_nots(store: Store, proven: Callable[[], Sequence[ScopeSummary]]) -> Computations[Question]:
    """Explains in the background. The caller closes it. `proven`: what is proven of small engines."""
    return Computations(functools.partial(compute, store, proven), "why-not", fresh_s=_FRESH_S)


def compute(
    store: Store,
    proven: Callable[[], Sequence[ScopeSummary]],
    question: Question,
    report: ReportProgress,
) -> dict[str, Any]:
    """The dearest scopes whose requests went to the reference. Raises what `report` raises."""
    references: Mapping[str, str] = dict(question.references)
    result = explained(
        store,
        references=references,
        proven=proven,
        tenant=question.tenant,
        limit=REQUESTS,
        progress=lambda done, total: report("reading the log", done / max(1, total)),
    )
    scopes = [scope for scope in result["scopes"] if scope["reasons"]]
    named = [
        {**scope, "instructions": label(store, scope["tenant"], scope["scope"])} for scope in scopes[:_SCOPES]
    ]
    return {"requests": result["requests"], "scopes": named, "more": max(0, len(scopes) - _SCOPES)}
