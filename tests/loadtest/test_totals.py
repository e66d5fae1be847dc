"""Sums: what is timed, what is only counted, and what belongs to the warm-up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loadtest.prices import parse_price
from loadtest.records import COLUMNS, WIDTH, Batch, Names
from loadtest.slo import parse_slo
from loadtest.totals import Totals

NAN = float("nan")


def batch(rows: list[dict[str, Any]], worker: int = 0, **more: Any) -> Batch:
    names = Names()
    table = np.full((len(rows), WIDTH), NAN)
    for k, row in enumerate(rows):
        full = {"due_s": 1.0, "late_s": 0.0, "held_s": 0.0, "latency_s": 0.1, "chunks": 0.0} | row
        for text in ("outcome", "engine", "cache", "model"):
            full[text] = names.number(full.get(text, "ok" if text == "outcome" else ""))
        table[k] = [full.get(column, NAN) for column in COLUMNS]
    return Batch(worker=worker, rows=table.tobytes(), names=names.texts, **more)


def test_a_given_up_request_counts_with_the_time_it_had_waited_and_a_fast_error_with_none() -> None:
    tally = Totals(0.0, 10.0, 1)
    tally.add(
        batch(
            [
                {"latency_s": 0.1},
                {"latency_s": 5.0, "outcome": "timeout: no answer yet"},
                {"latency_s": 0.001, "outcome": "http 503"},
                {"latency_s": 2.0, "outcome": "stopped: no answer yet"},
            ]
        )
    )
    assert tally.hist["latency"].total_count == 2
    assert tally.hist["latency"].get_max_value() == pytest.approx(5e6, rel=1e-3)
    assert (tally.done, tally.ok, tally.unfinished_longest_s) == (4, 1, 2.0)


def test_the_warm_up_is_left_out_and_counted() -> None:
    tally = Totals(2.0, 10.0, 1)
    kept = tally.add(batch([{"due_s": 1.9, "latency_s": 3.0}, {"due_s": 2.0, "latency_s": 0.1}]))
    assert len(kept) == 1 and tally.warm_requests == 1
    assert tally.hist["latency"].get_max_value() == pytest.approx(1e5, rel=1e-3)


def test_names_of_different_processes_do_not_mix() -> None:
    tally = Totals(0.0, 10.0, 2)
    tally.add(batch([{"engine": "small"}, {"engine": "large"}], worker=0))
    tally.add(batch([{"engine": "large"}], worker=1))
    assert tally.engines == {"small": 1, "large": 2}


def test_goodput_counts_what_met_every_limit() -> None:
    tally = Totals(0.0, 10.0, 1, parse_slo("latency<=200ms,ttft<=50ms,tpot<=10ms"))
    tally.add(
        batch(
            [
                {"ttft_s": 0.05, "tpot_s": 0.01},
                {"ttft_s": 0.05},  # one token: no time per token to miss
                {"ttft_s": 0.06, "tpot_s": 0.01},
                {"ttft_s": 0.01, "tpot_s": 0.02},
                {"latency_s": 0.3, "ttft_s": 0.01},
                {"ttft_s": 0.01, "outcome": "http 500"},
                {},  # never a first token
            ]
        )
    )
    assert tally.good == 2


def test_cost_follows_tokens_and_the_models_own_price() -> None:
    rows = [
        {"model": "a", "tokens_in": 1000.0, "tokens_out": 500.0},
        {"model": "b", "tokens_in": 10.0, "tokens_out": 10.0},
    ]
    tally = Totals(0.0, 10.0, 1, prices=(parse_price("a=2,4"), parse_price("10,100")))
    tally.add(batch(rows))
    assert tally.cost_usd() == pytest.approx((1000 * 2 + 500 * 4 + 10 * 10 + 10 * 100) / 1e6)
    unknown = Totals(0.0, 10.0, 1, prices=(parse_price("a=2,4"),))
    unknown.add(batch(rows))
    assert unknown.cost_usd() is None


def test_percentiles_of_gaps_are_within_the_histograms_precision() -> None:
    gaps_s = np.random.default_rng(1).lognormal(np.log(0.02), 0.5, 20_000)
    tally = Totals(0.0, 10.0, 1)
    tally.add(Batch(worker=0, gaps_s=gaps_s.tobytes()))
    for p in (50, 90, 99, 99.9):
        assert tally.hist["gap"].get_value_at_percentile(p) / 1e6 == pytest.approx(
            np.percentile(gaps_s, p), rel=0.01
        )


def test_the_timeline_puts_due_and_answers_where_they_happened() -> None:
    tally = Totals(0.0, 10.0, 1)
    tally.add(
        batch([{"due_s": 0.6, "latency_s": 2.0}, {"due_s": 0.7, "latency_s": 0.1, "outcome": "http 500"}])
    )
    width = tally.timeline.width_s
    assert tally.timeline.slices[int(0.6 / width)]["due"] == 2
    assert tally.timeline.slices[int(2.6 / width)]["ok"] == 1
    assert tally.timeline.slices[int(0.8 / width)]["failed"] == 1
