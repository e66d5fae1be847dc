"""The cap on examples follows what is observed, moves on no thin evidence, and never depends on a broken artifact."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.examples.count import DEFAULT, RUNGS, BadCounts, ExampleCounts, Knobs, Observed, learnt

NOW_S = 1_000_000.0


def observed(most: int, quality: float, *, engine: str = "small", **changes: float) -> Observed:
    fields = {"quality_alone": 0.4, "tokens": 60 * most, "probability": 1.0, "at_s": NOW_S} | changes
    return Observed(
        engine,
        most,
        quality,
        fields["quality_alone"],
        int(fields["tokens"]),
        fields["probability"],
        fields["at_s"],
    )


def traffic(right: dict[int, float], each: int, rng: random.Random, **changes: float) -> list[Observed]:
    """`each` requests per rung, right with the given probability."""
    return [
        observed(most, float(rng.random() < chance), **changes)
        for most, chance in right.items()
        for _ in range(each)
    ]


def test_an_engine_never_heard_of_gets_the_default() -> None:
    ladder = ExampleCounts().ladder("small", Knobs())
    assert ladder.best == DEFAULT == 5
    assert ladder.probabilities == {5: 0.95, 3: 0.025, 8: 0.025}
    assert ExampleCounts().ladder("small", Knobs(default=0, explore_share=0)).probabilities == {0: 1.0}
    assert ExampleCounts().ladder("small", Knobs(default=8)).probabilities == {8: 0.95, 5: 0.05}


def test_thin_evidence_moves_nothing() -> None:
    lucky = [observed(8, 1.0) for _ in range(5)] + [observed(5, 0.0) for _ in range(5)]
    assert learnt(lucky, now_s=NOW_S).ladder("small", Knobs()).best == DEFAULT
    moved = 0
    for seed in range(200):
        same = traffic(dict.fromkeys(RUNGS, 0.5), 30, random.Random(seed))
        moved += learnt(same, now_s=NOW_S).ladder("small", Knobs()).best != DEFAULT
    assert moved < 40, "six equal rungs: noise alone seldom moves the cap"


def test_the_cap_goes_where_quality_is_best_on_ample_evidence() -> None:
    rows = traffic({0: 0.3, 1: 0.5, 2: 0.8, 3: 0.6, 5: 0.55, 8: 0.5}, 2000, random.Random(1))
    ladder = learnt(rows, now_s=NOW_S).ladder("small", Knobs())
    assert ladder.best == 2
    assert ladder.values[2] == pytest.approx(0.4, abs=0.03), "its gain over what was expected alone"


def test_no_examples_at_all_can_be_the_best_number() -> None:
    rows = traffic({0: 0.6, 1: 0.5, 2: 0.45, 3: 0.4, 5: 0.4, 8: 0.4}, 2000, random.Random(2))
    assert learnt(rows, now_s=NOW_S).ladder("small", Knobs()).best == 0


def test_dear_tokens_are_worth_only_what_they_bring() -> None:
    rows = traffic({1: 0.60, 3: 0.70, 5: 0.72, 8: 0.73}, 4000, random.Random(3))
    counts = learnt(rows, now_s=NOW_S)
    assert counts.ladder("small", Knobs(gain_per_ktok=0.0)).best in (5, 8)
    assert counts.ladder("small", Knobs(gain_per_ktok=0.4)).best == 3
    assert counts.ladder("small", Knobs(gain_per_ktok=3.0)).best in (0, 1)


def test_one_engines_evidence_says_nothing_of_another() -> None:
    rows = [observed(2, 1.0) for _ in range(3000)] + [observed(5, 0.0) for _ in range(3000)]
    counts = learnt(rows, now_s=NOW_S)
    assert counts.ladder("small", Knobs()).best == 2
    assert counts.ladder("other", Knobs()).best == DEFAULT


def test_what_was_seldom_looked_at_counts_for_as_many_as_it_stands_for() -> None:
    # Right answers were judged four times as often as wrong ones: the plain mean would say 0.8.
    rows = [observed(3, 1.0, probability=1.0)] * 400 + [observed(3, 0.0, probability=0.25)] * 100
    sums = learnt(rows, now_s=NOW_S).engines["small"][RUNGS.index(3)]
    assert sums.quality / sums.weight == pytest.approx(0.5)
    assert sums.worth_of < 500 == sums.observations


def test_one_rare_observation_does_not_outweigh_everything() -> None:
    rows = [observed(5, 0.0)] * 200 + [observed(5, 1.0, probability=1e-9)]
    sums = learnt(rows, now_s=NOW_S).engines["small"][RUNGS.index(5)]
    assert sums.quality / sums.weight < 0.25


def test_old_evidence_fades() -> None:
    day = 86_400.0
    old = [observed(2, 1.0, at_s=NOW_S - 70 * day), observed(5, 0.0, at_s=NOW_S - 70 * day)] * 2000
    new = [observed(2, 0.0), observed(5, 1.0)] * 400
    assert learnt(old, now_s=NOW_S - 70 * day).ladder("small", Knobs()).best == 2
    assert learnt(old + new, now_s=NOW_S, half_life_s=7 * day).ladder("small", Knobs()).best == 5
    assert learnt(old, now_s=NOW_S + 365 * day).ladder("small", Knobs()).best == DEFAULT


def test_easy_requests_do_not_pass_for_a_good_cap() -> None:
    easy = [observed(8, 0.9, quality_alone=0.9)] * 2000
    hard = [observed(5, 0.6, quality_alone=0.2)] * 2000
    assert learnt(easy + hard, now_s=NOW_S).ladder("small", Knobs()).best == 5


@pytest.mark.parametrize("at_most", [None, 0, 1, 4, 5, 100])
def test_caps_are_drawn_as_often_as_they_say(at_most: int | None) -> None:
    ladder = ExampleCounts().ladder("small", Knobs(explore_share=0.3))
    rng, drawn = random.Random(7), Counter[int]()
    said: dict[int, float] = {}
    for _ in range(20_000):
        count = ladder.drawn(rng, at_most)
        drawn[count.most] += 1
        said[count.most] = count.probability
        assert at_most is None or count.most <= at_most
        assert count.explored == (count.most != min(5, at_most if at_most is not None else 5))
    assert sum(said.values()) == pytest.approx(1.0)
    for most, probability in said.items():
        assert drawn[most] / 20_000 == pytest.approx(probability, abs=0.015)


def test_it_finds_its_way_from_the_default_by_its_own_exploration() -> None:
    """Closed loop: only caps that were drawn are observed; the world is best at 2."""
    right = {0: 0.30, 1: 0.55, 2: 0.80, 3: 0.70, 5: 0.55, 8: 0.45}
    rng, rows, counts = random.Random(11), list[Observed](), ExampleCounts()
    caps = []
    for _ in range(25):
        ladder = counts.ladder("small", Knobs(explore_share=0.1))
        caps.append(ladder.best)
        for _ in range(800):
            count = ladder.drawn(rng)
            rows.append(
                observed(count.most, float(rng.random() < right[count.most]), probability=count.probability)
            )
        counts = learnt(rows, now_s=NOW_S)
    assert caps[0] == 5 and caps[-5:] == [2] * 5


def test_bytes_and_back_is_the_same() -> None:
    counts = learnt(traffic({2: 0.5, 5: 0.6}, 50, random.Random(5), probability=0.5), now_s=NOW_S)
    assert ExampleCounts.from_bytes(counts.to_bytes()) == counts
    assert counts.to_bytes() == ExampleCounts.from_bytes(counts.to_bytes()).to_bytes()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.binary(max_size=4))
def test_damaged_bytes_are_refused_by_name_or_harmless(at: int, junk: bytes) -> None:
    good = learnt([observed(5, 0.5)] * 3, now_s=NOW_S).to_bytes()
    at %= len(good)
    try:
        counts = ExampleCounts.from_bytes(good[:at] + junk + good[at + 1 :])
    except BadCounts:
        return
    assert counts.ladder("small", Knobs()).best in RUNGS


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("format", "something else"),
        ("rungs", [0, 1, 2]),
        ("engines", None),
        ("engines", {"small": []}),
        ("engines", {"small": [[0] * 7] * 5}),
        ("engines", {"small": [[0] * 6] * 6}),
        ("engines", {"small": [["0"] * 7] * 6}),
        ("engines", {"small": [[True] * 7] * 6}),
        ("engines", {"small": [[1, 1, 5, 1, 0, 0, 1]] * 6}),
        ("engines", {"small": [[-1, 1, 0, 1, 0, 0, 1]] * 6}),
        ("engines", {"small": [[float("nan")] * 7] * 6}),
    ],
)
def test_a_wrong_artifact_says_what_is_wrong(part: str, value: object) -> None:
    read = json.loads(ExampleCounts().to_bytes())
    with pytest.raises(BadCounts):
        ExampleCounts.from_bytes(json.dumps(read | {part: value}).encode())


def test_rows_and_knobs_that_cannot_be_are_refused() -> None:
    for row in (observed(4, 0.5), observed(5, 1.5), observed(5, 0.5, probability=0.0)):
        with pytest.raises(ValueError, match="observation"):
            learnt([row], now_s=NOW_S)
    with pytest.raises(ValueError, match="default"):
        ExampleCounts().ladder("small", Knobs(default=4))
    with pytest.raises(ValueError, match="explore_share"):
        ExampleCounts().ladder("small", Knobs(explore_share=1.5))
