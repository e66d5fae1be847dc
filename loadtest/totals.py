"""Adds up the batches of the client processes: HdrHistograms, a timeline, shares and costs, in bounded memory.

Latency percentiles hold the requests that were answered, and those given up at the timeout with the time they had waited
(a lower bound). Requests that failed at once are counted, not timed: a fast error is not a fast answer.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from loadtest.prices import Price, price_of
from loadtest.records import AT, OK, Batch
from loadtest.rows import Rows, doubles_of, rows_of
from loadtest.slo import Slo

MAX_US = 3_600_000_000
BUCKETS_PER_DECADE = 100
HEAT_EDGES_S: NDArray[np.float64] = np.logspace(-5, 3, 8 * BUCKETS_PER_DECADE + 1)
METRICS = ("latency", "ttft", "tpot", "gap", "late", "lag")


class Timeline:
    """Counts per time slice. Latencies are kept in buckets of 2.3 % and belong to the slice in which they were due."""

    def __init__(self, span_s: float) -> None:
        self.width_s = max(0.5, span_s / 600)
        self.slices: dict[int, dict[str, Any]] = {}

    def at(self, instant_s: float) -> dict[str, Any]:
        """The slice of a time."""
        number = int(max(0.0, instant_s) / self.width_s)
        found = self.slices.get(number)
        if found is None:
            zeros = np.zeros(len(HEAT_EDGES_S) - 1, dtype=np.int64)
            found = self.slices[number] = {
                "due": 0,
                "ok": 0,
                "failed": 0,
                "chunks": 0,
                "in_flight": 0,
                "heat": zeros,
            }
        return found

    def add(self, rows: Rows) -> None:
        """Counts requests: due and latency in the slice where they were due, the rest where they ended."""
        due_s, latency_s = rows[:, AT["due_s"]], rows[:, AT["latency_s"]]
        ok = rows[:, AT["outcome"]] == OK
        due_slice = (np.maximum(due_s, 0.0) / self.width_s).astype(int)
        end_slice = (np.maximum(due_s + latency_s, 0.0) / self.width_s).astype(int)
        for number in np.unique(due_slice):
            here = due_slice == number
            found = self.at((number + 0.5) * self.width_s)
            found["due"] += int(here.sum())
            heat = np.histogram(
                np.clip(latency_s[here & ok], HEAT_EDGES_S[0], HEAT_EDGES_S[-1]), HEAT_EDGES_S
            )[0]
            found["heat"] += heat
        for number in np.unique(end_slice):
            here = end_slice == number
            found = self.at((number + 0.5) * self.width_s)
            found["ok"] += int((here & ok).sum())
            found["failed"] += int((here & ~ok).sum())
            found["chunks"] += int(rows[here, AT["chunks"]].sum())


class Totals:
    """The totals of one run. `add` takes batches as they come."""

    def __init__(
        self,
        warmup_s: float,
        span_s: float,
        processes: int,
        slo: Slo | None = None,
        prices: tuple[Price, ...] = (),
    ) -> None:
        self.hist = {name: HdrHistogram(1, MAX_US, 3) for name in METRICS}
        self.timeline = Timeline(span_s)
        self.outcomes: Counter[str] = Counter()
        self.engines: Counter[str] = Counter()
        self.caches: Counter[str] = Counter()
        self.model_tokens: dict[str, list[float]] = {}
        self.last: dict[int, Batch] = {}
        self.warm_requests = 0
        self.done = 0
        self.good = 0
        self.chunks = 0
        self.coalesced = 0
        self.tokens_out = 0.0
        self.held = 0
        self.unfinished_longest_s = 0.0
        self.first_due_s = float("inf")
        self.last_due_s = 0.0
        self.last_end_s = 0.0
        self.quality_sum = 0.0
        self.quality_count = 0
        self.slo = slo
        self.prices = prices
        self._warmup_s = warmup_s
        self._processes = processes

    @property
    def ok(self) -> int:
        """Requests answered completely."""
        return self.outcomes["ok"]

    @property
    def launched(self) -> int:
        """Requests sent so far, including the warm-up."""
        return sum(batch.launched for batch in self.last.values())

    @property
    def in_flight(self) -> int:
        """Requests sent and not yet answered."""
        return sum(batch.in_flight for batch in self.last.values())

    def add(self, batch: Batch) -> Rows:
        """Adds a batch; returns its rows without those of the warm-up."""
        rows = rows_of(batch.rows)
        self.last[batch.worker] = batch
        self._record("lag", doubles_of(batch.lags_s))
        if len(rows):
            self.timeline.add(rows)
            end_s = float((rows[:, AT["due_s"]] + rows[:, AT["latency_s"]]).max())
            here = self.timeline.at(end_s)
            here["in_flight"] = max(here["in_flight"], self.in_flight)
            warm = rows[:, AT["due_s"]] < self._warmup_s
            self.warm_requests += int(warm.sum())
            rows = rows[~warm]
        gaps_s = doubles_of(batch.gaps_s)
        self._record("gap", gaps_s)
        self.coalesced += int((gaps_s == 0.0).sum())
        if len(rows):
            self._count(rows, batch.names)
        return rows

    def _record(self, metric: str, values_s: NDArray[np.float64]) -> None:
        if not len(values_s):
            return
        values_us = np.clip(np.rint(values_s * 1e6), 1, MAX_US).astype(np.int64)
        record = self.hist[metric].record_value
        for value, count in zip(*np.unique(values_us, return_counts=True), strict=True):
            record(int(value), int(count))

    def _count(self, rows: Rows, names: list[str]) -> None:
        due_s, latency_s = rows[:, AT["due_s"]], rows[:, AT["latency_s"]]
        outcome = rows[:, AT["outcome"]].astype(int)
        given_up = [k for k, name in enumerate(names) if name.startswith("timeout")]
        cut_short = [k for k, name in enumerate(names) if name.startswith("stopped")]
        ok = outcome == OK
        self.done += len(rows)
        self._record("latency", latency_s[ok | np.isin(outcome, given_up)])
        self._record("late", rows[:, AT["late_s"]])
        for metric in ("ttft", "tpot"):
            values_s = rows[ok, AT[f"{metric}_s"]]
            self._record(metric, values_s[~np.isnan(values_s)])
        left = latency_s[np.isin(outcome, cut_short)]
        if len(left):
            self.unfinished_longest_s = max(self.unfinished_longest_s, float(left.max()))
        self.held += int((rows[:, AT["held_s"]] > 1e-3).sum())
        self.chunks += int(rows[:, AT["chunks"]].sum())
        self.first_due_s = min(self.first_due_s, float(due_s.min()))
        self.last_due_s = max(self.last_due_s, float(due_s.max()))
        self.last_end_s = max(self.last_end_s, float((due_s + latency_s).max()))
        self.tokens_out += float(np.nansum(rows[ok, AT["tokens_out"]]))
        quality = rows[ok, AT["quality"]]
        quality = quality[~np.isnan(quality)]
        self.quality_sum += float(quality.sum())
        self.quality_count += len(quality)
        if self.slo is not None:
            self.good += int(self.slo.met(rows).sum())
        _share(self.outcomes, outcome, names)
        _share(self.engines, rows[ok, AT["engine"]].astype(int), names)
        _share(self.caches, rows[ok, AT["cache"]].astype(int), names)
        models = rows[:, AT["model"]].astype(int)
        for number in np.unique(models[ok]):
            of_it = rows[ok & (models == number)]
            sums = self.model_tokens.setdefault(names[number], [0.0, 0.0, 0.0])
            sums[0] += len(of_it)
            sums[1] += float(np.nansum(of_it[:, AT["tokens_in"]]))
            sums[2] += float(np.nansum(of_it[:, AT["tokens_out"]]))

    def cost_usd(self) -> float | None:
        """Dollars for all answers; None if the price of a model that answered is unknown."""
        total = 0.0
        for model, (_, tokens_in, tokens_out) in self.model_tokens.items():
            price = price_of(model, self.prices)
            if price is None:
                return None
            total += (tokens_in * price.per_million_in_usd + tokens_out * price.per_million_out_usd) / 1e6
        return total if self.model_tokens else None


def _share(counter: Counter[str], numbers: NDArray[np.int64], names: list[str]) -> None:
    for number, count in zip(*np.unique(numbers, return_counts=True), strict=True):
        counter[names[int(number)]] += int(count)
