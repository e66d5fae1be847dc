"""What is content of one request beside its conversation: who asked, parameters, tools, errors, and the raw JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.roles import Content
from admin.sources import Sources
from admin.summaries.sessions import path_of
from admin.words import ERRORS
from store.decisions.details import Attempted, RequestDetails
from store.decisions.kept_details import KeptJson
from store.records import Example, RequestRecord


def details(sources: Sources, record: RequestRecord, examples: Mapping[int, Example]) -> dict[str, Any]:
    """What is known of the request beside its row and its conversation. `examples`: those that were sent along, by id."""
    kept = sources.store.decisions.details.get(record.tenant, record.id) or RequestDetails(
        record.tenant, record.id
    )
    texts = {example.id: (example.question, example.answer) for example in examples.values()}
    return {
        "completion_id": record.completion_id,
        "session": _session(record, kept),
        "user": Content(kept.user) if kept.user else None,
        "user_id": record.end_user,
        "error": _error(record, kept),
        "attempts": [_attempt(one) for one in kept.attempts],
        "parameters": Content(dict(kept.parameters)),
        "tools_offered": Content(
            [
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
                for tool in kept.tools_offered
            ]
        ),
        "tools_called": Content(
            [
                {"name": call.name, "arguments": call.arguments, "id": call.id, "choice": call.choice}
                for call in kept.tools_called
            ]
        ),
        "finish_reasons": list(kept.finish_reasons),
        "raw": [
            {"name": name, "title": title, **_raw(body)}
            for name, title, body in (
                ("came", "Request as it came", kept.came),
                ("sent", "Request as the engine got it", _sent(record, kept, texts)),
                ("back", "Answer", kept.back),
            )
            if body is not None
        ],
        "answer_left_out": kept.answer_left_out,
    }


def _sent(
    record: RequestRecord, kept: RequestDetails, texts: Mapping[int, tuple[str, str]]
) -> KeptJson | None:
    """None for an answer from the cache, which asked no engine."""
    return None if record.outcome == "hit" else kept.to_engine(texts)


def _session(record: RequestRecord, kept: RequestDetails) -> dict[str, Any] | None:
    if not record.session:
        return None
    name = Content(kept.session_name) if kept.session_name else None
    return {"id": record.session, "name": name, "path": path_of(record.tenant, record.session)}


def _error(record: RequestRecord, kept: RequestDetails) -> dict[str, Any] | None:
    """Why it failed; None where it did not."""
    kind = kept.error_kind or record.error_kind
    if not kind and not kept.error:
        return None
    return {
        "kind": kind,
        "meaning": ERRORS.get(kind, ""),
        "text": Content(kept.error) if kept.error else None,
    }


def _attempt(one: Attempted) -> dict[str, Any]:
    return {
        "engine": one.engine,
        "replica": one.replica,
        "kind": one.kind,
        "meaning": ERRORS.get(one.kind, ""),
        "status": one.status,
        "ms": one.seconds * 1000,
        "error": Content(one.error) if one.error else None,
    }


def _raw(body: KeptJson) -> dict[str, Any]:
    return {
        "json": Content(body.value),
        "cut": body.cut,
        "left_out_characters": body.left_out_characters,
    }
