"""What do conversations cost with the product's router, and without? `python -m benchmarks.agents`.

Six traces: recorded lengths, times and shared beginnings (Mooncake), recorded lengths and times (Azure), and four that are
made by rules: a coding agent, a support chat, questions on long documents, single questions. The same requests go through
each policy. Each engine has its own prefix cache, and bills by the provider's list prices: what is cached, what is written,
what is said. Which answers of the small engine are good is simulated, and so is what the router expects of them: see
docs/experiments/agents.md for the rules. The product's policy is the code that serves, with its costs.

"saved" is against the best single engine with its cache: the cheapest that loses no more than 5 % of the answers. RouteLLM
has the threshold that serves it best among those at which it loses no more answers than the product. The oracle knows all
of the future: a bound. Intervals are 95 %, over seeds.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.agents.providers import PAIRS, SMALL, Clock, Provider, chat, listed, oracle_usd, prompts_of
from benchmarks.agents.routing import ROUTELLM, Router, routers
from benchmarks.agents.traces import MADE, RECORDED_TRACES, Request, trace
from benchmarks.options import options, where, write
from benchmarks.recorded import NoData
from benchmarks.tables import markdown
from engines.engine import Price
from engines.servers.prefixes import Prefix

MAY_LOSE = 0.05
"""Share of the answers, as the product's `max_loss`."""
_T_95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
"""Student's t by the number of seeds."""


@dataclass(slots=True)
class Played:
    """What came of a trace under one policy."""

    requests: int = 0
    usd: float = 0.0
    small: int = 0
    lost: int = 0
    """Answers that were not good."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    switches: int = 0
    """Requests that another engine answered than the one before in their conversation."""
    in_loops: int = 0
    """Those of them within a tool loop."""

    @property
    def loss(self) -> float:
        return self.lost / self.requests

    @property
    def cached(self) -> float:
        return self.cached_tokens / self.prompt_tokens


async def play(
    requests: Sequence[Request],
    prompts: Sequence[Sequence[Prefix]],
    router: Router,
    provider: Provider,
    clock: Clock,
) -> Played:
    """All requests, one after the other, at the times of the trace. `prompts`: the prefixes of each."""
    played, before = Played(len(requests)), dict[int, str]()
    for request, prefixes in zip(requests, prompts, strict=True):
        clock.now_s = request.at_s
        asked = chat(request)
        engine = await router.engine(request, asked)
        usage, dollars = provider.answer(engine, request, prefixes)
        router.answered(engine, asked, usage)
        played.usd += dollars
        played.small += engine == SMALL
        played.lost += engine == SMALL and not request.good
        played.prompt_tokens += usage.prompt_tokens
        played.cached_tokens += usage.cached_tokens
        switched = before.get(request.session, engine) != engine
        played.switches += switched
        played.in_loops += switched and request.in_tool_loop
        before[request.session] = engine
    return played


def best_single(runs: Sequence[tuple[dict[str, Played], float]]) -> str:
    """The cheapest single engine, with its cache, that loses no more answers of a trace than may be lost."""
    lost = statistics.fmean(played["always small"].loss for played, _ in runs)
    return "always small" if lost <= MAY_LOSE else "always large"


def best_threshold(runs: Sequence[tuple[dict[str, Played], float]]) -> str:
    """RouteLLM at the threshold at which it is cheapest of those that lose no more answers than the product did."""

    def mean(policy: str, of: Callable[[Played], float]) -> float:
        return statistics.fmean(of(played[policy]) for played, _ in runs)

    may_lose = mean("product", lambda one: one.loss)
    named = [policy for policy in runs[0][0] if policy.startswith(ROUTELLM)]
    fitting = [policy for policy in named if mean(policy, lambda one: one.loss) <= may_lose]
    return min(fitting or named[-1:], key=lambda policy: mean(policy, lambda one: one.usd))


def play_trace(name: str, prices: dict[str, Price], seed: int, data: Path) -> tuple[dict[str, Played], float]:
    """What came of each policy, and what the oracle would have paid."""
    requests = trace(name, seed, data)
    prompts, clock, found = prompts_of(requests), Clock(), {}
    with ThreadPoolExecutor(1) as threads:
        for policy, router in routers(prices, clock, threads, seed).items():
            clock.now_s = 0.0
            provider = Provider(prices, clock, seed)
            found[policy] = asyncio.run(play(requests, prompts, router, provider, clock))
    return found, oracle_usd(requests, prompts, prices)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % interval (Student's t)."""
    if len(values) < 2:
        return values[0], math.nan
    t = _T_95.get(len(values), 1.96)
    return statistics.fmean(values), t * statistics.stdev(values) / math.sqrt(len(values))


def shown(values: Sequence[float], digits: int = 1) -> str:
    """A share in percent, with its interval."""
    mean, half = interval(values)
    return f"{100 * mean:.{digits}f} ± {100 * half:.{digits}f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 1 where a goal is not reached."""
    parser = options(__doc__, data=True)
    parser.add_argument("--traces", nargs="+", default=[*RECORDED_TRACES, *MADE])
    parser.add_argument("--prices", choices=list(PAIRS), default="anthropic")
    parser.add_argument("--seeds", type=int, default=4)
    args = parser.parse_args(argv)
    prices = listed(args.prices)
    rows: list[tuple[object, ...]] = []
    goals: list[Goal] = []
    figures = {}
    for name in args.traces:
        try:
            runs = [play_trace(name, prices, seed, args.data) for seed in range(args.seeds)]
        except NoData as absent:
            print(absent)
            continue
        single = best_single(runs)
        singles = [played[single].usd for played, _ in runs]
        oracle = [1 - usd / single for (_, usd), single in zip(runs, singles, strict=True)]
        shown_threshold = best_threshold(runs)
        for policy in runs[0][0]:
            if policy.startswith(ROUTELLM) and policy != shown_threshold:
                continue
            of_it = [played[policy] for played, _ in runs]
            saved = [1 - one.usd / single for one, single in zip(of_it, singles, strict=True)]
            direct = [played["always large"].cached for played, _ in runs]
            fewer = [one.cached - cached for one, cached in zip(of_it, direct, strict=True)]
            rows.append(
                (
                    name,
                    policy,
                    f"{statistics.fmean(one.usd for one in of_it):.2f}",
                    shown(saved),
                    shown([one.loss for one in of_it]),
                    shown([one.small / one.requests for one in of_it], 0),
                    shown([one.cached for one in of_it]),
                    round(statistics.fmean(one.switches for one in of_it)),
                    sum(one.in_loops for one in of_it),
                )
            )
            figures[f"{name}, {policy}"] = [asdict(one) for one in of_it]
            if policy == "product":
                goals.append((name, saved, oracle, fewer, sum(one.in_loops for one in of_it), of_it))
        rows.append((name, "oracle", "", shown(oracle), "0", "", "", "", ""))
    head = (
        "trace",
        "policy",
        "US dollars",
        "saved %",
        "lost %",
        "small %",
        "cached %",
        "switches",
        "in loops",
    )
    print(where(), args.prices)
    print(markdown(head, rows))
    if not goals:
        return 0
    reached = _goals(goals)
    write({"where": where(), "prices": args.prices, "runs": figures}, args.json)
    return 0 if reached else 1


Goal = tuple[str, list[float], list[float], list[float], int, list[Played]]


def _goals(goals: Sequence[Goal]) -> bool:
    """Print what was to be reached, and what was."""
    print()
    worst = min(goals, key=lambda each: statistics.fmean(each[1]))
    could = [each for each in goals if statistics.fmean(each[2]) >= 0.4]
    means = [statistics.fmean(each[1]) for each in could]
    fewest = min(goals, key=lambda each: statistics.fmean(each[3]))
    in_loops = sum(each[4] for each in goals)
    most = max(goals, key=lambda each: statistics.fmean(one.loss for one in each[5]))
    least = statistics.fmean(worst[1])
    mean = statistics.fmean(means) if means else math.nan
    cached = statistics.fmean(fewest[3])
    loss = statistics.fmean(one.loss for one in most[5])
    checked = (
        ("net saving on every trace", "at least 0 %", f"{100 * least:.1f} % ({worst[0]})", least >= 0),
        (
            "mean saving where the oracle saves 40 %",
            "at least 25 %",
            f"{100 * mean:.1f} % ({', '.join(each[0] for each in could)})",
            mean >= 0.25,
        ),
        (
            "cached share beside always large",
            "within 2 points",
            f"{100 * cached:+.1f} ({fewest[0]})",
            cached >= -0.02,
        ),
        ("switches within a tool loop", "0", str(in_loops), in_loops == 0),
        ("answers lost", "at most 5 %", f"{100 * loss:.1f} % ({most[0]})", loss <= MAY_LOSE),
    )
    print(
        markdown(
            ("what", "goal", "now", ""),
            [(what, goal, now, "reached" if ok else "NOT REACHED") for what, goal, now, ok in checked],
        )
    )
    return all(ok for *_, ok in checked)


if __name__ == "__main__":
    sys.exit(main())
