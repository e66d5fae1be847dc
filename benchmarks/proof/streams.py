"""Recorded requests in a shuffled order, with the large engine's answers, and scripted small engines that answer them.

`junk` is always wrong, `mimic` copies the answer of the nearest example it was sent (junk without any), `good` is right with
probability 0.98, `near` with 0.94, fixed by a hash of the request, `gold` always, also where the large engine is not. Three
engines change: `drift` is good and turns to junk half-way, `decay` falls evenly from 0.99 to 0.80, and `sleeper` is right
with 0.99 until it first answers a client, and with 0.80 from then on. `half` is right with 0.99 on half of the topics (a
topic is what has the same answer, or with two kinds of requests the kind) and with 0.30 on the others. Two answers to
questions that count as the same are equal.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.recorded import rows

RIGHT = 0.98
ENGINES = ("junk", "mimic", "good", "near", "drift", "decay", "sleeper", "half", "gold")
LABELS, COMMANDS = "labels", "commands"
"""The two kinds of requests of the stream that has two."""
JUNK = "I do not know anything about that."


@dataclass(frozen=True, slots=True)
class Recorded:
    """A set of requests and the large engine's answers."""

    name: str
    texts: tuple[str, ...]
    answers: tuple[str, ...]
    right: tuple[str, ...] = ()
    """The right answers, where the large engine's are not."""
    told: Literal["", "score", "correction"] = ""
    """What clients say of one in ten answers: whether it was right, and with it, which would have been."""
    topics: tuple[str, ...] = ()
    """What each request is about, where it does not follow from the answer."""
    judged: bool = False
    """Whether answers are too long to be compared by equality: then a judge must be paid."""


def shuffled(recorded: Recorded, seed: int, count: int) -> tuple[list[int], list[str]]:
    """Places of the requests in their order, and the answer to each."""
    order = list(range(len(recorded.texts)))
    random.Random(seed).shuffle(order)
    return order[:count], [recorded.answers[place] for place in order[:count]]


def small_answer(
    engine: str,
    text: str,
    right: str,
    example: str | None,
    *,
    topic: str = "",
    progress: float = 0.0,
    awake: bool = False,
) -> str:
    """Answer as a scripted small engine does.

    `example`: the answer of the nearest example it was sent. `progress`: share of the stream that is past, 0 to 1. `awake`:
    whether the engine has answered a client before.
    """
    if engine == "mimic":
        return example if example is not None else JUNK
    chance = _chance(engine, topic or right, progress, awake)
    # With other examples a model may err elsewhere.
    told = f"{text}\0{'' if example is None else 'helped'}"
    return right if _draw(told) < chance else JUNK


def _chance(engine: str, topic: str, progress: float, awake: bool) -> float:
    """Probability that the engine is right."""
    if engine == "half":
        return 0.99 if good_topic(topic) else 0.30
    if engine == "drift":
        return RIGHT if progress < 0.5 else 0.0
    if engine == "decay":
        return 0.99 - 0.19 * progress
    if engine == "sleeper":
        return 0.80 if awake else 0.99
    return {"good": RIGHT, "near": 0.94, "gold": 1.0}.get(engine, 0.0)


def good_topic(topic: str) -> bool:
    """Tell whether `half` is good at this topic."""
    return topic == LABELS if topic in (LABELS, COMMANDS) else _draw(f"topic {topic}") < 0.5


def _draw(told: str) -> float:
    return int.from_bytes(hashlib.blake2b(told.encode(), digest_size=4).digest()) / 2**32


def _banking77(data: Path) -> Recorded:
    found = rows(data / "sim_banking77.jsonl.gz")
    return Recorded("banking77", tuple(r["text"] for r in found), tuple(r["intent"] for r in found))


def _gpt4(told: Literal["", "score", "correction"]) -> Callable[[Path], Recorded]:
    """GPT-4's recorded labels, of which 81 % are right."""

    def read(data: Path) -> Recorded:
        found = rows(data / "caching_banking77_gpt4.jsonl.gz")
        texts, said = tuple(r["text"] for r in found), tuple(r["llm_label"] for r in found)
        return Recorded(
            f"GPT-4, {told or 'nothing'} told", texts, said, tuple(r["gold"] for r in found), told
        )

    return read


def _nl2bash(data: Path) -> Recorded:
    found = rows(data / "bank_nl2bash_open.jsonl.gz")
    return Recorded("nl2bash", tuple(r["prompt"] for r in found), tuple(r["response"] for r in found))


def _two_kinds(data: Path) -> Recorded:
    """Labels and commands under one scope: `half` is good at the labels alone."""
    labels, commands = _banking77(data), _nl2bash(data)
    each = min(len(labels.texts), len(commands.texts), 2_500)
    return Recorded(
        "two kinds",
        labels.texts[:each] + commands.texts[:each],
        labels.answers[:each] + commands.answers[:each],
        topics=(LABELS,) * each + (COMMANDS,) * each,
    )


def _quora(data: Path) -> Recorded:
    """Questions; duplicates, also by way of others, have the same answer."""
    found = rows(data / "sim_qqp_open.jsonl.gz")[:6000]
    leader: dict[str, str] = {}

    def of(text: str) -> str:
        while leader.setdefault(text, text) != text:
            text = leader[text]
        return text

    for row in found:
        first, second = of(row["a"]), of(row["b"])
        if row["duplicate"]:
            leader[first] = second
    numbers: dict[str, int] = {}
    texts = tuple(leader)
    return Recorded(
        "QQP", texts, tuple(f"answer {numbers.setdefault(of(text), len(numbers))}" for text in texts)
    )


def _alpaca(data: Path) -> Recorded:
    found = rows(data / "bank_alpaca_open.jsonl.gz")[:10_000]
    texts = tuple(f"{r['instruction']}\n{r['input']}".strip() for r in found)
    return Recorded("Alpaca", texts, tuple(r["response"] for r in found), judged=True)


STREAMS: dict[str, Callable[[Path], Recorded]] = {
    "banking77": _banking77,
    "nl2bash": _nl2bash,
    "two-kinds": _two_kinds,
    "QQP": _quora,
    "Alpaca": _alpaca,
    "gpt4": _gpt4(""),
    "gpt4-score": _gpt4("score"),
    "gpt4-correction": _gpt4("correction"),
}
