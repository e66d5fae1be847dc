"""Watches what operators want to be told of, and delivers the messages, in one process at a time.

Whoever holds the lease in the store looks every few seconds, notes what has become so, and posts what is due: signed, with
retries for three days. What a receiver does, hangs or redirects, holds up nobody else.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import aiohttp
import structlog
from prometheus_client import CollectorRegistry
from prometheus_client import Counter as Series
from standardwebhooks.webhooks import Webhook

from store.guarding import check_here
from store.jobs.leases import Lease
from store.jobs.webhooks import Crossing, Message, State, WebhookOutbox
from understudy.webhooks.shapes import SIGNED, Shape, shaped

log = structlog.get_logger(__name__)

_LOOK_EVERY_S = 1.0
_TIMEOUT_S = 10.0
_AT_ONCE = 4
"""Posts to one receiver at a time."""
RETRY_AFTER_S = (5, 30, 120, 600, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 72_000)
"""Seconds until the next try, after each that failed. Then it is given up."""
_LONGEST_S = 86_400.0
_PAUSE_S = 60.0
_GONE = 410


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A receiver."""

    url: str = field(repr=False)
    secret: str = field(repr=False)
    """What signs messages; of PagerDuty the routing key; else empty."""
    events: frozenset[str]
    shape: Shape = SIGNED

    @property
    def id(self) -> str:
        """Under which its messages are kept: its URL may hold a token. Services of PagerDuty share one URL."""
        of = self.url + self.secret if self.shape == "pagerduty" else self.url
        return hashlib.sha256(of.encode()).hexdigest()[:24]


class WebhookMetrics:
    """Series of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.tries = Series(
            "understudy_webhooks", "Tries to deliver a message.", ["event", "result"], registry=registry
        )


class Webhooks:
    """`look` says how things stand; it blocks, and is asked on a thread."""

    def __init__(
        self,
        outbox: WebhookOutbox,
        lease: Lease,
        endpoints: Sequence[Endpoint],
        look: Callable[[float], Sequence[Crossing]],
        metrics: WebhookMetrics,
        *,
        every_s: float = _LOOK_EVERY_S,
        timeout_s: float = _TIMEOUT_S,
        retry_after_s: Sequence[float] = RETRY_AFTER_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._outbox = outbox
        self._lease = lease
        self._endpoints = {endpoint.id: endpoint for endpoint in endpoints}
        self._look = look
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._retry_after_s = tuple(retry_after_s)
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._under_way: set[str] = set()
        self._tried_meanwhile: set[str] = set()
        """Messages whose try ended since the last look began: what that look read of them may be older."""
        self._busy: Counter[str] = Counter()
        self._tries = metrics.tries

    def start(self) -> None:
        """Begin. Inside the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="webhooks")

    async def aclose(self) -> None:
        """Stop, leaving what was not delivered to whoever is next."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        await asyncio.to_thread(self._lease.release)

    async def _run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        cookies = aiohttp.DummyCookieJar()
        async with (
            aiohttp.ClientSession(timeout=timeout, cookie_jar=cookies, auto_decompress=False) as session,
            asyncio.TaskGroup() as posts,
        ):
            while True:
                try:
                    for message in await self._due():
                        if self._may_begin(message):
                            posts.create_task(self._deliver(message, session), name=f"post {message.id}")
                except Exception as error:
                    log.error("webhooks_failed", error=error)
                await asyncio.sleep(self._every_s)

    async def _due(self) -> list[Message]:
        """What is to be posted now, after a look at how things stand; nothing while another process does this."""
        now_s = self._clock()
        self._tried_meanwhile.clear()
        if not await asyncio.to_thread(self._lease.take):
            return []
        crossings = await asyncio.to_thread(self._changed, now_s)
        if crossings:
            wants = [(endpoint.id, endpoint.events) for endpoint in self._endpoints.values()]
            with self._lease.holding():
                noticed = await asyncio.wrap_future(self._outbox.notice(crossings, wants, now_s))
            for name in noticed:
                log.info("noticed", what=name)
        return await asyncio.to_thread(self._outbox.due, now_s)

    def _may_begin(self, message: Message) -> bool:
        if message.id in self._under_way | self._tried_meanwhile or self._busy[message.endpoint] >= _AT_ONCE:
            return False
        self._under_way.add(message.id)
        self._busy[message.endpoint] += 1
        return True

    def _changed(self, now_s: float) -> list[Crossing]:
        return self._outbox.changed(self._look(now_s))

    async def _deliver(self, message: Message, session: aiohttp.ClientSession) -> None:
        try:
            with self._lease.holding():
                await self._try(message, session)
        except Exception as error:
            # It stays due, and is sent once more with the same id; not at once, since nobody notes that it was.
            log.error("webhook_failed", message=message.id, error=error)
            await asyncio.sleep(_PAUSE_S)
        finally:
            self._under_way.discard(message.id)
            self._tried_meanwhile.add(message.id)
            self._busy[message.endpoint] -= 1

    async def _try(self, message: Message, session: aiohttp.ClientSession) -> None:
        endpoint = self._endpoints.get(message.endpoint)
        state: State
        asked_again_s = 0.0
        if endpoint is None:
            result = "not_configured"
        else:
            check_here()
            result, asked_again_s = await self._post(message, endpoint, session)
        now_s = self._clock()
        if result.startswith("2"):
            state, due_at_s = "delivered", now_s
        elif endpoint is None or result == str(_GONE) or message.tries >= len(self._retry_after_s):
            state, due_at_s = "given_up", now_s
            log.warning("webhook_given_up", message=message.id, what=message.event, result=result)
        else:
            after_s = self._retry_after_s[message.tries] * random.uniform(0.9, 1.1)
            state, due_at_s = "due", now_s + min(max(after_s, asked_again_s), _LONGEST_S)
        self._tries.labels(message.event, result).inc()
        await asyncio.wrap_future(self._outbox.tried(message.id, state, due_at_s, result))

    async def _post(
        self, message: Message, endpoint: Endpoint, session: aiohttp.ClientSession
    ) -> tuple[str, float]:
        """(status or a word, seconds that the receiver asks to wait)."""
        at = datetime.fromtimestamp(int(self._clock()), UTC)
        body = shaped(endpoint.shape, message.id, message.body, endpoint.secret)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "understudy-webhooks",
            "webhook-id": message.id,
        }
        if endpoint.shape == SIGNED:
            headers["webhook-timestamp"] = str(int(at.timestamp()))
            headers["webhook-signature"] = Webhook(endpoint.secret).sign(message.id, at, body)
        try:
            async with session.post(
                endpoint.url, data=body.encode(), headers=headers, allow_redirects=False
            ) as response:
                wait = response.headers.get("Retry-After", "")
                return str(response.status), float(wait) if wait.isascii() and wait.isdigit() else 0.0
        except TimeoutError:
            return "timeout", 0.0
        except (aiohttp.ClientError, OSError, ValueError):
            return "unreachable", 0.0
