"""Due times: their rate, their shape, and that they can be had again."""

from __future__ import annotations

from itertools import islice, pairwise, takewhile

import pytest

from loadtest.arrivals import Arrivals


def due(arrivals: Arrivals, until_s: float, seed: int = 1) -> list[float]:
    return list(takewhile(lambda t: t < until_s, arrivals.instants(seed)))


def within_five_sigma(count: int, expected: float) -> bool:
    return abs(count - expected) <= 5 * expected**0.5


def test_constant_arrivals_are_evenly_spaced() -> None:
    assert due(Arrivals("constant", 4.0), 1.1) == pytest.approx([0.25, 0.5, 0.75, 1.0])


def test_poisson_arrivals_have_their_rate_and_as_much_variance_as_mean() -> None:
    times = due(Arrivals("poisson", 200.0), 100)
    assert within_five_sigma(len(times), 20_000)
    gaps = [after - before for before, after in pairwise(times)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert spread / mean == pytest.approx(1.0, abs=0.05)


def test_the_same_seed_gives_the_same_instants_and_another_seed_others() -> None:
    shape = Arrivals("burst", 3.0, 50.0, every_s=5, burst_s=1)
    assert list(islice(shape.instants(7), 500)) == list(islice(shape.instants(7), 500))
    assert list(islice(shape.instants(7), 500)) != list(islice(shape.instants(8), 500))


def test_a_ramp_rises_evenly_and_stays_up() -> None:
    times = due(Arrivals("ramp", 100.0, 300.0, span_s=20), 30)
    first, second, after = (sum(a <= t < a + 10 for t in times) for a in (0, 10, 20))
    assert (
        within_five_sigma(first, 1500) and within_five_sigma(second, 2500) and within_five_sigma(after, 3000)
    )


def test_a_ramp_may_begin_at_nothing_and_may_fall() -> None:
    assert within_five_sigma(len(due(Arrivals("ramp", 0.0, 200.0, span_s=10), 10)), 1000)
    assert within_five_sigma(len(due(Arrivals("ramp", 200.0, 1.0, span_s=10), 10)), 1005)


def test_steps_are_flat_and_equally_high() -> None:
    times = due(Arrivals("step", 100.0, 300.0, span_s=30, steps=3), 40)
    for start, rate in ((0, 100), (10, 200), (20, 300), (30, 300)):
        assert within_five_sigma(sum(start <= t < start + 10 for t in times), rate * 10)


def test_bursts_come_back_every_period() -> None:
    times = due(Arrivals("burst", 10.0, 500.0, every_s=4, burst_s=1), 12)
    assert within_five_sigma(sum(t % 4 < 1 for t in times), 1500)
    assert within_five_sigma(sum(t % 4 >= 1 for t in times), 90)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "sine"},
        {"rate": 0.0},
        {"kind": "ramp"},
        {"kind": "burst", "rate_to": 5.0, "every_s": 1.0, "burst_s": 2.0},
        {"kind": "step", "rate_to": 5.0, "steps": 1},
    ],
)
def test_impossible_shapes_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Arrivals(**wrong)  # type: ignore[arg-type]
