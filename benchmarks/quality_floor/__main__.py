"""Does the quality floor hold when the small engine changes? `python -m benchmarks.quality_floor`.

Simulated streams: every request would lose something (0 to 1) if it were offloaded, and a router that offloads all it may
is held back by a cap alone. Judgements are sampled, and come in late. "broken" counts runs in which the true loss ever
exceeded x per request by more than `luck` answers, the coin tosses of one lag; "worst" is the largest running loss per
request after
the first 1000, the largest of all runs. "offloaded" is to be compared with "most", the share that would have lost just
x, had it been known at the time. "to large" is how many requests after a collapse the cap was below 0.15 for the first
time, "back" the same for above 0.9 after the recovery; medians, "-" where most runs never got there.

Side by side: this floor; a bound that is right if the small engine never changes (empirical Bernstein, with the same
cap = x / bound); no floor at all.
"""

from __future__ import annotations

import collections
import math
import random
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from benchmarks.options import options, write
from router.guarantee.floor import FloorSettings, QualityFloor

PROMISES = ("0.05,0.1", "0.02,0.3")
LAST = 20_000
COLLAPSE, RECOVERY = 8_000, 12_000
STEP = 20
"""Requests between two looks at the log."""


class Guard(Protocol):
    """Whoever says how much may be offloaded."""

    def note(self, deficit: float, probability: float, at_s: float) -> None: ...
    def passed(self, requests: int, offloaded: int) -> None: ...
    def offload_cap(self) -> float: ...


class Unchanging:
    """cap = x / upper bound on the mean deficit, as if that never changed.

    Waudby-Smith & Ramdas 2023, "Estimating means of bounded random variables by betting", Theorem 2 (predictable plug-in
    empirical Bernstein), on deficit * judged, whose mean is the judged share times the deficit's.
    """

    def __init__(self, x: float, alpha: float, share: float) -> None:
        self._x, self._alpha, self._share = x, alpha, share
        self._seen = 0
        self._sum, self._squares = 0.5, 0.25
        self._weights = self._weighted = self._penalty = 0.0
        self._batch: list[float] = []

    def note(self, deficit: float, probability: float, at_s: float) -> None:
        """See router.guarantee.floor."""
        self._batch.append(deficit)

    def passed(self, requests: int, offloaded: int) -> None:
        """See router.guarantee.floor; offloaded requests without a judgement are zeros."""
        zeros = max(0, offloaded - len(self._batch))
        for value in [*self._batch, *([0.0] * zeros)]:
            self._seen += 1
            variance = self._squares / self._seen
            bet = math.sqrt(
                2 * math.log(1 / self._alpha) / (variance * self._seen * math.log(1 + self._seen))
            )
            bet = min(bet, 0.5)
            mean = self._sum / self._seen
            self._weights += bet
            self._weighted += bet * value
            self._penalty += 4 * (value - mean) ** 2 * (-math.log1p(-bet) - bet) / 4
            self._sum += value
            self._squares += (value - self._sum / (self._seen + 1)) ** 2
        self._batch.clear()

    def offload_cap(self) -> float:
        """See router.guarantee.floor."""
        if not self._weights:
            return self._x
        bound = (self._weighted + math.log(1 / self._alpha) + self._penalty) / self._weights / self._share
        return min(1.0, self._x / max(1e-9, min(1.0, bound)))


class Nothing:
    """No floor."""

    def note(self, deficit: float, probability: float, at_s: float) -> None:
        """Ignored."""

    def passed(self, requests: int, offloaded: int) -> None:
        """Ignored."""

    def offload_cap(self) -> float:
        """All of it."""
        return 1.0


Stream = Callable[[int, float, random.Random], float]
"""(number of the request, cap in force, randomness) to what offloading it would lose."""


def streams() -> dict[str, tuple[Stream, bool]]:
    """Each with whether it collapses and recovers, so that the time to react means something."""

    def lost(chance: float, rng: random.Random) -> float:
        return float(rng.random() < chance)

    def graded(t: int, cap: float, rng: random.Random) -> float:
        return rng.choice((0.0, 0.0, 0.0, 0.0, 1 / 6, 1 / 3))

    bursts: dict[int, bool] = {}

    def correlated(t: int, cap: float, rng: random.Random) -> float:
        if t % 100 == 0:
            bursts[0] = rng.random() < 0.1
        return lost(0.7 if bursts[0] else 0.01, rng)

    return {
        "good": (lambda t, cap, rng: lost(0.01, rng), False),
        "middling": (lambda t, cap, rng: lost(0.04, rng), False),
        "bad": (lambda t, cap, rng: lost(0.2, rng), False),
        "graded": (graded, False),
        "correlated": (correlated, False),
        "collapse": (lambda t, cap, rng: lost(0.6 if COLLAPSE <= t < RECOVERY else 0.01, rng), True),
        "decline": (lambda t, cap, rng: lost(0.5 * t / LAST, rng), False),
        "all lost": (lambda t, cap, rng: 1.0, False),
        "adversary": (lambda t, cap, rng: float(cap > 0.5), False),
    }


class Run(NamedTuple):
    """One pass over a stream."""

    loss: float
    worst: float
    excess: float
    """Most answers that were lost beyond x per request."""
    offloaded: float
    most: float
    to_large: int | None
    back: int | None


def run(stream: Stream, guard: Guard, x: float, share: float, lag: int, seed: int) -> Run:
    """A router that offloads all it may; judgements arrive `lag` - STEP requests late."""
    rng = random.Random(seed)
    coming: collections.deque[tuple[int, float]] = collections.deque()
    cap, lost, offloaded, since = guard.offload_cap(), 0.0, 0, 0
    worst = excess = possible = 0.0
    to_large = back = None
    for t in range(LAST):
        deficit = stream(t, cap, rng)
        possible += deficit
        if rng.random() < cap:
            lost += deficit
            offloaded += 1
            since += 1
            if rng.random() < share:
                coming.append((t + lag - STEP, deficit))
        excess = max(excess, lost - x * (t + 1))
        if t >= 1000:
            worst = max(worst, lost / (t + 1))
        if t % STEP == STEP - 1:
            while coming and coming[0][0] <= t:
                guard.note(coming.popleft()[1], share, float(t))
            guard.passed(STEP, since)
            since, cap = 0, guard.offload_cap()
            if to_large is None and t >= COLLAPSE and cap < 0.15:
                to_large = t - COLLAPSE
            if back is None and t >= RECOVERY and cap > 0.9:
                back = t - RECOVERY
    return Run(
        lost / LAST,
        worst,
        excess,
        offloaded / LAST,
        min(1.0, x * LAST / possible) if possible else 1.0,
        to_large,
        back,
    )


def main() -> None:
    """Prints a table per promise; with --json also writes every figure."""
    arguments = options(__doc__)
    arguments.add_argument(
        "--promises", nargs="*", default=list(PROMISES), metavar="X,JUDGED_SHARE", help="what to promise"
    )
    arguments.add_argument("--runs", type=int, default=100)
    arguments.add_argument("--alpha", type=float, default=0.05)
    arguments.add_argument("--lag", type=int, default=100)
    chosen = arguments.parse_args()
    found: list[dict[str, Any]] = []
    for x, share in (map(float, promise.split(",")) for promise in chosen.promises):
        settings = FloorSettings(x, chosen.alpha, share, chosen.lag)
        luck = 1.0 + 3.0 * math.sqrt(x * chosen.lag)
        guards: dict[str, Callable[[], Guard]] = {
            "floor": lambda settings=settings: QualityFloor(settings),  # type: ignore[misc]
            "unchanging": lambda x=x, share=share: Unchanging(x, chosen.alpha, share),  # type: ignore[misc]
            "none": Nothing,
        }
        print(
            f"\nx = {x:.0%}, alpha = {chosen.alpha:.0%}, {share:.0%} judged, lag {chosen.lag} requests, {LAST} requests,"
            f" {chosen.runs} runs, luck {luck:.1f} answers"
        )
        print(
            f"{'stream':<11} {'guard':<11} {'broken':>6} {'loss':>7} {'worst':>7} {'excess':>7} {'offloaded':>9}"
            f" {'most':>6} {'to large':>8} {'back':>6}"
        )
        for name, (stream, reacts) in streams().items():
            for guard, made in guards.items():
                row = summed(
                    [run(stream, made(), x, share, chosen.lag, seed) for seed in range(chosen.runs)],
                    luck,
                    reacts,
                )
                found.append({"x": x, "share": share, "stream": name, "guard": guard, **row})
                print(line(name, guard, row), flush=True)
    write(found, chosen.json)


def summed(runs: list[Run], luck: float, reacts: bool) -> dict[str, Any]:
    """What became of the runs."""

    def median(times: list[int | None]) -> float | None:
        seen = [each for each in times if each is not None]
        return statistics.median(seen) if reacts and 2 * len(seen) > len(times) else None

    return {
        "broken": sum(each.excess > luck for each in runs) / len(runs),
        "loss": statistics.mean(each.loss for each in runs),
        "worst": max(each.worst for each in runs),
        "excess": max(each.excess for each in runs),
        "offloaded": statistics.mean(each.offloaded for each in runs),
        "most": statistics.mean(each.most for each in runs),
        "to_large": median([each.to_large for each in runs]),
        "back": median([each.back for each in runs]),
    }


def line(name: str, guard: str, row: dict[str, Any]) -> str:
    """One row of the table."""
    late = ["-" if row[key] is None else f"{row[key]:.0f}" for key in ("to_large", "back")]
    return (
        f"{name:<11} {guard:<11} {row['broken']:>6.0%} {row['loss']:>7.3f} {row['worst']:>7.3f} {row['excess']:>7.1f}"
        f" {row['offloaded']:>9.1%} {row['most']:>6.1%} {late[0]:>8} {late[1]:>6}"
    )


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    print(f"{time.perf_counter() - began:.0f} s")
