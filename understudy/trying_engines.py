"""Tests one engine past any gateway: its health check, then one short answer, both timed. For the command and the pages."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass

from engines.asking import Bill, NotAnswered, ask, chat_of
from engines.errors import EngineError
from engines.registry import Registry
from engines.servers.server import Server
from engines.servers.servers import Servers
from understudy.background.engine_watch import shown_error
from understudy.settings.config import Config
from understudy.setup.engines import Tenants, engines, keys_of

_TOKENS = 16
_ANSWER_WITHIN_S = 60.0
_CODES = {
    "api": "it does not speak chat completions",
    "too_large": "its answer is too large",
    "unreadable": "what it said is no answer in text",
}
"""Of engines.asking.NotAnswered."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of testing one replica of an engine."""

    engine: str
    replica: str
    good: bool
    said: str
    """In words, keys masked."""
    health_ms: float | None = None
    """How long the health check took."""
    answer_ms: float | None = None
    """How long the answer took; None where none came, or none was asked for."""
    cost_usd: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0


async def tried(config: Config, engine: str, replica: str = "") -> list[Trial]:
    """Tests a configured engine, each of its replicas or the named one, one after the other. Raises EngineMissing."""
    only = config.model_copy(update={"engines": {engine: config.engines[engine]}})
    registry = Registry(engines(only, Tenants(secrets.token_bytes(32))))
    try:
        return [await _test(one, config) for one in registry.servers if replica in ("", one.name)]
    finally:
        await registry.aclose()


def why_not(error: NotAnswered, config: Config) -> str:
    """Why an engine gave no answer, in words, keys masked."""
    code, cause = str(error), error.__cause__
    if isinstance(cause, EngineError):
        return shown_error(cause.message, keys_of(config))
    if code.startswith("status_"):
        return f"HTTP status {code.removeprefix('status_')}"
    return _CODES.get(code, code)


async def _test(server: Server, config: Config) -> Trial:
    name, replica, began, keys = server.info.name, server.name, time.monotonic(), keys_of(config)
    try:
        await server.engine.health()
    except EngineError as error:
        said = f"health check failed: {shown_error(error.message, keys)}"
        return Trial(name, replica, False, said, health_ms=_ms_since(began))
    health_ms = _ms_since(began)
    if not server.info.holds_key:
        said = "lives; not asked further: it is sent its clients' own keys"
        return Trial(name, replica, True, said, health_ms)
    bill = Bill({})
    # An engine without a model of its own is asked as clients ask it: for one that it serves.
    served = next((model for model, one in config.models.items() if name in one.engines), name)
    fields = {"model": server.info.model or served, "max_tokens": _TOKENS}
    chat = chat_of(fields, [{"role": "user", "content": "Say OK."}])
    try:
        async with asyncio.timeout(_ANSWER_WITHIN_S):
            answer = await ask(Servers([server]), chat, most_tokens=_TOKENS, bill=bill, purpose="test")
    except (NotAnswered, TimeoutError) as error:
        why = (
            server.last_failure.told if server.last_failure is not None else str(error) or "no answer in time"
        )
        said = f"lives, but does not answer: {shown_error(why, keys)}"
        return Trial(name, replica, False, said, health_ms, cost_usd=bill.usd)
    return Trial(
        name,
        replica,
        True,
        f"answered in {answer.latency_s:.2f} s",
        health_ms,
        round(answer.latency_s * 1000, 1),
        bill.usd,
        answer.usage.prompt_tokens,
        answer.usage.completion_tokens,
    )


def _ms_since(began: float) -> float:
    return round((time.monotonic() - began) * 1000, 1)
