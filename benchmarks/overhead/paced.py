"""Latency at a given rate, and which share of new texts is embedded while a core is busy: what a client waits for.

Requests come evenly, whatever the answers take. Latencies are wall times, so a busy machine shows in them: an exact hit is
compared with the relay at the same rate, round by round.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.overhead.questions import KNOWN_TEXTS, Questions
from benchmarks.overhead.rounds import Subject, in_rounds, measured
from benchmarks.overhead.servers import Server, bypassed, gateway

HIT_PER_S, WARM_PER_S = 1000.0, 400.0
CONNECTIONS = 64
_BUSY = 0.7
"""Of a core: what new texts are asked at, by what one costs."""
_CALIBRATED_BY = 40
Ask = Callable[[Subject], Awaitable[dict[str, float]]]


async def latencies(
    mock: Server, relay: Server, exact: Server, whole: Server, *, rounds: int, for_s: float
) -> dict[str, list[dict[str, float]]]:
    """The relay and exact hits at 1,000 a second, and the whole line with embeddings kept at 400."""
    questions = Questions()
    same, known = questions.repeated(), questions.new_with_known_words()
    subjects = [
        Subject("relay", relay, lambda: same, connections=CONNECTIONS),
        Subject("exact", exact, lambda: same, connections=CONNECTIONS, remembers=True),
        Subject("warm", whole, lambda: known, connections=CONNECTIONS, remembers=True),
    ]
    for subject in subjects:
        await measured(subject, mock, 2 * KNOWN_TEXTS)

    async def once(subject: Subject) -> dict[str, float]:
        per_s = WARM_PER_S if subject.key == "warm" else HIT_PER_S
        return await measured(subject, mock, round(per_s * for_s), per_s)

    return await in_rounds(subjects, rounds, once)


async def first_minute(
    mock: Server,
    folder: Path,
    arguments: list[str],
    *,
    for_s: float,
    fill: Callable[[Server], Awaitable[None]],
) -> dict[str, list[dict[str, float]]]:
    """New texts from a gateway's start on, at 70 % of a core: the share that is embedded in time.

    What one costs is measured at a gateway on the same data folder before.
    """
    questions = Questions()
    new = questions.new_with_new_words()
    with ExitStack() as stack:
        server = stack.enter_context(gateway("calibrated", arguments, folder))
        await fill(server)
        cold = Subject("cold", server, lambda: new, connections=4, remembers=True)
        cpu_ms = (await measured(cold, mock, _CALIBRATED_BY))["cpu_ms"]
    per_s = _BUSY * 1000 / cpu_ms
    requests = max(1, round(per_s * for_s))
    with ExitStack() as stack:
        server = stack.enter_context(gateway("first_minute", arguments, folder, admin=True))
        cold = Subject("cold", server, lambda: new, connections=CONNECTIONS, remembers=True)
        found = await measured(cold, mock, requests, per_s)
        without = sum(
            n for stage, n in bypassed(server).items() if re.match(r"embed|no_embedding|late", stage)
        )
    return {"cold": [found | {"embedded_share": 1 - without / requests, "asked_per_s": per_s}]}
