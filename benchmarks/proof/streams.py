"""Recorded requests in a shuffled order, with the large engine's answers, and scripted small engines that answer them.

`junk` is always wrong, `mimic` copies the answer of the nearest example it was sent (junk without any), `good` is right with
probability 0.98, fixed by a hash of the request, `gold` always, also where the large engine is not. Two answers to questions
that count as the same are equal.
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
ENGINES = ("junk", "mimic", "good", "drift", "gold")
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
    judged: bool = False
    """Whether answers are too long to be compared by equality: then a judge must be paid."""


def shuffled(recorded: Recorded, seed: int, count: int) -> tuple[list[int], list[str]]:
    """Places of the requests in their order, and the answer to each."""
    order = list(range(len(recorded.texts)))
    random.Random(seed).shuffle(order)
    return order[:count], [recorded.answers[place] for place in order[:count]]


def small_answer(engine: str, text: str, right: str, example: str | None, *, late: bool) -> str:
    """What a scripted small engine says. `example`: the answer of the nearest example it was sent. `late`: whether the
    stream is past its middle, where `drift` turns from good to junk."""
    if engine == "mimic":
        return example if example is not None else JUNK
    if engine == "gold":
        return right
    good = engine == "good" or (engine == "drift" and not late)
    # With other examples a model may err elsewhere.
    told = f"{text}\0{'' if example is None else 'helped'}"
    draw = int.from_bytes(hashlib.blake2b(told.encode(), digest_size=4).digest()) / 2**32
    return right if good and draw < RIGHT else JUNK


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
    "QQP": _quora,
    "Alpaca": _alpaca,
    "gpt4": _gpt4(""),
    "gpt4-score": _gpt4("score"),
    "gpt4-correction": _gpt4("correction"),
}
