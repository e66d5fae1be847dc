"""The simulation of the paper's experiments runs, says that it is one, and its parts do what they are said to."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import benchmarks.echolm.__main__ as main
from benchmarks.echolm import engines, examples, paper, routers, run, scenarios
from benchmarks.echolm.world import FITS, World, cut_mean, win_rate
from loadtest.traces import TraceRow


@pytest.fixture(scope="module")
def scales() -> Any:
    return examples.Scales((0.2, 0.4, 0.6, 1.6, 1.5), (0.01, 0.015, 0.02, 0.05, 0.06))


def test_a_lone_request_takes_what_the_model_says() -> None:
    engine = engines.Engine(engines.LARGE)
    engine.submit(1, 500, 200, 0.0)
    (ended,) = engine.advance(1e6)
    assert ended.at_s == pytest.approx(engines.LARGE.idle_s(500, 200))


def test_the_engines_stand_in_the_papers_ratios() -> None:
    large, small = engines.LARGE, engines.SMALL
    assert 1 - small.idle_s(60, 200) / large.idle_s(60, 200) == pytest.approx(
        paper.IDLE_LATENCY_CUT, abs=0.03
    )


def test_more_than_an_engine_can_run_wait_their_turn() -> None:
    engine = engines.Engine(engines.LARGE)
    most = engines.LARGE.most_running
    for request in range(2 * most):
        engine.submit(request, 10, 100, 0.0)
    load = engine.load()
    assert (load.in_flight, load.queued) == (most, most)
    assert load.utilisation == 2.0
    ended = [e.request for e in engine.advance(1e6)]
    assert ended == sorted(ended)
    assert engine.in_flight == 0


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 20), st.integers(1, 900), st.integers(1, 300)), min_size=1, max_size=30),
    st.lists(st.floats(0, 60), max_size=20),
)
def test_looking_at_an_engine_does_not_change_when_it_answers(
    requests: list[tuple[float, int, int]], looks: list[float]
) -> None:
    requests = sorted(requests)

    def ends(looked_at: list[float]) -> dict[int, float]:
        engine, found = engines.Engine(engines.SMALL), {}
        events = sorted(
            [(at, i) for i, (at, _, _) in enumerate(requests)] + [(at, -1) for at in looked_at],
            key=lambda e: e[0],
        )
        for at, i in events:
            found.update({e.request: e.at_s for e in engine.advance(at)})
            if i >= 0:
                engine.submit(i, requests[i][1], requests[i][2], at)
        found.update({e.request: e.at_s for e in engine.advance(1e9)})
        return found

    undisturbed, watched = ends([]), ends(looks)
    assert undisturbed.keys() == watched.keys() == set(range(len(requests)))
    assert all(watched[i] == pytest.approx(undisturbed[i]) for i in undisturbed)
    assert all(undisturbed[i] >= at for i, (at, _, _) in enumerate(requests))


def test_scores_are_fitted_to_the_win_rate_and_the_mean_of_the_paper() -> None:
    for fit, dataset in zip(FITS, paper.GEMMA, strict=True):
        assert win_rate(fit.mean, fit.deviation) == pytest.approx(dataset.wins_alone, abs=1e-3)
        assert cut_mean(fit.mean, fit.deviation) == pytest.approx(dataset.score_alone, abs=1e-3)


def test_the_world_repeats_itself_from_its_seed_and_most_requests_have_a_like() -> None:
    def made(seed: int) -> list[Any]:
        world = World(seed)
        return [world.query() for _ in range(600)]

    first, again, other = made(3), made(3), made(4)
    assert [q.score for q in first] == [q.score for q in again] != [q.score for q in other]
    vectors = np.stack([q.vector for q in first])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    cosines = vectors @ vectors.T - 2 * np.eye(len(vectors))
    assert 0.5 < (cosines.max(1) > 0.8).mean() < 0.9


def _bank(scales: Any, seed: int = 1, size: int = 800) -> tuple[Any, Any]:
    world = World(seed)
    bank = examples.Bank(scales, seed, 3000)
    for _ in range(size):
        bank.add(world.query())
    return world, bank


def test_examples_have_diminishing_returns_and_poor_ones_harm(scales: Any) -> None:
    world, bank = _bank(scales)
    query = world.query()
    shifts = [bank.shift(query, [1.0] * n) for n in range(6)]
    steps = np.diff(shifts)
    assert shifts[0] == 0 < steps[-1]
    assert (np.diff(steps) < 0).all()
    assert bank.shift(query, [1.0, -0.5]) < shifts[1]
    assert bank.shift(query, [-0.5]) < 0


def test_the_proxy_tells_more_than_similarity_does(scales: Any) -> None:
    world, bank = _bank(scales)
    told, near, true = [], [], []
    for query in (world.query() for _ in range(300)):
        seen = bank.look(query)
        told += [c.gain for c in seen.near]
        near += [c.similarity for c in seen.near]
        true += list(bank.expected_gains(query, seen.fits))
    assert np.corrcoef(told, true)[0, 1] > np.corrcoef(near, true)[0, 1] + 0.1


def test_a_fork_of_a_bank_grows_by_itself(scales: Any) -> None:
    world, bank = _bank(scales, size=20)
    twin = bank.fork()
    twin.add(world.query())
    assert (len(bank), len(twin)) == (20, 21)


def test_a_threshold_offloads_the_share_it_was_set_to() -> None:
    world = World(1)
    queries = [world.query() for _ in range(1000)]
    router = routers.Threshold(0.3).settle(queries)
    assert np.mean([router.decide(q, (), 0.0).to_small for q in queries]) == pytest.approx(0.3, abs=0.01)


def test_always_asking_the_large_engine_ties_with_itself() -> None:
    world = World(1)
    arrivals = run.poisson([world.query() for _ in range(50)], 2.0, random.Random(1))
    figures = run.Pass(routers.Fixed(False), engines.SMALL, engines.LARGE).run(arrivals).figures()
    assert (figures["win_rate"], figures["offloaded"], figures["requests"]) == (0.5, 0.0, 50.0)


def test_the_gateway_begins_with_the_rule_and_learns_from_late_outcomes(scales: Any) -> None:
    world, bank = _bank(scales)
    gateway = routers.Gateway(bank, 0.25, random.Random(1))
    arrivals = run.poisson([world.query() for _ in range(1500)], 4.0, random.Random(1))
    play = run.Pass(gateway, engines.SMALL, engines.LARGE, bank=bank)
    play.run(arrivals[:200])
    assert gateway.bandit is None
    play.run(arrivals[200:])
    assert gateway.bandit is not None and gateway.bandit.learned > routers.OUTCOMES_TO_LEARN
    assert len(bank) > 800


def test_a_lower_dial_offloads_more_and_both_ends_can_be_reached(scales: Any) -> None:
    size = scenarios.Size(seeds=1, minutes=1.5, warm_up=1000, dials=(0.3,), step_minutes=1.0)
    stage = scenarios.Stage(scales, 1, size)
    arrivals = stage.poisson(2.0)
    shares = [
        stage.play(stage.gateway("ours", dial), arrivals).figures()["offloaded"] for dial in (0.0, 0.25, 1.0)
    ]
    assert shares[0] > 0.9 and shares[2] < 0.2
    assert shares[0] > shares[1] > shares[2]


@pytest.mark.slow
def test_under_a_load_step_the_share_rises_and_falls_and_the_tail_improves(scales: Any) -> None:
    size = scenarios.Size(seeds=1, minutes=1.0, warm_up=1000, dials=(0.3,), step_minutes=3.0)
    step = scenarios.load_step(scenarios.Stage(scales, 1, size))
    before, during, after = (p["offloaded"] for p in step["load-aware"]["phases"])
    assert during > before and during > after
    assert step["load-aware"]["all"]["p95_s"] < step["load-blind"]["all"]["p95_s"]


def test_no_loss_is_read_between_points() -> None:
    at = scenarios.at_no_loss
    assert at([(2.0, 0.6), (4.0, 0.4)]) == pytest.approx(3.0)
    assert at([(2.0, 0.4)]) == pytest.approx(1.0)
    assert at([(5.0, 0.5), (2.0, 0.45)]) == 5.0


@pytest.mark.slow
def test_everything_that_comes_out_is_labelled_as_simulation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = scenarios.Size(seeds=1, minutes=0.5, warm_up=300, dials=(0.25,), step_minutes=1.0)
    monkeypatch.setattr(main, "QUICK", tiny)
    calibrated = examples.calibrated
    monkeypatch.setattr(main, "calibrated", lambda *sizes, **kept: calibrated(60, 200, 3, **kept))
    out = tmp_path / "echolm.json"
    monkeypatch.setattr(
        sys, "argv", ["echolm", "--quick", "--data", str(tmp_path), "--json", str(out), "--seeds", "1"]
    )
    main.main()
    said = capsys.readouterr()
    assert said.out.startswith("SIMULATION") and "paper" in said.out
    assert "skipped" in said.err
    found = json.loads(out.read_text())
    assert found["simulation"] is True
    assert set(found["frontier"]) >= set(scenarios.ABLATIONS)


def test_a_trace_brings_its_times_and_lengths(scales: Any) -> None:
    size = scenarios.Size(seeds=1, minutes=1.0, warm_up=50, dials=(0.3,), step_minutes=1.0)
    rows = [TraceRow(float(t), 100 + t, 10 + t) for t in range(200)]
    arrivals = scenarios.Stage(scales, 2, size).traced(rows)
    assert all(60 <= a.at_s < 120 for a in arrivals)
    assert [a.query.tokens_in for a in arrivals] == [100 + int(a.at_s) for a in arrivals]
