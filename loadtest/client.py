"""Sends one client process's share of the requests when they are due, whatever the endpoint does meanwhile.

Open loop: the schedule never waits for answers, and every time is measured from the due time, so a stall shows up in every
request it delayed (no coordinated omission). Closed loop: a number of users, each waiting for its answer. Results are summed
up and shown elsewhere.
"""

from __future__ import annotations

import asyncio
import math
import random
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator

from loadtest.clock import Alarm, now
from loadtest.connections import Pool
from loadtest.exchange import Exchange
from loadtest.plan import LoadPlan
from loadtest.records import Batch, Names, new_doubles
from loadtest.traces import read_trace
from loadtest.workload import Choice, Workload

_BURST = 32  # requests sent before the loop gets to read again
_TICK_S = 0.010
_TICKS_PER_BATCH = 25
_GRACE_S = 1.0  # for requests in flight when the run is stopped


def due_times(plan: LoadPlan) -> Iterator[float]:
    """The due time of every request of the run, in s after its start, ascending, within the plan's limits."""
    if plan.arrivals.kind == "trace":
        assert plan.workload.trace_file is not None
        times: Iterator[float] = (row.t_s / plan.speed for row in read_trace(plan.workload.trace_file))
    else:
        times = plan.arrivals.instants(plan.seed)
    for k, instant in enumerate(times):
        if instant >= plan.duration_s or (plan.max_requests and k >= plan.max_requests):
            return
        yield instant


class LoadClient:
    """Executes one process's share of a plan. `report` is called with a Batch four times a second."""

    def __init__(self, plan: LoadPlan, index: int, report: Callable[[Batch], None]) -> None:
        self._plan = plan
        self._index = index
        self._on_batch = report
        self._workload = Workload(plan)
        self._names = Names()
        self._rows = new_doubles()
        self._lags = new_doubles()
        self._under_way: deque[Exchange] = deque()
        self._in_flight = 0
        self._pending = 0  # closed-loop users and next turns that wait until they are due
        self._launched = 0
        self._limit = _share(plan.max_requests, plan.processes, index) if plan.max_requests else math.inf
        self._start_s = self._warm_until_s = 0.0
        self._ticks = 0
        self._stopping = False
        self._exhausted = False
        self._shares = self._own_share()
        self._next: tuple[float, Exchange] | None = None
        self._over = asyncio.Event()
        self._engine_header = plan.engine_header.lower().encode()
        self._quality_header = plan.quality_header.lower().encode()
        self._head = request_head(plan)
        if not plan.closed_users:
            self._prepare_next()

    async def run(self, address: tuple[str, int], start_s: float) -> None:
        """Sends from `start_s` (monotonic) until the schedule has ended and every request is answered or given up."""
        plan = self._plan
        loop = asyncio.get_running_loop()
        self._start_s = start_s
        self._warm_until_s = start_s + plan.warmup_s
        self._alarm = Alarm(loop)
        limit = _share(plan.max_in_flight, plan.processes, self._index)
        async with asyncio.TaskGroup() as group:
            self._pool = Pool(
                group, address, tls_context(plan), plan.target.host, limit, plan.timeout_s, self._finished
            )
            if plan.closed_users:
                self._begin_users()
            else:
                self._alarm.call_at(start_s, self._send_due)
            self._alarm.call_at(start_s, self._tick, start_s)
            await self._over.wait()
            self._pool.close()
        self._report(final=True)
        self._alarm.close()

    def stop(self) -> None:
        """Sends nothing more; gives up requests in flight after a second."""
        if self._stopping:
            return
        self._stopping = True
        self._alarm.call_at(now() + _GRACE_S, self._give_up_all)

    def _own_share(self) -> Iterator[tuple[float, Choice]]:
        processes, index = self._plan.processes, self._index
        for k, due_s in enumerate(due_times(self._plan)):
            choice = self._workload.choose()
            if k % processes == index:
                yield due_s, choice

    def _prepare_next(self) -> None:
        """Builds the next request before it is due, so that building makes nothing late."""
        found = next(self._shares, None)
        if found is None:
            self._next = None
            return
        self._next = (found[0], self._exchange(found[1]))

    def _exchange(self, choice: Choice) -> Exchange:
        body = self._workload.build(choice)
        expect = body.expect if self._plan.expect_answers else ""
        exchange = Exchange(self._wrap(body.data), 0.0, 0.0, expect)
        exchange.after = body.after
        return exchange

    def _wrap(self, body: bytes) -> bytes:
        return b"%s%d\r\n\r\n%s" % (self._head, len(body), body)

    def _send_due(self) -> None:
        if self._stopping:
            return
        for _ in range(_BURST):
            if self._next is None:
                self._exhausted = True
                return
            due_s = self._start_s + self._next[0]
            if due_s > now():
                break
            exchange = self._next[1]
            exchange.due_s = due_s
            self._send(exchange)
            self._prepare_next()
        if self._next is None:
            self._exhausted = True
            return
        self._alarm.call_at(max(now(), self._start_s + self._next[0]), self._send_due)

    def _send(self, exchange: Exchange) -> None:
        exchange.taken_s = now()
        exchange.warm = exchange.due_s < self._warm_until_s
        self._launched += 1
        self._in_flight += 1
        self._under_way.append(exchange)
        self._pool.submit(exchange)

    def _finished(self, exchange: Exchange) -> None:
        self._in_flight -= 1
        self._rows.extend(exchange.row(self._names, self._start_s, self._engine_header, self._quality_header))
        user, after, ok = exchange.user, exchange.after, exchange.outcome == "ok"
        exchange.forget()
        if self._stopping:
            return
        if after and ok:
            turn = Exchange(self._wrap(after[0]), 0.0, 0.0)
            turn.after, turn.user = after[1:], user
            self._later(turn, self._plan.workload.think_s)
        elif user >= 0:
            self._next_of_user(user, self._plan.closed_think_s)

    def _begin_users(self) -> None:
        share = _share(self._plan.closed_users, self._plan.processes, self._index)
        rng = random.Random(f"users {self._plan.seed} {self._index}")
        # Spread over the first moments: users who all start at once would keep returning at once.
        for user in range(share):
            self._next_of_user(
                user, (self._start_s - now()) + rng.random() * min(0.2, self._plan.duration_s / 10)
            )
        if not share:
            self._exhausted = True

    def _next_of_user(self, user: int, wait_s: float) -> None:
        if self._launched + self._pending >= self._limit:
            return
        choice = self._workload.choose()
        for _ in range(self._plan.processes - 1):
            self._workload.choose()
        exchange = self._exchange(choice)
        exchange.user = user
        self._later(exchange, wait_s)

    def _later(self, exchange: Exchange, wait_s: float) -> None:
        due_s = now() + wait_s
        if due_s >= self._start_s + self._plan.duration_s:
            return
        self._pending += 1
        exchange.due_s = due_s
        if wait_s <= 0:
            self._send_later(exchange)
        else:
            self._alarm.call_at(due_s, self._send_later, exchange)

    def _send_later(self, exchange: Exchange) -> None:
        self._pending -= 1
        if not self._stopping:
            self._send(exchange)

    def _tick(self, due_s: float) -> None:
        instant = now()
        if instant >= self._warm_until_s:
            self._lags.append(instant - due_s)
        self._end_the_overdue(instant)
        self._ticks += 1
        schedule_over = self._exhausted or self._stopping or bool(self._plan.closed_users)
        if schedule_over and not self._in_flight and (self._stopping or not self._pending):
            self._over.set()
            return
        if self._ticks % _TICKS_PER_BATCH == 0:
            self._report()
        self._alarm.call_at(max(due_s + _TICK_S, instant), self._tick, max(due_s + _TICK_S, instant))

    def _end_the_overdue(self, instant: float) -> None:
        line, limit_s = self._under_way, self._plan.timeout_s
        while line and (line[0].ended or line[0].taken_s + limit_s <= instant):
            exchange = line.popleft()
            if not exchange.ended:
                self._give_up(exchange, "timeout")

    def _give_up(self, exchange: Exchange, why: str) -> None:
        if not exchange.begun_s:
            phase = "waiting for a free connection"
        elif exchange.carrier is None:
            phase = "connecting"
        elif exchange.nothing_read:
            phase = "no answer yet"
        else:
            phase = "answer not complete"
        exchange.end(f"{why}: {phase}")
        self._pool.give_up(exchange)
        self._finished(exchange)

    def _give_up_all(self) -> None:
        while self._under_way:
            exchange = self._under_way.popleft()
            if not exchange.ended:
                self._give_up(exchange, "stopped")

    def _report(self, final: bool = False) -> None:
        pool = self._pool
        batch = Batch(
            worker=self._index,
            rows=self._rows.tobytes(),
            gaps_s=pool.gaps.tobytes(),
            lags_s=self._lags.tobytes(),
            names=list(self._names.texts),
            launched=self._launched,
            in_flight=self._in_flight,
            waiting=pool.waiting,
            connects=pool.connects,
            stale_retries=pool.stale_retries,
            cpu_s=time.process_time(),
            exhausted=self._exhausted,
            final=final,
        )
        self._rows, self._lags, pool.gaps = new_doubles(), new_doubles(), new_doubles()
        self._on_batch(batch)


def request_head(plan: LoadPlan) -> bytes:
    """The request's head up to the value of content-length. Raises ValueError for a header that would break the format."""
    target = plan.target
    lines = [f"POST {target.path} HTTP/1.1", f"host: {target.host_header}", "content-type: application/json"]
    given = {name.lower() for name, _ in target.headers}
    if "user-agent" not in given:
        lines.append("user-agent: understudy-loadtest")
    if "accept" not in given:
        lines.append(f"accept: {'text/event-stream' if plan.workload.stream else 'application/json'}")
    for name, value in target.headers:
        if any(c in name + value for c in "\r\n\0") or not name.strip():
            raise ValueError(f"header {name!r} holds a line break or has no name")
        lines.append(f"{name}: {value}")
    return ("\r\n".join(lines) + "\r\ncontent-length: ").encode("latin-1")


def tls_context(plan: LoadPlan) -> ssl.SSLContext | None:
    """TLS settings for https targets, None for http."""
    if not plan.target.tls:
        return None
    context = ssl.create_default_context()
    if not plan.target.verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _share(total: int, parts: int, index: int) -> int:
    return total // parts + (1 if index < total % parts else 0)
