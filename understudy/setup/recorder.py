"""What keeps answers after they left, and what is told of everything that ended."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from engines.servers.servers import Servers
from gateway.limits.settling import settle
from gateway.recorder import Recorder
from gateway.request_log import RequestLog
from router.finished import Finished, Journey
from understudy.built import Built
from understudy.setup.responses import response_owners

if TYPE_CHECKING:
    from gateway.keepers.exact import ExactKeeper
    from gateway.keepers.keeper import Keeper

_DRAIN_S = 20.0


def add_to(built: Built) -> None:
    """Record in the background, where there is a pipeline."""
    built.owners = response_owners(built.memory)
    built.report = _report_of(built)
    exact: ExactKeeper | None = None
    found: list[Keeper] = []
    if built.memory is not None:
        from understudy.setup.keepers import books, exact_keeper, keepers

        built.books, exact, found = books(built), exact_keeper(built), keepers(built)
    if built.has_pipeline:
        found = found if exact is None else [exact, *found]
        made = built.recorder = Recorder(found, built.metrics, built.report, expecting=exact)
        built.parts.add(made, stop=partial(made.close, _DRAIN_S), finished=made.take)


def _report_of(built: Built) -> Callable[[Journey], None]:
    log = RequestLog() if built.config.log.requests else None
    bills, metrics, engines, telemetry = built.bills, built.metrics, built.engines, built.telemetry

    def report(ended: Journey) -> None:
        settle(ended)
        bills.ended(ended)
        metrics.ended(ended)
        if isinstance(ended, Finished) and ended.complete and ended.usage and not ended.by_stand_in:
            engine = engines.get(ended.engine)
            if isinstance(engine, Servers):
                engine.said(ended.usage.completion_tokens)
        if log is not None:
            log.write(ended)
        if telemetry is not None:
            telemetry.take(ended)

    return report
