"""The benchmark of applications: the real executor and line over simulated engines, in virtual time."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import benchmarks.applications.__main__ as main
from benchmarks.applications import figures, measuring
from benchmarks.applications.client_side import RoundTrips
from benchmarks.applications.gateway_side import gateway_side
from benchmarks.applications.service import CAPPED, SPEEDS, TODAY, UNCAPPED, Site, client_side
from benchmarks.batching.batch import ENGINE_OF_2024
from loadtest.applications.shapes import chain, map_reduce, roles

OF_2024 = SPEEDS["2024"]


def alone(make: measuring.Make, site: Site, one: object) -> float:
    return measuring.one_by_one(make, site, [one])[0]  # type: ignore[list-item]


def test_the_constants_are_those_of_the_issue() -> None:
    speed = ENGINE_OF_2024
    assert (speed.step_s, speed.kv_token_s, speed.prefill_token_s) == (0.027, 0.55e-6, 160e-6)
    assert speed.kv_tokens == 61_000 and CAPPED.cap_tokens == 4_096 and not CAPPED.prefix_cache
    assert TODAY.prefix_cache and TODAY.cap_tokens is None and not UNCAPPED.prefix_cache


def test_a_chain_by_hand_takes_its_steps_and_a_round_trip_each() -> None:
    took_s = alone(client_side, Site(), chain("k", 3, answer_tokens=25))
    step_s = 25 * 0.027 + 1_030 * 160e-6
    assert took_s == pytest.approx(3 * (step_s + 0.25), rel=0.07)


def test_the_gateway_spares_all_round_trips_but_one() -> None:
    one = chain("k", 6, answer_tokens=25)
    spared_s = alone(client_side, Site(), one) - alone(gateway_side, Site(), one)
    assert spared_s == pytest.approx(5 * 0.25, rel=0.2)


def test_a_run_is_the_same_each_time() -> None:
    applications = [roles("a", 3, rounds=1), map_reduce("b", 6), chain("c", 4)]
    for make in (client_side, gateway_side):
        site = Site(OF_2024, TODAY, 2)
        assert measuring.together(make, site, applications) == measuring.together(make, site, applications)


def test_maps_run_together_behind_the_gateway_and_in_turns_under_the_cap() -> None:
    one = map_reduce("k", 12)
    assert alone(client_side, Site(), one) > 1.5 * alone(gateway_side, Site(OF_2024, TODAY), one)


def test_chat_and_documents_are_all_answered_by_either() -> None:
    site = Site(OF_2024, TODAY, 2, latency_tokens=6_144, tokens=20_480)
    for make in (client_side, gateway_side):
        found = measuring.mixed(make, site, chat_rate=0.5, map_reduce_rate=0.1, for_s=20)
        assert 0.027 <= found.decoding_s < found.chat_per_token_s < 1.0 and found.map_reduce_s > 3.0


def test_popular_prompts_are_found_more_often_where_they_are_sent_to_one_place() -> None:
    site = Site(OF_2024, TODAY, 4, latency_tokens=None)
    spread = measuring.popular_prompts(client_side, site, 16, 1.0, requests=80)
    gathered = measuring.popular_prompts(gateway_side, site, 16, 1.0, requests=80)
    assert gathered.cached_share > spread.cached_share + 0.2
    assert gathered.per_token_s < spread.per_token_s


def test_a_knee_is_the_highest_rate_within_the_bound() -> None:
    site = Site(OF_2024, UNCAPPED, 1)
    rate = measuring.knee(client_side, site, 2, 0.2, 1.0, requests=24)
    assert measuring.popular_prompts(client_side, site, 2, rate, requests=24).per_token_s <= 0.2
    above = measuring.popular_prompts(client_side, site, 2, rate * 1.1, requests=24)
    assert above.per_token_s > 0.2 or rate == 1.0


async def test_round_trips_take_200_to_300_ms() -> None:
    trips = RoundTrips(3, low_s=0.0, high_s=0.0)

    async def said() -> str:
        return "x"

    assert await trips.call(said) == "x" and trips.calls == 1
    drawn = [RoundTrips(seed)._chance.uniform(0.2, 0.3) for seed in range(50)]
    assert min(drawn) >= 0.2 and max(drawn) <= 0.3


def test_the_benchmark_prints_its_figures_beside_the_papers_and_that_engines_are_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "figures.json"
    monkeypatch.setattr(sys, "argv", ["applications", "--only", "map-reduce,roles", "--json", str(written)])
    main.main()
    said = capsys.readouterr().out
    assert "Engines are simulated" in said and "a 27 ms, b 0.55 us, c 160 us, KV 61,000" in said
    assert "[2.37x]" in said and "[11.7x]" in said and "Engines of today" in said
    result = json.loads(written.read_text())
    assert result["simulated"]["2024"]["kv_tokens"] == 61_000
    found = {one["what"]: one for one in result["figures"]["2024"]}
    assert all(one["reached"] for one in found.values()), found
    # Of today's engines one thing is promised: never to be slower than the client.
    assert {one["promised"] for one in result["figures"]["today"]} == {None, 1.0}
    assert all(one["reached"] for one in result["figures"]["today"])


def test_every_part_has_a_promise_of_2024() -> None:
    assert set(figures.PARTS) == {"chains", "map-reduce", "roles", "mixed", "popular", "plain", "slo"}
    assert figures.Era("2024", 1).promised and not figures.Era("today", 1).promised
