"""What is known of one request beside its row, its conversation and its answer: for the page of that request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from store.database import Database
from store.decisions.kept_details import KeptDetails, KeptJson, ToolCalled
from store.decisions.requests import RequestLog
from store.decisions.texts import RequestTextLog, RequestTexts, SentExample
from store.records import RequestRecord

_CONVERSATION = frozenset({"messages", "input", "prompt"})
_NO_PARAMETERS = _CONVERSATION | {
    "model",
    "tools",
    "functions",
    "system",
    "instructions",
    "user",
    "safety_identifier",
}
_STABLE = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Attempted:
    """One engine that was asked, or was to be asked and was not."""

    engine: str
    replica: str
    """Which of its base URLs; empty where it has one."""
    kind: str
    """How it failed (engines.errors.Kind); empty where it answered."""
    status: int
    """HTTP status of its answer; 0 where none came."""
    seconds: float
    """Until its answer began, or it failed; 0 where it was not asked."""
    error: str = ""
    """Content. What it said, or what broke; empty where that is not kept."""


@dataclass(frozen=True, slots=True)
class ToolOffered:
    """A tool that the request offers. Content."""

    name: str
    description: str = ""
    parameters: Any = None
    """The JSON schema of its arguments."""


@dataclass(frozen=True, slots=True)
class RequestDetails:
    """What is known of one request. All but kinds, ids and counts is content."""

    tenant: str
    request_id: str
    completion_id: str = ""
    """The `id` of the answer that the client got; repeats have that of the first."""
    session: str = ""
    """A digest: requests with the same one belong to one conversation. See store.decisions.session_ids."""
    session_name: str = ""
    """Content. As the client names it; empty where the digest is of how its messages begin."""
    end_user: str = ""
    """The digest of its end user."""
    user: str = ""
    """Content. The end user as the client names them."""
    error_kind: str = ""
    """Why it failed, a code: of engines.errors.Kind, or the `code` of the refusal."""
    error: str = ""
    """Content. What the client was told, or what broke its answer off."""
    no_text: str = ""
    """Why no text is kept, a code: opted_out_key, opted_out_model, limited, busy, secrets, private_data, repeat, of_key (the
    text of what it repeats is gone), forgotten, off. Empty where one is kept, and where nobody knows."""
    attempts: tuple[Attempted, ...] = ()
    """Who was asked, in order."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Content. Fields of the body but its model, its conversation and its tools: temperature, max_tokens and so on."""
    tools_offered: tuple[ToolOffered, ...] = ()
    tools_called: tuple[ToolCalled, ...] = ()
    """Content."""
    finish_reasons: tuple[str, ...] = ()
    """Of each choice."""
    came: KeptJson | None = None
    """Content. The body as it came."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Content. Fields that the engine got instead; null: it got none."""
    back: KeptJson | None = None
    """Content. The body of the answer."""
    sent: tuple[SentExample, ...] = ()
    """Examples that were sent along, in order. Of a repeat: those of the first."""
    of_another: str = ""
    """The request whose body and answer these are: of a repeat the first one. Empty: its own."""
    replaced: tuple[str, ...] = ()
    """Kinds of private data of which something was replaced."""
    messages_left_out: int = 0
    """How many earlier messages were too much to keep."""
    answer_left_out: int = 0
    """Characters of the answer that are not kept."""

    def to_engine(self, examples: Mapping[int, tuple[str, str]]) -> KeptJson | None:
        """The body as the engine got it; None where nothing is kept. `examples`: question and answer by id, as they are now.

        In the place of one that is not there stands a sentence.
        """
        if self.came is None:
            return None
        if not isinstance(self.came.value, dict):
            return self.came
        body = {**self.came.value, **self.changes}
        body = {name: value for name, value in body.items() if not (name in self.changes and value is None)}
        if self.sent:
            name = "input" if "input" in body else "messages"
            body[name] = _with_examples(body.get(name), self.sent, examples)
        return KeptJson(body, self.came.left_out_characters)


class Details:
    """Reads them. Every look-up names a tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._requests = RequestLog(db)
        self._texts = RequestTextLog(db)

    def get(self, tenant: str, request_id: str) -> RequestDetails | None:
        """What is known of a tenant's request; None where it is not in the log."""
        record = self._requests.get(request_id, tenant)
        if record is None:
            return None
        own = self._kept(tenant, request_id)
        texts = self._texts.get(tenant, request_id)
        of_another = texts.request_id if texts is not None and texts.request_id != request_id else ""
        kept = _whole(self._kept(tenant, of_another) if of_another else own, texts)
        trail = json.loads(record.trail) if record.trail else {}
        return RequestDetails(
            tenant,
            request_id,
            completion_id=record.completion_id,
            session=record.session,
            session_name=own.session,
            end_user=record.end_user,
            user=own.user,
            error_kind=record.error_kind,
            error=own.error,
            no_text=record.no_text if texts is None else "",
            attempts=_attempts(trail.get("tried", ()), own.said, trail.get("error", "")) or _only(record),
            parameters=_parameters(kept.came),
            tools_offered=_offered(kept.came),
            tools_called=kept.tools_called,
            finish_reasons=kept.finish_reasons,
            came=kept.came,
            changes={} if of_another else kept.changes,
            back=kept.back,
            sent=texts.sent if texts is not None else (),
            of_another=of_another,
            replaced=tuple(
                dict.fromkeys((*own.replaced, *kept.replaced, *(texts.replaced if texts else ())))
            ),
            messages_left_out=texts.left_out if texts is not None else 0,
            answer_left_out=kept.answer_left_out,
        )

    def users(self, request_ids: Sequence[str]) -> dict[str, str]:
        """Content: the end users of these requests as clients name them, by request id; of those that name any."""
        rows = self._db.read().execute(_DETAILS_OF, (json.dumps(list(request_ids)),)).fetchall()
        found = {id: KeptDetails.unpacked(details).user for id, details in rows}
        return {id: user for id, user in found.items() if user}

    def _kept(self, tenant: str, request_id: str) -> KeptDetails:
        row = self._db.read().execute(_SELECT, (tenant, request_id)).fetchone()
        return KeptDetails.unpacked(row[0] if row is not None else None)


def _whole(kept: KeptDetails, texts: RequestTexts | None) -> KeptDetails:
    """With what is kept elsewhere put back in its place."""
    if texts is None or texts.messages is None:
        return kept
    came, back = kept.came, kept.back
    if kept.conversation and came is not None:
        messages = [{"role": one["role"], "content": one["text"]} for one in texts.messages]
        came = replace(came, value={**came.value, kept.conversation: messages})
    if kept.answer_in and back is not None:
        first, *others = back.value["choices"]
        first = {**first, "message": {**first["message"], "content": texts.answer}}
        back = replace(back, value={**back.value, "choices": [first, *others]})
    return replace(kept, came=came, back=back)


def _only(record: RequestRecord) -> tuple[Attempted, ...]:
    """Where the only engine that was asked answered, the row tells no more of it."""
    if not record.engine:
        return ()
    seconds = max(0.0, (record.first_chunk_ms or record.total_ms) - record.overhead_ms) / 1000
    return (Attempted(record.engine, "", record.error_kind, record.status, round(seconds, 3)),)


_DETAILS_OF = (
    "SELECT q.id, t.details FROM json_each(?) AS wanted JOIN requests q ON q.id = wanted.value"
    " JOIN request_texts t ON t.tenant = q.tenant AND t.request_id = q.id WHERE t.details IS NOT NULL"
)
_SELECT = "SELECT details FROM request_texts WHERE tenant = ? AND request_id = ?"


def _attempts(tried: Sequence[Mapping[str, Any]], said: Sequence[str], last: str) -> tuple[Attempted, ...]:
    """`last`: what the last one said that failed, in rows from before each had its own."""
    words = list(said) + [""] * (len(tried) - len(said))
    if last and not said:
        failed = [place for place, one in enumerate(tried) if one.get("kind")]
        if failed:
            words[failed[-1]] = last
    return tuple(
        Attempted(
            str(one["engine"]),
            str(one.get("replica", "")),
            str(one.get("kind") or ""),
            int(one.get("status") or 0),
            float(one.get("seconds") or 0.0),
            text or str(one.get("why", "")),
        )
        for one, text in zip(tried, words, strict=False)
    )


def _parameters(came: KeptJson | None) -> dict[str, Any]:
    if came is None or not isinstance(came.value, dict):
        return {}
    return {name: value for name, value in came.value.items() if name not in _NO_PARAMETERS}


def _offered(came: KeptJson | None) -> tuple[ToolOffered, ...]:
    """Of any API: `{"type": "function", "function": {...}}`, `{"name": ..., "input_schema": ...}`, or bare functions."""
    if came is None or not isinstance(came.value, dict):
        return ()
    found = []
    for name in ("tools", "functions"):
        tools = came.value.get(name)
        for tool in tools if isinstance(tools, list) else ():
            if not isinstance(tool, dict):
                continue
            said = tool["function"] if isinstance(tool.get("function"), dict) else tool
            schema = said.get("parameters", said.get("input_schema"))
            label = said.get("name") or tool.get("type") or ""
            found.append(ToolOffered(str(label), str(said.get("description") or ""), schema))
    return tuple(found)


def _with_examples(
    conversation: Any, sent: Sequence[SentExample], examples: Mapping[int, tuple[str, str]]
) -> list[Any]:
    """With the examples where router.prompt.with_examples puts them: after the stable beginning."""
    items = conversation if isinstance(conversation, list) else [{"role": "user", "content": conversation}]
    lead = 0
    while lead < len(items) and isinstance(items[lead], dict) and items[lead].get("role") in _STABLE:
        lead += 1
    added = []
    for one in sent:
        gone = f"(example {one.id} is not in the bank any more)"
        question, answer = examples.get(one.id, (gone, gone))
        added += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return [*items[:lead], *added, *items[lead:]]
