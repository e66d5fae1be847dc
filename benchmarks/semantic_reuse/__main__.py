"""How often can a similar question's answer be reused, and how often is it wrong? `python -m benchmarks.semantic_reuse`.

Side by side on the same streams and seeds: the policy of learning/reuse/decision.py at an error rate of 1 %, 2 % and 5 %,
with and without lexical gates; a fixed similarity, which is what is commonly done; and a logistic line per entry alone
with the rule of arXiv 2502.03771, which bounds wrong answers over all requests instead of over those reused.

The error is wrong / reused; "of all" is wrong / requests; "late" is the share reused in the last quarter; "over" counts
seeds whose error exceeds delta; "stops" is how often the monitor took every proof back; "worst" is the most wrong
answers that one entry gave. Nothing is taken off for noisy labels. A simulated stream, whose entries obey the model,
shows what the bound costs where labels have no noise. Without the data in `--data` only that one runs.
"""

from __future__ import annotations

import json
import math
import platform
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from benchmarks.options import options, write
from benchmarks.recorded import NoData, rows
from benchmarks.semantic_reuse.streams import Asked, Fixed, Growing, quora
from learning.reuse.curve import Line, fit
from learning.reuse.decision import Explore, Observation, Reuse, SemanticReuse
from learning.reuse.ledger import ReuseSettings
from router.wording.lexical_gates import blocked

DELTAS = (0.01, 0.02, 0.05)
THRESHOLDS = (0.8, 0.85, 0.9, 0.95, 0.98)
NOT_COMPARED = ("far", "below")
WEAK = Line(a=0.0, b=1.0, var_a=25.0, cov_ab=0.0, var_b=4.0)


class Stream(Protocol):
    name: str

    def stream(self, seed: int) -> Iterator[tuple[Asked | None, Any]]: ...


class Run(NamedTuple):
    """One pass over a stream."""

    requests: int
    reused: int
    wrong: int
    late_share: float
    """Reused in the last quarter."""
    phases: int
    grace_kept: bool
    """Whether wrong <= delta * reused + grace held at every moment of every phase."""
    reasons: Counter[str]
    worst_entry: int
    """The most wrong answers any one entry gave."""


def main() -> None:
    """Prints the tables; with --json also writes every figure."""
    arguments = options(__doc__, data=True, cache=True)
    arguments.add_argument("--seeds", type=int, default=5)
    chosen = arguments.parse_args()
    streams, facts = load(chosen.data, chosen.cache)
    figures: dict[str, Any] = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "seeds": chosen.seeds,
        "facts": facts,
        "streams": {},
        "cost_us": cost(streams[0]),
    }
    print(json.dumps(facts, indent=1), "\ncost in microseconds:", json.dumps(figures["cost_us"]))
    for stream in streams:
        figures["streams"][stream.name] = measure(stream, chosen.seeds)
    write(figures, chosen.json)


def load(data: Path, cache: Path) -> tuple[list[Stream], dict[str, Any]]:
    """The streams for which there is data; says which are skipped, and why."""
    streams: list[Stream] = [Fixed("simulated", simulated(30_000, 400))]
    facts: dict[str, Any] = {}
    try:
        streams.append(Growing(rows(data / "sim_banking77.jsonl.gz"), cache))
    except NoData as absent:
        print(absent)
    try:
        found, facts = quora(rows(data / "sim_qqp_open.jsonl.gz"), cache)
        streams.extend(found)
    except NoData as absent:
        print(absent)
    return streams, facts


def simulated(requests: int, entries: int) -> list[Asked]:
    """Requests whose entries have logistic lines of their own, as the model supposes."""
    rng = random.Random(77)
    centres = [rng.gauss(0.82, 0.05) for _ in range(entries)]
    asked = []
    for number in range(requests):
        entry = rng.randrange(entries)
        similarity = min(rng.betavariate(9, 1.5), 0.999)
        right = rng.random() < 1 / (1 + math.exp(-60 * (similarity - centres[entry])))
        asked.append(Asked(entry, similarity, right, f"question {number}", f"question {entry}"))
    return asked


def measure(stream: Stream, seeds: int) -> dict[str, Any]:
    """Every policy on one stream; prints the table."""
    policies: dict[str, tuple[float, bool, Callable[[], Any]]] = {}
    gatings = (True, False) if stream.name != "simulated" else (False,)
    for delta in DELTAS:
        for own in (1, 0):
            for gated in gatings:
                name = f"bound {delta:.0%}, {'gates' if gated else 'no gates'}" + (
                    ", new entries too" if not own else ""
                )
                policies[name] = delta, gated, lambda d=delta, o=own: Bounded(d, o)
    for delta in DELTAS:
        policies[f"line per entry {delta:.0%} of all, no gates"] = delta, False, lambda d=delta: PerEntry(d)
    for threshold in THRESHOLDS:
        for gated in gatings:
            name = f"similarity >= {threshold}, {'gates' if gated else 'no gates'}"
            policies[name] = 1.0, gated, lambda t=threshold: FixedSimilarity(t)
    print(f"\n{stream.name:46} {'reused':>28} {'error of reused':>24}  of all   late  over stops worst")
    results = {}
    for name, (delta, gated, make) in policies.items():
        runs = [run(stream, make(), delta, gated, seed) for seed in range(seeds)]
        results[name] = summary(runs, delta)
        show(name, results[name])
    return results


def run(stream: Stream, policy: Any, delta: float, gated: bool, seed: int) -> Run:
    """One pass. A gated request is asked anew and not compared."""
    rng = random.Random(1000 + seed)
    requests = reused = wrong = worst = 0
    grace_kept = True
    phase, phase_reused, phase_wrong = 0, 0, 0
    reasons: Counter[str] = Counter()
    history: list[bool] = []
    blame: Counter[int] = Counter()
    for asked, answered_anew in stream.stream(seed):
        requests += 1
        history.append(False)
        if asked is None:
            reasons["nothing near"] += 1
            continue
        if gated and (gate := blocked(asked.asked, asked.remembered)) is not None:
            reasons[f"gate {gate}"] += 1
            if answered_anew:
                answered_anew(False)
            continue
        reason = policy.step(asked, rng)
        reasons[reason] += 1
        if reason != "reuse":
            if answered_anew:
                answered_anew(reason not in NOT_COMPARED)
            continue
        history[-1] = True
        reused, wrong = reused + 1, wrong + (not asked.right)
        blame[asked.entry] += not asked.right
        if policy.phase != phase:
            phase, phase_reused, phase_wrong = policy.phase, 0, 0
        phase_reused, phase_wrong = phase_reused + 1, phase_wrong + (not asked.right)
        grace_kept = grace_kept and phase_wrong <= delta * phase_reused + policy.grace()
    worst = max(blame.values(), default=0)
    late = history[len(history) * 3 // 4 :]
    return Run(requests, reused, wrong, sum(late) / len(late), policy.phase, grace_kept, reasons, worst)


class Bounded:
    """The policy under test."""

    def __init__(self, delta: float, own: int) -> None:
        self._reuse = SemanticReuse(ReuseSettings(delta=delta, own_observations=own))
        self._seen: dict[int, list[Observation]] = {}

    @property
    def phase(self) -> int:
        return self._reuse.ledger.phase

    def grace(self) -> float:
        return self._reuse.ledger.grace()

    def step(self, asked: Asked, rng: random.Random) -> str:
        seen = self._seen.setdefault(asked.entry, [])
        decision = self._reuse.decide(seen, asked.similarity, rng)
        if isinstance(decision, Reuse):
            self._reuse.reused()
            return "reuse"
        if decision.compare:
            seen.append(self._reuse.observed(decision, asked.similarity, asked.right).observation)
        return decision.reason


class Unbounded:
    """A policy that promises nothing about its errors."""

    phase = 0

    def grace(self) -> float:
        return math.inf


class PerEntry(Unbounded):
    """Each entry alone: explore with chance 1 - delta / (1 - p), p the lower edge of a band times its confidence."""

    def __init__(self, delta: float) -> None:
        self._delta = delta
        self._seen: dict[int, list[Observation]] = {}
        self._lines: dict[int, Line] = {}

    def step(self, asked: Asked, rng: random.Random) -> str:
        seen = self._seen.setdefault(asked.entry, [])
        line = self._lines.get(asked.entry, WEAK)
        right = max(
            (1 - miss) * line.lower(asked.similarity, statistics.NormalDist().inv_cdf(1 - miss))
            for miss in (0.001, 0.005, 0.02, 0.05, 0.1, 0.2, 0.3)
        )
        if seen and rng.random() < self._delta / max(1 - right, self._delta):
            return "reuse"
        seen.append(Observation(asked.similarity, asked.right))
        self._lines[asked.entry] = fit(
            WEAK, [(o.similarity, float(o.right), float(not o.right)) for o in seen[-64:]]
        )
        return "explore"


class FixedSimilarity(Unbounded):
    """Reuse above a threshold."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold

    def step(self, asked: Asked, rng: random.Random) -> str:
        return "reuse" if asked.similarity >= self._threshold else "below"


def summary(runs: list[Run], delta: float) -> dict[str, Any]:
    """Means over seeds with the smallest and the largest."""
    shares = [each.reused / each.requests for each in runs]
    errors = [each.wrong / each.reused for each in runs if each.reused]
    return {
        "delta": delta,
        "requests": runs[0].requests,
        "reused": spread(shares),
        "error": spread(errors) if errors else None,
        "wrong_of_all": statistics.mean(each.wrong / each.requests for each in runs),
        "late_share": statistics.mean(each.late_share for each in runs),
        "seeds_over_delta": sum(each.wrong > delta * each.reused for each in runs),
        "stops": statistics.mean(each.phases for each in runs),
        "grace_kept": all(each.grace_kept for each in runs),
        "worst_entry": max(each.worst_entry for each in runs),
        "reasons": {
            key: round(n / len(runs), 1) for key, n in sum((each.reasons for each in runs), Counter()).items()
        },
    }


def spread(values: list[float]) -> dict[str, float]:
    return {"mean": statistics.mean(values), "min": min(values), "max": max(values)}


def show(name: str, figures: dict[str, Any]) -> None:
    def percent(each: dict[str, float] | None) -> str:
        return "-" if each is None else f"{each['mean']:.2%} ({each['min']:.2%} to {each['max']:.2%})"

    over = figures["seeds_over_delta"] if figures["delta"] < 1 else "-"
    print(
        f"{name:46} {percent(figures['reused']):>28} {percent(figures['error']):>24} {figures['wrong_of_all']:7.2%}"
        f" {figures['late_share']:6.1%} {over:>5} {figures['stops']:5.1f} {figures['worst_entry']:5}",
        flush=True,
    )


def cost(stream: Stream) -> dict[str, float]:
    """CPU microseconds, median of batches: a decision about an entry with 1, 4 and 16 observations, a label, the gates."""
    rng = random.Random(1)
    policy = SemanticReuse(ReuseSettings(delta=0.05))
    seen: dict[int, list[Observation]] = {}
    for asked, _ in stream.stream(0):
        assert asked is not None
        entry = seen.setdefault(asked.entry, [])
        decision = policy.decide(entry, asked.similarity, rng)
        if isinstance(decision, Explore) and decision.compare:
            entry.append(policy.observed(decision, asked.similarity, asked.right).observation)
    entry = max(seen.values(), key=len)
    texts = (
        "How do I move 200 dollars to my savings account in Boston?",
        "How can I move 200 dollars into savings?",
    )
    return {
        **{
            f"decide, {n} observations": timed(lambda n=n: decide(policy, entry[:n], rng)) for n in (1, 4, 16)
        },
        "observed": timed(lambda: policy.observed(Explore("unsure", None, 1.0, compare=True), 0.93, True)),
        "proof renewed after a label": timed(lambda: renew(policy)),
        "gates": timed(lambda: blocked(*texts)),
    }


def decide(policy: SemanticReuse, entry: list[Observation], rng: random.Random) -> None:
    if isinstance(decision := policy.decide(entry, 0.93, rng), Explore):
        policy.abandoned(decision)


def renew(policy: SemanticReuse) -> None:
    policy.observed(Explore("unsure", 2, 1.0, compare=True), 0.93, True)
    policy.ledger.proven()


def timed(job: Callable[[], object], times: int = 200) -> float:
    batches = []
    for _ in range(15):
        begun = time.process_time()
        for _ in range(times):
            job()
        batches.append((time.process_time() - begun) / times * 1e6)
    return round(statistics.median(batches), 1)


if __name__ == "__main__":
    main()
