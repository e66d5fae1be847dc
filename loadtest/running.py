"""Runs a plan and returns its report; Ctrl-C ends it early and still returns one."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from loadtest.client_processes import ClientProcesses
from loadtest.errors import WorkerDied
from loadtest.live import LiveView
from loadtest.plan import LoadPlan
from loadtest.prices import Price
from loadtest.records import Batch
from loadtest.report.summary import summarise
from loadtest.rows import Rows
from loadtest.slo import Slo
from loadtest.totals import Totals

_SHOW_EVERY_S = 0.25


async def run_plan(
    plan: LoadPlan,
    *,
    slo: Slo | None = None,
    prices: tuple[Price, ...] = (),
    console: Console | None = None,
    quiet: bool = False,
    max_lateness_ms: float = 2.0,
    each: Callable[[Rows, list[str]], None] | None = None,
) -> dict[str, Any]:
    """Runs a plan and returns its report (see `report.summary.summarise` for the shape).

    `each` is called with the rows of measured requests as they end. A process that dies is named in the report's
    `failure` if others have results; otherwise WorkerDied is raised. SIGINT and SIGTERM stop the run early.
    """
    totals = Totals(plan.warmup_s, plan.duration_s, plan.processes, slo, prices)

    def take(batch: Batch) -> None:
        rows = totals.add(batch)
        if each is not None and len(rows):
            each(rows, batch.names)

    clients = ClientProcesses(plan, take)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    interrupted, failure = False, ""

    def stop() -> None:
        nonlocal interrupted
        interrupted = True
        clients.stop()

    view = LiveView(plan, totals, console or Console(stderr=True), quiet)
    with _signals(stop), view:
        try:
            async with asyncio.TaskGroup() as group:
                asking = group.create_task(clients.run(), name="client processes")
                showing = group.create_task(_show(clients, view, lambda: interrupted), name="live view")
                await asyncio.wait([asking])
                showing.cancel()
        except* WorkerDied as deaths:
            failure = "; ".join(str(death) for death in deaths.exceptions)
            if not totals.done:
                raise WorkerDied(failure) from None
    return summarise(
        plan,
        totals,
        started_at=started_at,
        interrupted=interrupted,
        failure=failure,
        max_lateness_ms=max_lateness_ms,
    )


async def _show(clients: ClientProcesses, view: LiveView, stopping: Callable[[], bool]) -> None:
    await clients.started.wait()
    while True:
        await asyncio.sleep(_SHOW_EVERY_S)
        view.update(time.monotonic() - clients.start_s, stopping())


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    """While inside, SIGINT and SIGTERM call `stop`; a second one has its usual effect."""
    loop = asyncio.get_running_loop()

    def once() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, once)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def round_runner(
    slo: Slo | None, prices: tuple[Price, ...], max_lateness_ms: float
) -> Callable[[LoadPlan], Awaitable[dict[str, Any]]]:
    """A function that runs one plan without a live view: a round of a comparison, or a probe of a sweep."""

    async def run_round(plan: LoadPlan) -> dict[str, Any]:
        return await run_plan(plan, slo=slo, prices=prices, quiet=True, max_lateness_ms=max_lateness_ms)

    return run_round
