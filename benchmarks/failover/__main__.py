"""What do clients see when engines fail? `python -m benchmarks.failover --settings defaults|documented [--only S06,E1]`.

Replays sixteen published failures and some beyond them against `understudy serve`, over real sockets, with engines that
fail as scripted. `defaults` sets nothing but where the engines are; `documented` adds the block of docs/how-to/failover.md.
Beside each verdict stands what commit fc0ad32 did: facts, measured once, not in this run.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.failover.asking import Client
from benchmarks.failover.beyond import BEYOND
from benchmarks.failover.catalogue import CATALOGUE, OTHERWISE
from benchmarks.failover.gateway import configuration, documented, running
from benchmarks.failover.scenario import FAIL, SKIPPED, Bench, Found, Scenario
from benchmarks.failover.wall import Wall, standing
from benchmarks.options import options, write
from benchmarks.tables import markdown

_BEGINNING_S = 8.0
"""All that mostly waits begins together, which is no time to measure others."""
SCENARIOS: tuple[Scenario, ...] = (*CATALOGUE, *OTHERWISE, *BEYOND)


def chosen(only: str | None) -> list[Scenario]:
    """The scenarios of these ids, or whose ids begin with one and a dot (E3: E3.a, E3.b); all of them without ids."""
    if not only:
        return list(SCENARIOS)
    names = [name.strip() for name in only.split(",")]
    found = [one for one in SCENARIOS if one.id in names or one.id.partition(".")[0] in names]
    return found + [one for one in OTHERWISE if one.id == "S00" and one not in found]


async def measured(scenarios: Sequence[Scenario], settings: dict[str, Any], folder: Path) -> dict[str, Found]:
    """What each scenario came to, by id. Those that mostly wait run beside the others, which run one after the other."""
    wall = Wall()
    async with standing(wall):
        models = [one for scenario in scenarios for one in scenario.models if not scenario.skipped]
        gateway = running(configuration(models, wall, settings, folder), folder)
        origin = await asyncio.to_thread(gateway.__enter__)
        try:
            # Clients come by connections of their own, as many as they are.
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(connector=connector) as session:
                bench = Bench(wall, Client(origin, session))
                await bench.ask("alive")
                return await _all(scenarios, bench)
        finally:
            await asyncio.to_thread(gateway.__exit__, None, None, None)


async def _all(scenarios: Sequence[Scenario], bench: Bench) -> dict[str, Found]:
    found: dict[str, Found] = {one.id: Found(SKIPPED, one.skipped) for one in scenarios if one.skipped}
    async with asyncio.TaskGroup() as group:
        for one in scenarios:
            if one.waits and not one.skipped:
                group.create_task(_one(one, bench, found))
        await asyncio.sleep(_BEGINNING_S)
        for one in scenarios:
            if not one.waits and not one.skipped:
                await _one(one, bench, found)
    return found


async def _one(scenario: Scenario, bench: Bench, found: dict[str, Found]) -> None:
    try:
        found[scenario.id] = await scenario.run(bench)
    except Exception as error:
        found[scenario.id] = Found(FAIL, f"{type(error).__name__}: {error}")


def table(scenarios: Sequence[Scenario], found: dict[str, Found]) -> str:
    """The verdicts as a table."""
    rows = [(one.id, one.title, found[one.id].verdict, found[one.id].why, one.before) for one in scenarios]
    return markdown(("", "failure", "verdict", "what came of it", "fc0ad32"), rows)


def summary(scenarios: Sequence[Scenario], found: dict[str, Found]) -> str:
    """How many of each verdict."""
    counts = Counter(found[one.id].verdict for one in scenarios)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())


def main() -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--settings", choices=("defaults", "documented"), default="defaults")
    parser.add_argument("--only", metavar="IDS", help="such as S06,E1; E3 is all of E3.a, E3.b, ...")
    arguments = parser.parse_args()
    scenarios, began = chosen(arguments.only), time.monotonic()
    settings = documented() if arguments.settings == "documented" else {}
    with tempfile.TemporaryDirectory(prefix="understudy-failover-") as folder:
        found = asyncio.run(measured(scenarios, settings, Path(folder)))
    print(table(scenarios, found))
    published = [one for one in scenarios if one in CATALOGUE]
    beyond = [one for one in scenarios if one in BEYOND]
    if published:
        told = summary(published, found)
        print(f"\nS01 to S16, {arguments.settings}: {told}; fc0ad32: 10 pass, 1 partial, 4 safe, 1 fail")
    if beyond:
        print(f"Beyond: {summary(beyond, found)}")
    print(f"{time.monotonic() - began:.0f} s")
    figures = {
        one.id: {"title": one.title, "verdict": f.verdict, "why": f.why, "fc0ad32": one.before, **f.figures}
        for one in scenarios
        for f in [found[one.id]]
    }
    write({"settings": arguments.settings, "scenarios": figures}, arguments.json)


if __name__ == "__main__":
    main()
