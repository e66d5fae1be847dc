"""One guardrail: a server that is asked by HTTP, within a deadline, and left alone for a while once it keeps failing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import aiohttp
from prometheus_client import CollectorRegistry, Counter

from engines.off_loop import off_loop
from engines.servers.breaker import Breaker
from gateway.guardrails.contract import UNAVAILABLE, NoVerdict, Verdict, Withheld, read_verdict
from router.asked import Arrival

T = TypeVar("T")

_ANSWER_BYTES = 64 * 1024
_FAILURES = 5
_OPEN_S = 10.0


@dataclass(frozen=True, slots=True)
class Guarding:
    """What the configuration says of one."""

    name: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    lets_pass: bool
    """What becomes of a request or an answer while it does not answer: it passes, or is refused."""
    before: bool = True
    """Asked about requests; else about answers."""
    models: tuple[str, ...] = ()
    """Globs of the models that it is asked about; none: all."""
    tenants: frozenset[str] = frozenset()
    """Whose requests it is asked about, by name or id; empty: everybody's."""

    def concerns(self, arrival: Arrival, model: str | None) -> bool:
        """Whether it is asked about this. `model`: None where nobody can tell which; then it is."""
        if self.tenants and self.tenants.isdisjoint((arrival.tenant_name, arrival.tenant)):
            return False
        return not self.models or model is None or any(fnmatchcase(model, glob) for glob in self.models)


class GuardrailMetrics:
    """Series of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.verdicts = Counter(
            "understudy_guardrail",
            "What guardrails said of requests and answers.",
            ["guardrail", "when", "verdict"],
            registry=registry,
        )


class Guardrail:
    """`open_session` gives the HTTP client that all of them share."""

    def __init__(
        self, guarding: Guarding, metrics: GuardrailMetrics, open_session: Callable[[], aiohttp.ClientSession]
    ) -> None:
        self.guarding = guarding
        self._open_session = open_session
        self._verdicts = metrics.verdicts
        self._breaker = Breaker(failures=_FAILURES, open_s=_OPEN_S)

    async def rules(self, question: bytes, what: str, instead: Callable[[Mapping[str, Any]], T]) -> T | None:
        """What is to stand in place of a request or an answer (`what`), which `instead` makes of what it said; None: it may
        pass. Raises Withheld for what it blocks, and NoVerdict, which is noted against it."""
        verdict, made = await self._says(question), None
        if verdict.action == "replace":
            try:
                made = await off_loop(len(question), instead, verdict.said)
            except NoVerdict:
                self.counted("failed")
                raise
        self.counted(verdict.action)
        if verdict.action == "block":
            said = f": {verdict.reason}" if verdict.reason else "."
            name = self.guarding.name
            raise Withheld(name, f"The guardrail '{name}' blocked this {what}{said}")
        return made

    def counted(self, verdict: str) -> None:
        """Count what it said."""
        when = "before" if self.guarding.before else "after"
        self._verdicts.labels(self.guarding.name, when, verdict).inc()

    def missed(self) -> str:
        """It gave no verdict, and what it was asked about passes: how that is noted. Raises Withheld where it does not."""
        name = self.guarding.name
        if not self.guarding.lets_pass:
            raise Withheld(
                name,
                f"The guardrail '{name}' gave no verdict, and nothing passes without it.",
                status=503,
                code=UNAVAILABLE,
            )
        return f"guardrails:{name}"

    async def _says(self, question: bytes) -> Verdict:
        gate = self._breaker.gate
        if not gate.lets_through:
            self.counted("skipped")
            raise NoVerdict
        entered = gate.enter()
        try:
            verdict = read_verdict(await self._posted(question))
        except (NoVerdict, aiohttp.ClientError, TimeoutError, OSError):
            self._breaker.failed(entered)
            self.counted("failed")
            raise NoVerdict from None
        except BaseException:
            if entered is not None:
                entered.abandoned()
            raise
        if entered is not None:
            self._breaker.probed(entered)
        self._breaker.answered()
        return verdict

    async def _posted(self, question: bytes) -> bytes:
        headers = {"Content-Type": "application/json", **self.guarding.headers}
        # What replaces may be about as long as what it replaces.
        most_bytes = _ANSWER_BYTES + 2 * len(question)
        async with (
            asyncio.timeout(self.guarding.timeout_s),
            self._open_session().post(
                self.guarding.url, data=question, headers=headers, allow_redirects=False
            ) as response,
        ):
            if response.status != 200:
                raise NoVerdict
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > most_bytes:
                    raise NoVerdict
        return bytes(body)
