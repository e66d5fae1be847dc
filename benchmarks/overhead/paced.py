"""Latency at a given rate, which is what a client waits for.

Requests come evenly, whatever the answers take. Latencies are wall times, so a busy machine shows in them: an exact hit is
compared with the relay at the same rate, round by round.
"""

from __future__ import annotations

from benchmarks.overhead.questions import KNOWN_TEXTS, Questions
from benchmarks.overhead.rounds import Subject, in_rounds, measured
from benchmarks.overhead.servers import Server

HIT_PER_S, WARM_PER_S = 1000.0, 400.0


async def latencies(
    mock: Server, relay: Server, exact: Server, whole: Server, *, rounds: int, for_s: float
) -> dict[str, list[dict[str, float]]]:
    """The relay and exact hits at 1,000 a second, and the whole line with embeddings kept at 400."""
    questions = Questions()
    same, known = questions.repeated(), questions.new_with_known_words()
    subjects = [
        Subject("relay", relay, lambda: same),
        Subject("exact", exact, lambda: same, remembers=True),
        Subject("warm", whole, lambda: known, remembers=True),
    ]
    for subject in subjects:
        await measured(subject, mock, 2 * KNOWN_TEXTS)

    async def once(subject: Subject) -> dict[str, float]:
        per_s = WARM_PER_S if subject.key == "warm" else HIT_PER_S
        return await measured(subject, mock, round(per_s * for_s), per_s)

    return await in_rounds(subjects, rounds, once)
