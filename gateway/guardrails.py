"""Guardrails: servers of the operator's that are asked about a request before anything answers it.

Each gets the request's body with who asks which API, and says `allow` or `block`. Nothing is changed: a request goes out as
it came, or not at all. An answer from memory is asked about like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter

from engines.errors import RequestError
from gateway.off_loop import off_loop
from gateway.wire import is_json, read_ahead, read_json_ahead
from router.asked import Arrival

_ANSWER_BYTES = 64 * 1024
_REASON_CHARACTERS = 300
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Guardrail:
    """One of them."""

    name: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    lets_pass: bool
    """What becomes of a request while it does not answer: it passes, or is refused."""
    tenants: frozenset[str] = frozenset()
    """Whose requests it is asked about, by name or id; empty: everybody's."""

    def concerns(self, arrival: Arrival) -> bool:
        """Whether it is asked about this one's requests."""
        return not self.tenants or not self.tenants.isdisjoint((arrival.tenant_name, arrival.tenant))


class _NoVerdict(Exception):
    """It did not say `allow` or `block` in time."""


class GuardrailMetrics:
    """Series of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.verdicts = Counter(
            "understudy_guardrail",
            "What guardrails said of requests.",
            ["guardrail", "verdict"],
            registry=registry,
        )


class Guardrails:
    """Asks all of them, in order. `aclose` at the end."""

    def __init__(
        self, guardrails: Sequence[Guardrail], metrics: GuardrailMetrics, *, max_json_bytes: int
    ) -> None:
        self._guardrails = tuple(guardrails)
        self._max_json_bytes = max_json_bytes
        self._session: aiohttp.ClientSession | None = None
        self._verdicts = metrics.verdicts

    async def check(self, request: web.BaseRequest, arrival: Arrival) -> None:
        """Raises RequestError: 400 `content_blocked` for a request that one of them blocks, 503 while one that must answer
        does not, 400 and 413 for a body that cannot be read."""
        asked = [guardrail for guardrail in self._guardrails if guardrail.concerns(arrival)]
        if not asked or request.method != "POST" or not request.body_exists:
            return
        question = await self._question(request, arrival)
        for guardrail in asked:
            await self._ask(guardrail, question)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _question(self, request: web.BaseRequest, arrival: Arrival) -> bytes:
        fields: dict[str, Any] | None = None
        size = 0
        if is_json(request):
            raw = await read_ahead(request, self._max_json_bytes)
            size = len(raw)
            fields = await read_json_ahead(request, raw, self._max_json_bytes) if raw.strip() else {}
        question = {
            "id": arrival.id,
            "api": arrival.api,
            "path": arrival.path[:200],
            "tenant": arrival.tenant_name or arrival.tenant,
            "key": arrival.key_name or arrival.key_id,
            # Null: a form, or an encoding that is not read here.
            "request": fields,
        }
        return await off_loop(size, orjson.dumps, question)

    async def _ask(self, guardrail: Guardrail, question: bytes) -> None:
        verdict, reason = "failed", ""
        try:
            verdict, reason = await self._verdict(guardrail, question)
        except (_NoVerdict, aiohttp.ClientError, TimeoutError, OSError):
            if guardrail.lets_pass:
                return
            raise RequestError(
                f"The guardrail '{guardrail.name}' did not answer, and nothing passes without it.",
                status=503,
                code="guardrail_unavailable",
                retry_after_s=_RETRY_S,
            ) from None
        finally:
            self._verdicts.labels(guardrail.name, verdict).inc()
        if verdict == "block":
            said = f": {reason}" if reason else "."
            raise RequestError(
                f"The guardrail '{guardrail.name}' blocked this request{said}", code="content_blocked"
            )

    async def _verdict(self, guardrail: Guardrail, question: bytes) -> tuple[str, str]:
        headers = {"Content-Type": "application/json", **guardrail.headers}
        async with (
            asyncio.timeout(guardrail.timeout_s),
            self._open_session().post(
                guardrail.url, data=question, headers=headers, allow_redirects=False
            ) as response,
        ):
            if response.status != 200:
                raise _NoVerdict
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > _ANSWER_BYTES:
                    raise _NoVerdict
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise _NoVerdict from None
        action = answer.get("action") if isinstance(answer, dict) else None
        if action not in ("allow", "block"):
            raise _NoVerdict
        reason = answer.get("reason")
        return action, _readable(reason) if isinstance(reason, str) else ""

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=60),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session


def _readable(text: str) -> str:
    return "".join(c for c in text[:_REASON_CHARACTERS] if c.isprintable())
