"""Data sets as lines of JSON: requests, reviewed answers and examples with their texts, in the form of fine-tuning files.

Each line has `messages`, the answer last, which every tool for fine-tuning reads and the page takes back through admission,
and beside it what else is known. Whoever asks for one may read content: see the pages' roles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from admin.formats import tenant_label
from admin.page import Asked, BadParameter
from admin.sources import Sources
from store.decisions.reviews import NEVER_S, Reviewed
from store.decisions.texts import RequestTexts
from store.records import Example, RequestRecord
from store.sums import DAY_S, DELETED

MOST_LINES = 1_000_000
USUAL_LINES = 10_000


def wanted_tenant(sources: Sources, asked: Asked) -> str | None:
    """The tenant of the form; None for all. Raises BadParameter for one that is not there."""
    tenant = asked.text("tenant", longest=64)
    if tenant and tenant not in known_tenants(sources):
        raise BadParameter(f"tenant is {tenant!r}, which keeps nothing here", "tenant")
    return tenant or None


def known_tenants(sources: Sources) -> dict[str, str]:
    """Names by id: of every tenant that a key was made for, or that has asked anything, or has examples."""
    store, names = sources.store, sources.tenant_names()
    sources.rollups.catch_up()
    gone = {one.id for one in store.tenant_records.deleted()}
    asked = {tenant for tenant, *_ in sources.rollups.by_tenant(0.0, DAY_S)}
    known = (names.keys() - gone) | {*store.examples.tenants()} | asked
    return {tenant: tenant_label(names, tenant) for tenant in known - {DELETED}}


def request_lines(sources: Sources, asked: Asked) -> Iterator[bytes]:
    """The answered requests whose texts are kept, oldest first. Fields: `tenant`, `from`, `to`, `most`.

    What was too long to be kept as a whole says `cut`, and has weight 0 as below.
    """
    tenant, since_s, until_s = wanted_tenant(sources, asked), asked.time("from"), asked.time("to")
    pages = sources.store.decisions.pages.pages(
        tenant, since_s=since_s or 0.0, until_s=math.inf if until_s is None else until_s
    )
    texts = sources.store.decisions.texts
    rows = (
        _of_request(record, messages, found)
        for page in pages
        for record in page
        if (found := texts.get(record.tenant, record.id)) is not None
        and found.answer
        and (messages := list(found.messages or ()))
    )
    return _lines(rows, asked)


def review_lines(sources: Sources, asked: Asked) -> Iterator[bytes]:
    """The reviewed answers whose texts are kept, newest first. Fields: `tenant`, `from`, `to` (of the verdict), `most`.

    A corrected answer has the correction; a bad one has weight 0: tools for fine-tuning, and the import, leave it out.
    """
    tenant, since_s, until_s = wanted_tenant(sources, asked), asked.time("from"), asked.time("to")
    given = sources.store.outcomes.reviews.given(
        tenant=tenant,
        since_s=since_s or 0.0,
        until_s=NEVER_S if until_s is None else until_s,
        limit=MOST_LINES,
    )
    rows = (row for each in given if (row := _of_review(sources, each)) is not None)
    return _lines(rows, asked)


def example_lines(sources: Sources, asked: Asked) -> Iterator[bytes]:
    """The examples of one tenant or all, oldest first. Fields: `tenant`, `from`, `to` (of when they came), `most`."""
    tenant, since_s, until_s = wanted_tenant(sources, asked), asked.time("from"), asked.time("to")
    bank = sources.store.examples
    rows = (
        _of_example(row.example)
        for whose in ([tenant] if tenant else sorted(bank.tenants()))
        for row in bank.exported(whose)
        if (since_s or 0.0) <= row.example.created_at_s < (math.inf if until_s is None else until_s)
    )
    return _lines(rows, asked)


def _lines(rows: Iterable[dict[str, Any]], asked: Asked) -> Iterator[bytes]:
    most = asked.whole("most", USUAL_LINES, least=1, most=MOST_LINES)
    return (
        orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for _, row in zip(range(most), rows, strict=False)
    )


def _of_request(record: RequestRecord, messages: Iterable[Any], texts: RequestTexts) -> dict[str, Any]:
    answer: dict[str, Any] = {"role": "assistant", "content": texts.answer}
    if cut := _is_cut(texts):
        answer["weight"] = 0
    return {
        "messages": [*_chat(messages), answer],
        "cut": cut,
        "id": record.id,
        "at_s": record.started_at_s,
        "tenant": record.tenant,
        "model": record.model,
        "engine": record.engine,
        "status": record.status,
        "cost_usd": record.cost_usd,
        "prompt_tokens": record.prompt_tokens,
        "completion_tokens": record.completion_tokens,
        "examples": len(record.example_ids),
    }


def _of_review(sources: Sources, review: Reviewed) -> dict[str, Any] | None:
    texts = sources.store.decisions.texts.get(review.tenant, review.request_id)
    if texts is None or not texts.answer or not texts.messages:
        return None
    answer: dict[str, Any] = {"role": "assistant", "content": texts.answer}
    cut, of_use = _is_cut(texts), review.verdict == "good"
    if review.verdict == "corrected":
        corrected = sources.store.examples.by_request(review.tenant, review.request_id)
        if corrected is not None and corrected.kind == "demonstration":
            answer["content"] = corrected.answer
            cut, of_use = not texts.whole, True
    if cut or not of_use:
        answer["weight"] = 0
    return {
        "messages": [*_chat(texts.messages), answer],
        "cut": cut,
        "id": review.request_id,
        "at_s": review.at_s,
        "tenant": review.tenant,
        "verdict": review.verdict,
        "propensity": review.probability,
        "reviewer": review.user,
        "model": review.model,
        "engine": review.engine,
        "judged": review.judged,
    }


def _is_cut(texts: RequestTexts) -> bool:
    return not texts.whole or texts.details.answer_left_out > 0


def _chat(messages: Iterable[Any]) -> list[dict[str, Any]]:
    return [{"role": one.get("role", "user"), "content": one.get("text", "")} for one in messages]


def _of_example(example: Example) -> dict[str, Any]:
    count = example.quality_count
    return {
        "messages": [
            {"role": "user", "content": example.question},
            {"role": "assistant", "content": example.answer},
        ],
        "id": example.id,
        "at_s": example.created_at_s,
        "tenant": example.tenant,
        "kind": example.kind,
        "engine": example.source_engine,
        "uses": example.uses,
        "quality": example.quality_sum / count if count else None,
        "judged": count,
        "pinned": example.pinned,
        "quarantined": example.held_back_by_hand,
    }
