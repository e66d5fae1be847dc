"""Finished requests, for tests of what is done with them."""

from __future__ import annotations

from typing import Any

from multidict import CIMultiDict

from engines.answers.answer import Body
from engines.chat import ChatRequest
from learning.bank.contributor import EndUsers
from router.asked import Arrival, Asked, Controls
from router.finished import Finished, Outcome
from tests.answers import from_events, from_json

END_USERS = EndUsers(b"s" * 32, apart=True)
ARRIVAL_FIELDS = frozenset(Arrival.__dataclass_fields__)


def chat_request(text: str = "Q?", **fields: Any) -> ChatRequest:
    messages = [{"role": "user", "content": text}]
    return ChatRequest(b"", fields, "m", messages, stream=False, include_usage=False)


def whole(body: bytes, content_type: str = "application/json") -> Body:
    """A body that was kept."""
    return Body([body], len(body), content_type)


def finished(
    chat: ChatRequest | None = None,
    controls: Controls | None = None,
    body: bytes | Body = b"",
    *,
    read: bool = True,
    **changes: Any,
) -> Finished:
    """A request that was answered in full, changed as a test wants it; `read`: as the recorder hands it to a keeper."""
    defaults: dict[str, Any] = {"id": "req-1", "began": 100.0, "started_at_s": 1000.0, "tenant": "a1"}
    arrived = defaults | {name: changes.pop(name) for name in list(changes) if name in ARRIVAL_FIELDS}
    arrival = Arrival(**arrived)
    chat = chat or chat_request()
    behind = END_USERS.behind(arrival, {}, chat.fields)
    asked = Asked(
        arrival,
        "/chat/completions",
        CIMultiDict(),
        chat,
        controls or Controls(),
        contributor=behind.contributor,
        end_user=behind.end_user,
        user=END_USERS.sources.user({}, chat.fields),
    )
    sent = body if isinstance(body, Body) else whole(body) if body else Body(content_type="application/json")
    wanted = {"outcome": Outcome.ANSWERED, "status": 200, "model": chat.model, "body": sent} | changes
    if read and "assembled" not in wanted:
        data = b"".join(sent.chunks)
        wanted["assembled"] = from_events(data) if sent.streamed else from_json(data)
    return Finished(arrival=arrival, asked=asked, **wanted)
