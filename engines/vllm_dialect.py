"""What a request to vLLM carries that only the gateway may say: a salt for the tenant's prefix cache, and a priority; and
where vLLM has it."""

from __future__ import annotations

import hmac
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import orjson

from engines.apis import AT_ROOT
from engines.chat import ChatRequest
from engines.engine import EngineRequest
from engines.placement import PLAIN
from engines.servers.line import expected_tokens

_OURS = frozenset({"cache_salt", "priority"})
"""Body fields that only the gateway may set: a client could read another's cache by its timing, or jump the queue."""

_VERSIONS: Mapping[str, tuple[str | None, ...]] = {
    "/rerank": (None, "", "/v1", "/v2"),
    "/score": (None, "", "/v1"),
}
"""Where vLLM has these; others of engines.apis.AT_ROOT are at its root alone."""


@dataclass(frozen=True, slots=True)
class Priorities:
    """vLLM's priority of a request, lower is sooner; None sends none (a server that does not order may refuse any)."""

    clients: int | None = None
    tenants: Mapping[str, int] | None = None
    """By tenant id, before `clients`."""
    background: int | None = None
    """Of what the gateway asks by itself."""
    order: bool = False
    """Among requests of one priority, whether the order of the line is sent: by class, then by work left in the run."""

    def of(self, request: EngineRequest) -> int | None:
        """What to send with a request."""
        clients = (self.tenants or {}).get(request.tenant, self.clients)
        priority = self.background if request.background else clients
        return (priority or 0) * _PLACES + _place(request) if self.order else priority


_PLACES = 1000
_CLASS = 300
_PER_DOUBLING = 16


def _place(request: EngineRequest) -> int:
    """Below `_PLACES`: the lower, the sooner. What the gateway asks by itself comes last."""
    if request.background:
        return _PLACES - 1
    placement = request.placement or PLAIN
    work = placement.work_left or placement.expected_tokens or expected_tokens(request)
    return _CLASS * placement.rank + min(_CLASS - 1, int(_PER_DOUBLING * math.log2(1 + work)))


class Dialect:
    """Puts our fields into chat requests. `secret` makes the tenants' salts; None sends none."""

    def __init__(self, secret: bytes | None = None, priorities: Priorities | None = None) -> None:
        self._priorities = priorities or Priorities()
        self._salt = lru_cache(maxsize=1024)(lambda tenant: _salt(secret, tenant) if secret else "")

    def prepared(self, request: EngineRequest) -> EngineRequest:
        """The request with our fields, and without the client's own of these names; itself where nothing changes."""
        chat = request.chat
        path = request.target.partition("?")[0]
        if path in AT_ROOT and request.below not in _VERSIONS.get(path, ("",)):
            return replace(request, below="")
        if chat is None or not isinstance(request.body, bytes):
            return request
        ours: dict[str, Any] = {}
        if request.tenant and (salt := self._salt(request.tenant)):
            ours["cache_salt"] = salt
        if (priority := self._priorities.of(request)) is not None:
            ours["priority"] = priority
        if not ours and chat.own_fields.keys().isdisjoint(_OURS):
            return request
        headers = request.headers.copy()
        headers.popall("Content-Length", None)
        headers.popall("Content-Encoding", None)
        encoded = request.headers.get("Content-Encoding", "identity").strip().lower() != "identity"
        return replace(request, headers=headers, body=_with(chat, ours, encoded=encoded))


def _salt(secret: bytes, tenant: str) -> str:
    """HMAC-SHA256 (RFC 2104), 128 bits of it in hex: equal for a tenant's requests, and nothing another could guess."""
    return hmac.digest(
        secret, b"vllm cache salt\0" + tenant.encode("utf-8", "surrogatepass"), "sha256"
    ).hex()[:32]


def _with(chat: ChatRequest, ours: Mapping[str, Any], *, encoded: bool) -> bytes:
    """The body with our fields and without the client's own of these names."""
    if encoded or not chat.own_fields or not chat.own_fields.keys().isdisjoint(_OURS):
        fields = {name: value for name, value in chat.own_fields.items() if name not in _OURS}
        return json.dumps(fields | dict(ours), ensure_ascii=False, separators=(",", ":")).encode()
    # Put before the first field: the rest of the body, which may be long, stays the bytes it was.
    return b"{" + orjson.dumps(ours)[1:-1] + b"," + chat.body.lstrip()[1:]
