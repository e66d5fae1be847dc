"""What was promised, and whether it held: answers, acknowledgements, budgets, recovery. Pure, but for `kept` and `books`."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from benchmarks.chaos.faults import JUDGED_S, RECOVERS_WITHIN_S, Fault
from benchmarks.chaos.traffic import Acknowledged, Asked, Traffic, bearer
from benchmarks.chaos.upstream import HEARD, INPUT_NANO, LEFT, MOST_TOKENS, OUTPUT_NANO, UNHEARD
from store import Store
from store.people.allowance import USD, Standing

KILLS = ("worker killed", "supervisor killed", "replica killed")
STORE_FAULTS = ("disk full", "store locked", "database killed", "connections frozen")
MOST_NANO = 60 * INPUT_NANO + MOST_TOKENS * OUTPUT_NANO
"""No request may cost more: prompts have less than 200 characters."""
_NOTED_AFTER_S = 5.0
"""Within so long what an answer came from is written, when nothing fails: a kill before that loses the row."""
_DIES_WITHIN_S = 5.0
_ANSWERS_IN_TIME = ("chat", "response", "chat stream", "response stream", "feedback", "example")
_SLOWER = 4.0
_SLOW_S = 1.0


@dataclass(frozen=True)
class Violation:
    """What was promised and did not hold."""

    promise: str
    """answered, kept, budget, recovery or end."""
    text: str


def during(faults: Iterable[Fault], kinds: Sequence[str], from_s: float, to_s: float, after_s: float) -> bool:
    """Whether a fault of these kinds, or `after_s` after it, falls into that time."""
    return any(f.kind in kinds and f.began_s < to_s and from_s < f.over_s + after_s for f in faults)


def excused(asked: Asked, faults: Sequence[Fault]) -> bool:
    """Whether a request may have ended as it did.

    `limited`: its key has a limit. `refused`: what was asked cannot be done without the store, which failed then; or all
    that had waited for the supervisor came at once. `cut`: its answer had begun when its worker, or a Responses stream's
    engine (which none can go on with), was killed or stopped. `unknown`: the row of the answer that it is about was not
    written when its worker was killed or the store failed.
    """
    began, ended = asked.began_s, asked.ended_s
    needs_store = asked.kind in ("feedback", "correction", "example") or asked.key in ("wide", "tight")
    match asked.outcome:
        case "answered" | "left":
            return True
        case "limited":
            return asked.key in ("tight", "rated")
        case "refused":
            blind = (*STORE_FAULTS, "supervisor killed")
            return needs_store and during(faults, blind, began, ended, RECOVERS_WITHIN_S)
        case "cut":
            kinds = (*KILLS, "engine killed", "engine stopped") if asked.kind == "response stream" else KILLS
            return during(faults, kinds, began, ended, _DIES_WITHIN_S)
        case "unknown":
            about = asked.about_s
            return during(faults, (*KILLS, *STORE_FAULTS), about, about + _NOTED_AFTER_S, _NOTED_AFTER_S)
    return False


def unanswered(asked: Sequence[Asked], faults: Sequence[Fault], zero_s: float) -> list[Violation]:
    """Requests that ended as none may; and those that tried again though nobody was killed."""
    found = [
        Violation(
            "answered",
            f"{a.began_s - zero_s:.1f}-{a.ended_s - zero_s:.1f} s, {a.key}, {a.kind}: {a.outcome}, {a.note}",
        )
        for a in asked
        if not excused(a, faults)
    ]
    found += [
        Violation(
            "answered", f"{a.began_s - zero_s:.1f} s, {a.kind}: {a.tries} tries, nobody was killed: {a.note}"
        )
        for a in asked
        if a.tries > 1
        and excused(a, faults)
        and not during(faults, KILLS, a.began_s, a.ended_s, _DIES_WITHIN_S)
    ]
    return found


def normal(asked: Sequence[Asked], faults: Sequence[Fault], from_s: float, quiet_s: float) -> bool:
    """Whether requests that began in the seconds from then on all ended well, and nine of ten in time."""
    then = [a for a in asked if from_s <= a.began_s < from_s + JUDGED_S]
    well = all(a.outcome in ("answered", "left", "limited", "unknown") for a in then)
    took = p90([a.ended_s - a.began_s for a in then if a.kind in _ANSWERS_IN_TIME])
    return well and took <= slowest(quiet_s)


def slowest(quiet_s: float) -> float:
    """The 90th percentile, in seconds, that counts as normal where it is `quiet_s` in quiet times."""
    return max(_SLOW_S, _SLOWER * quiet_s)


def p90(seconds: Sequence[float]) -> float:
    """Of no seconds: 0."""
    return sorted(seconds)[math.ceil(0.9 * len(seconds)) - 1] if seconds else 0.0


def quiet_p90(asked: Sequence[Asked], until_s: float) -> float:
    """Of the requests that ended before the first fault."""
    return p90([a.ended_s - a.began_s for a in asked if a.ended_s <= until_s and a.kind in _ANSWERS_IN_TIME])


def recovered_s(
    asked: Sequence[Asked], faults: Sequence[Fault], fault: Fault, quiet_s: float
) -> float | None:
    """Seconds from a fault's end until all was normal; None: longer than is allowed."""
    for step in range(int(2 * RECOVERS_WITHIN_S) + 1):
        if normal(asked, faults, fault.over_s + step / 2, quiet_s):
            return step / 2
    return None


# ---- acknowledgements


async def lost(traffic: Traffic) -> list[Violation]:
    """What was acknowledged and is not there, by the gateway's own word."""
    places = asyncio.Semaphore(8)
    async with aiohttp.ClientSession() as session:

        async def ask(one: Acknowledged) -> Violation | None:
            async with places:
                return await _kept(session, traffic.address(), one)

        async def bill(decision: str, key: str, usd: float) -> Violation | None:
            async with places:
                return await _settled(session, traffic.address(), decision, key, usd)

        asking = [ask(one) for one in traffic.acknowledged]
        asking += [bill(decision, key, usd) for decision, (key, usd) in traffic.bills.items()]
        return [found for found in await asyncio.gather(*asking) if found is not None]


async def _kept(session: aiohttp.ClientSession, url: str, one: Acknowledged) -> Violation | None:
    if one.body is not None:
        async with session.post(f"{url}/v1/feedback", json=one.body, headers=bearer(one.key)) as answer:
            if answer.status == 200:
                return None
            return Violation("kept", f"{one.kind} {one.id}: {answer.status} {(await answer.read())[:200]!r}")
    async with session.get(f"{url}/v1/examples/{one.id}", headers=bearer(one.key)) as answer:
        return None if answer.status == 200 else Violation("kept", f"example {one.id}: {answer.status}")


async def _settled(
    session: aiohttp.ClientSession, url: str, decision: str, key: str, usd: float
) -> Violation | None:
    async with session.get(f"{url}/v1/usage/{decision}", headers=bearer(key)) as answer:
        said = await answer.json()
        if answer.status == 200 and said["cost_usd"] == usd:
            return None
        return Violation("kept", f"settlement {decision} of ${usd}: {answer.status} {said}")


# ---- money


@dataclass(frozen=True)
class Charged:
    """Nanodollars that engines charged a key for: whole answers; parts sent until the reader left; nobody there to read."""

    heard: int
    left: int
    unheard: int


def charged(ledger: Path, key: str) -> Charged:
    """What the engines' ledger says."""
    sums: Counter[str] = Counter()
    for line in ledger.read_text().splitlines():
        how, whose, _, nano = line.split()
        if whose == key:
            sums[how] += int(nano)
    return Charged(sums[HEARD], sums[LEFT], sums[UNHEARD])


async def books(data: Path, key: str, database_url: str = "", within_s: float = 30.0) -> Standing:
    """How the key's budget stands in the store, once no worker holds any of it. Raises TimeoutError."""
    end = time.monotonic() + within_s
    while (found := await asyncio.to_thread(_standing, data, key, database_url)).leased:
        if time.monotonic() > end:
            raise TimeoutError(f"{found.leased} of {key}'s budget are still leased")
        await asyncio.sleep(0.5)
    return found


def _standing(data: Path, key: str, database_url: str) -> Standing:
    store = Store.open(data, database_url=database_url)
    try:
        (id,) = [k.id for k in store.keys.list() if k.name == key]
        (found,) = [s for s in store.allowances.standings(f"key:{id}", 0) if s.window.kind.startswith(USD)]
        return found
    finally:
        store.close()


def money(
    key: str, budget: int, spent: int, estimated: int, told: Charged, *, left: int, cuts: int, dry: bool
) -> list[Violation]:
    """Whether a key's books cover what engines charged, and the budget holds; all in nanodollars.

    `left` clients, whose answers are estimated by what they had received, may each be wrong by five tokens of output.
    `cuts`: answers that another engine carried on; their prompt is paid twice and reserved once. `dry`: clients were told
    that it is spent, so less than two reservations may be left.
    """
    unsure = left * 5 * OUTPUT_NANO + cuts * MOST_NANO
    all_told = told.heard + told.left
    found = []
    if spent + unsure < all_told:
        found.append(Violation("kept", f"{key}: engines charged {all_told}, and {spent} is booked"))
    if spent - estimated > all_told + told.unheard + unsure:
        found.append(
            Violation(
                "budget", f"{key}: {spent} is booked, {estimated} of it estimated, and {all_told} charged"
            )
        )
    if all_told > budget + unsure:
        found.append(Violation("budget", f"{key}: engines charged {all_told} of {budget}"))
    if dry and budget - spent >= 2 * MOST_NANO:
        found.append(Violation("budget", f"{key}: refused as spent, and {spent} of {budget} is booked"))
    return found
