"""Each figure: what is divided by what, what was promised, what the paper reports, and what the simulation gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from statistics import fmean
from typing import Any

from benchmarks.applications import measuring
from benchmarks.applications.client_side import PrefixAware, SessionHash
from benchmarks.applications.gateway_side import gateway_side
from benchmarks.applications.service import CAP_TOKENS, CAPPED, SPEEDS, TODAY, UNCAPPED, Site, client_side
from benchmarks.applications.slo import token_s
from benchmarks.batching.batch import Rules
from loadtest.applications.shapes import Application, chain, map_reduce, roles

_BOUND_S = 0.2
"""A rate is sustained while the mean time per token of the answer is at most this: five tokens a second, as people read."""
_FASTER = {"2024": 1.0, "today": 4.0}
"""By how much more is asked of today's engines, which are about so much faster."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One ratio. `promised` None: it stands beside, and nothing was promised of it."""

    what: str
    paper: str
    promised: float | None
    found: float
    figures: dict[str, Any]
    """What it was made of."""

    @property
    def reached(self) -> bool:
        """Whether it is what was promised."""
        return self.promised is None or self.found >= self.promised

    def as_json(self) -> dict[str, Any]:
        """For the file."""
        return {**asdict(self), "reached": self.reached}


@dataclass(frozen=True, slots=True)
class Era:
    """Engines of one time, as they are usually run then."""

    name: str
    seed: int

    @property
    def promised(self) -> bool:
        """Whether anything was promised of them."""
        return self.name == "2024"

    def site(self, rules: Rules, count: int = 1, caps: tuple[int | None, int | None] | None = None) -> Site:
        """So many engines with these rules, and the gateway's caps: of all tokens, and of those beside a latency request.

        Without `caps` the gateway holds in 2024 what the capped baseline holds, and as much as there is today.
        """
        tokens, latency_tokens = caps or (None, CAP_TOKENS if self.promised else None)
        return Site(SPEEDS[self.name], rules, count, self.seed, tokens, latency_tokens)

    def usual(self, rules: Rules) -> Rules:
        """`rules` in 2024; today's, today."""
        return rules if self.promised else TODAY


def of_chains(era: Era) -> Iterator[Figure]:
    """One chain alone, and 25 at once."""
    for answer_tokens, promised in ((25, 1.25), (50, 1.1)):
        one = [chain("chain", 22, answer_tokens=answer_tokens)]
        theirs = measuring.one_by_one(client_side, era.site(era.usual(CAPPED)), one)[0]
        ours = measuring.one_by_one(gateway_side, era.site(TODAY), one)[0]
        what = f"chain of 22 x 1,024 tokens, {answer_tokens} out"
        yield _ratio(era, what, "up to 1.38", promised, theirs, ours)
    chance = random.Random(f"chains/{era.seed}")
    many = [chain(f"document/{n}", chance.randint(10, 40)) for n in range(25)]
    theirs_s = measuring.together(client_side, era.site(era.usual(CAPPED)), many)
    ours_s = measuring.together(gateway_side, era.site(TODAY), many)
    yield _ratio(era, "25 chains of 10 to 40 steps, mean", "1.68", 1.5, fmean(theirs_s), fmean(ours_s))
    least = min(before / after for before, after in zip(theirs_s, ours_s, strict=True))
    slower = sum(after > before for before, after in zip(theirs_s, ours_s, strict=True))
    figures = {"client_s": theirs_s, "gateway_s": ours_s, "slower": slower}
    yield Figure("... the one that gains least", "none slower", _promise(era, 1 / 1.1), least, figures)


def of_map_reduce(era: Era) -> Iterator[Figure]:
    """One document."""
    one = [map_reduce("document", 22)]
    theirs = measuring.one_by_one(client_side, era.site(era.usual(CAPPED)), one)[0]
    ours = measuring.one_by_one(gateway_side, era.site(TODAY), one)[0]
    yield _ratio(era, "map-reduce of 22, 50 out", "2.37", 2.0, theirs, ours)


def of_roles(era: Era) -> Iterator[Figure]:
    """One project of 4, 6 and 16 files: got file by file, and once by a last call that joins them all."""
    for files in (4, 6):
        yield from _of_files(era, roles("project", files, joined=False), files, "", None)
    one = roles("project", 16, joined=False)
    yield from _of_files(era, one, 16, "11.7", 4.0)
    if era.promised:
        ours = measuring.one_by_one(gateway_side, era.site(TODAY), [one])[0]
        theirs = measuring.one_by_one(client_side, era.site(UNCAPPED), [one])[0]
        what = "multi-role, 16 files, over the uncapped one without cache"
        yield _ratio(era, what, "2.45", 1.25, theirs, ours)
    yield from _of_files(era, roles("project", 16), 16, "", None, how="joined")


def _of_files(
    era: Era, one: Application, files: int, paper: str, promised: float | None, how: str = "got one by one"
) -> Iterator[Figure]:
    """A project over the client that carries it out itself before an engine of today, with its cap and without; and, with
    `promised`, over the baseline of 2024."""
    what = f"multi-role, {files} files {how}"
    client = measuring.one_by_one(client_side, era.site(TODAY), [one])[0]
    for name, caps in (("a cap of 4,096", (None, CAP_TOKENS)), ("no cap", (None, None))):
        ours = measuring.one_by_one(gateway_side, era.site(TODAY, caps=caps), [one])[0]
        figures = {"client_s": client, "gateway_s": ours}
        yield Figure(f"{what}, {name}, over a prefix cache", "", 1.0, client / ours, figures)
    if era.promised and promised:
        ours = measuring.one_by_one(gateway_side, era.site(TODAY), [one])[0]
        capped = measuring.one_by_one(client_side, era.site(CAPPED), [one])[0]
        yield _ratio(era, f"{what}, over the latency-capped baseline", paper, promised, capped, ours)


def of_mixed(era: Era) -> Iterator[Figure]:
    """Chat beside map-reduce on four engines."""
    faster = _FASTER[era.name]

    def found(make: measuring.Make, rules: Rules) -> measuring.Mixed:
        return measuring.mixed(
            make,
            era.site(rules, 4, (GROUP_CAP_TOKENS, CHAT_CAP_TOKENS)),
            chat_rate=faster,
            map_reduce_rate=MAP_REDUCE_RATE * faster,
            for_s=240 / faster,
        )

    ours = found(gateway_side, TODAY)
    through = found(client_side, era.usual(UNCAPPED))
    chat, decoding, reduce = "chat per token", "decoding of chat", "map-reduce"
    if era.promised:
        latency = found(client_side, CAPPED)
        over = "over latency-centric"
        yield _ratio(era, f"{chat}, {over}", "5.5", 2.0, latency.chat_per_token_s, ours.chat_per_token_s)
        yield _ratio(era, f"{reduce}, {over}", "3.7", 3.0, latency.map_reduce_s, ours.map_reduce_s)
    over = "over throughput-centric" if era.promised else "over engines of today"
    yield _ratio(era, f"{decoding}, {over}", "1.72", 1.2, through.decoding_s, ours.decoding_s)
    yield _ratio(era, f"{chat}, {over}", "1.23", 0.95, through.chat_per_token_s, ours.chat_per_token_s)
    yield _ratio(era, f"{reduce}, {over}", "1.05", 0.95, through.map_reduce_s, ours.map_reduce_s)


def of_popular_prompts(era: Era) -> Iterator[Figure]:
    """Four applications: the rate that four engines sustain. 32: the time per token where today's balancer is at its
    end."""
    unshared, shared = era.site(UNCAPPED, 4), era.site(TODAY, 4, (None, None))
    faster = _FASTER[era.name]
    highest = 6.0 * faster
    bound_s = _BOUND_S / faster
    without = measuring.knee(client_side, unshared, 4, bound_s, highest)
    ours = measuring.knee(gateway_side, shared, 4, bound_s, highest)
    beside = measuring.knee(client_side, shared, 4, bound_s, highest)
    figures = {
        "without_sharing_per_s": without,
        "gateway_per_s": ours,
        "least_queue_per_s": beside,
        "bound_s": bound_s,
    }
    what = "4 popular prompts, rate sustained, over no sharing"
    yield Figure(what, "12 (kernels: 2.4 of it)", _promise(era, 2.0), ours / without, figures)
    yield Figure("... over least queue with prefix caches", "4", None, ours / beside, figures)
    rate = measuring.knee(client_side, shared, 32, bound_s, highest)
    least = measuring.popular_prompts(client_side, shared, 32, rate)
    own = measuring.popular_prompts(gateway_side, shared, 32, rate)
    figures = {"rate_per_s": rate, "least_queue": asdict(least), "gateway": asdict(own)}
    what = "32 popular prompts, time per token at the knee of least queue"
    yield Figure(what, "", _promise(era, 1.4), least.per_token_s / own.per_token_s, figures)


def of_plain_calls(era: Era) -> Iterator[Figure]:
    """24 popular prompts of 6,000 tokens over four engines, each request a plain chat call: what is found in caches, and
    the median time beside balancers of the kinds in use."""
    site = era.site(TODAY, 4, (None, None))
    rate = 1.0 * _FASTER[era.name]
    others: dict[str, measuring.Make] = {
        "least in flight": client_side,
        "session hash": partial(client_side, balancer=SessionHash),
        "prefix-aware router": partial(client_side, balancer=PrefixAware),
    }

    def found(make: measuring.Make) -> measuring.Popular:
        return measuring.popular_prompts(make, site, 24, rate, plain=True)

    ours = found(gateway_side)
    theirs = {name: found(make) for name, make in others.items()}
    figures = {
        "rate_per_s": rate,
        "gateway": asdict(ours),
        **{name: asdict(one) for name, one in theirs.items()},
    }
    for name, one in theirs.items():
        # The first is what an engine pool has by itself; the last is what we are to be as good as.
        promised = _promise(era, 1.0) if name == "least in flight" else None
        yield Figure(
            f"24 popular prompts, plain calls: p50 over {name}", "", promised, one.p50_s / ours.p50_s, figures
        )
        yield Figure(f"... share of prompt tokens cached, {name}", "", None, one.cached_share, figures)
    yield Figure(
        "... share of prompt tokens cached, gateway", "", _promise(era, 0.55), ours.cached_share, figures
    )


def of_slo(era: Era) -> Iterator[Figure]:
    """Streams that come faster than the engine decodes them in time, with `slo_tpot_ms` and no other cap."""
    speed = SPEEDS[era.name]
    without_s, took_s = token_s(speed, None)
    for share in (0.4, 0.6, 0.8):
        slo_s = speed.step_s + (without_s - speed.step_s) * share
        found_s, all_s = token_s(speed, slo_s * 1000)
        figures = {
            "slo_s": slo_s,
            "token_s": found_s,
            "without_s": without_s,
            "all_s": all_s,
            "all_without_s": took_s,
        }
        slo_ms, without_ms = slo_s * 1000, without_s * 1000
        what = f"time per token that was asked for ({slo_ms:.0f} ms; without {without_ms:.0f} ms), over that found"
        yield Figure(what, "", _promise(era, 0.95), slo_s / found_s, figures)


MAP_REDUCE_RATE = 0.2
"""Documents per second over four engines: the paper does not tell. Beyond it the latency-centric baseline falls behind."""
CHAT_CAP_TOKENS = 8_192
"""Of tokens as expected, answers as long as they may be: about half of it is held at a time."""
GROUP_CAP_TOKENS = 20_480
"""A third of an engine's memory: beyond it waiting in the gateway's order is worth more than a larger batch."""
PARTS: dict[str, Callable[[Era], Iterator[Figure]]] = {
    "chains": of_chains,
    "map-reduce": of_map_reduce,
    "roles": of_roles,
    "mixed": of_mixed,
    "popular": of_popular_prompts,
    "plain": of_plain_calls,
    "slo": of_slo,
}


def _ratio(era: Era, what: str, paper: str, promised: float, theirs_s: float, ours_s: float) -> Figure:
    figures = {"client_s": theirs_s, "gateway_s": ours_s}
    return Figure(what, paper, _promise(era, promised), theirs_s / ours_s, figures)


def _promise(era: Era, promised: float) -> float | None:
    return promised if era.promised and promised else None
