"""Shows a run's progress: a table and a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from loadtest.plan import LoadPlan
from loadtest.totals import Totals

_LINE_EVERY_S = 5.0


class LiveView:
    """Shows a run's totals as they grow. A context manager; call `update` a few times a second."""

    def __init__(self, plan: LoadPlan, totals: Totals, console: Console, quiet: bool = False) -> None:
        self._plan = plan
        self._totals = totals
        self._console = console
        self._quiet = quiet
        self._last_line_s = 0.0
        self._before: tuple[float, int] = (0.0, 0)
        self._rate = 0.0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(None),
            TextColumn("{task.percentage:3.0f} %"),
            TimeRemainingColumn(),
        )
        self._task = self._bar.add_task("asking", total=plan.duration_s)
        self._live: Live | None = None
        if console.is_terminal and not quiet:
            self._live = Live(console=console, refresh_per_second=4, transient=True, auto_refresh=False)

    def __enter__(self) -> LiveView:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, elapsed_s: float, stopping: bool) -> None:
        """Shows the state `elapsed_s` after the start."""
        if self._quiet:
            return
        answered = self._totals.done + self._totals.warm_requests
        before_s, before = self._before
        if elapsed_s - before_s >= 1.0:
            self._rate = (answered - before) / (elapsed_s - before_s)
            self._before = (elapsed_s, answered)
        if self._live is not None:
            state = (
                "stopping"
                if stopping
                else "waiting for answers"
                if elapsed_s > self._plan.duration_s
                else "asking"
            )
            if elapsed_s < self._plan.warmup_s:
                state = "warming up"
            self._bar.update(self._task, completed=min(elapsed_s, self._plan.duration_s), description=state)
            self._live.update(Group(self._table(), self._bar), refresh=True)
        elif time.monotonic() - self._last_line_s >= _LINE_EVERY_S:
            self._last_line_s = time.monotonic()
            figures = "  ".join(f"{name} {value}" for name, value in self._figures())
            self._console.print(f"{elapsed_s:6.1f} s  {figures}", highlight=False)

    def _figures(self) -> list[tuple[str, str]]:
        totals = self._totals
        figures = [
            ("sent", str(totals.launched)),
            ("requests/s", f"{self._rate:.1f}"),
            ("errors", str(totals.done - totals.ok)),
            ("in flight", str(totals.in_flight)),
        ]
        for label, metric in (("latency", "latency"), ("TTFT", "ttft"), ("gap", "gap"), ("late", "late")):
            hist: Any = totals.hist[metric]
            if hist.total_count:
                p50, p99 = (hist.get_value_at_percentile(p) / 1e3 for p in (50, 99))
                figures.append((label, f"{p50:.1f}/{p99:.1f} ms"))
        return figures

    def _table(self) -> Table:
        table = Table(title=f"{self._plan.target.label}  (times: p50/p99)", title_justify="left")
        figures = self._figures()
        for name, _ in figures:
            table.add_column(name, justify="right")
        table.add_row(*(value for _, value in figures))
        return table
