"""Five streams of requests: what is asked, who answers, who tells how good it was, and what should come of it."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recorded import rows
from benchmarks.vectors import embedded, exact_nearest

COMMANDS = "You translate a task into one bash command. Answer with the command and nothing else."
FAMILY, FAMILIES = 15, 40
"""Of nl2bash: a request and its nearest, and how many of these families."""
SECOND_DIFFERS = 0.1
"""Of the recorded engine's second answers; assumed, as nobody recorded any."""


@dataclass(frozen=True)
class Stream:
    """Requests under one instruction, with the right answers and how a given one is graded."""

    key: str
    title: str
    instruction: str
    texts: list[str]
    right: Mapping[str, str]
    grade: Callable[[str, str], float]
    """(answer, right answer): 0 to 1."""
    small: str
    """`gold` (always right), `neighbour` (the recorded answer of another request) or `real`."""
    large: str
    """`recorded` or `real`."""
    recorded: Mapping[str, str] = field(default_factory=dict)
    told: float = 0.0
    """Share of the answers whose grade is sent as feedback."""
    corrects: bool = False
    """Whether the right answer is sent with it: of texts in free words a grade alone tells nothing of another answer."""
    task: tuple[str, ...] = ()
    """The labels, where it is declared as a task."""

    def body(self, text: str) -> dict[str, Any]:
        """The request as a client sends it."""
        turns = [{"role": "system", "content": self.instruction}, {"role": "user", "content": text}]
        return {"model": "assistant", "messages": turns, "temperature": 0, "max_tokens": 64}

    def tells(self, text: str) -> bool:
        """Whether the client tells how good this answer was."""
        return share_of(f"feedback {text}") < self.told


def share_of(text: str) -> float:
    """A number from 0 to 1 that a text fixes."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest()) / 2**32


def unwrapped(answer: str) -> str:
    """What a client takes from an answer: the first block of code in it, or all of it, without ticks around the whole."""
    block = re.search(r"```[^\n]*\n(.*?)\n?```", answer, re.DOTALL)
    return (block[1] if block else answer).strip().strip("`").strip()


def same_label(answer: str, right: str) -> float:
    """1 for the same label, whatever its case and marks; else 0."""
    return float(_label(unwrapped(answer)) == _label(right))


def _label(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def shared_words(answer: str, right: str) -> float:
    """F1 of the words of two commands."""
    one, other = Counter(unwrapped(answer).split()), Counter(unwrapped(right).split())
    return 2.0 * (one & other).total() / max(1, one.total() + other.total())


def second_answer(stream: Stream) -> Callable[[str, str], str]:
    """What the recorded engine says when asked again: mostly the same; else the right label if it missed it, or another."""
    labels = sorted(set(stream.recorded.values()))

    def again(text: str, answer: str) -> str:
        if share_of(f"again {text}") >= SECOND_DIFFERS:
            return answer
        right = stream.right[text]
        other = labels[(labels.index(answer) + 1) % len(labels)]
        return right if right != answer else other

    return again


def _banking77(data: Path) -> dict[str, Any]:
    read = rows(data / "caching_banking77_gpt4.jsonl.gz")
    labels = tuple(sorted({row["gold"] for row in read}))
    said = "Classify the bank customer's message. Answer with one of these labels and nothing else:\n"
    return {
        "instruction": said + "\n".join(labels),
        "texts": [row["text"] for row in read],
        "right": {row["text"]: row["gold"] for row in read},
        "recorded": {row["text"]: row["llm_label"] for row in read},
        "grade": same_label,
        "large": "recorded",
    }


def _nl2bash(data: Path, cache: Path) -> dict[str, Any]:
    """Families of similar requests, mixed: a stream in which the past has something to say."""
    right = {row["prompt"]: row["response"] for row in rows(data / "bank_nl2bash_open.jsonl.gz")}
    texts = list(right)
    vectors = embedded(texts, cache)
    draw = random.Random(7)
    seeds = draw.sample(range(len(texts)), len(texts))
    taken: set[int] = set()
    for seed in seeds:
        near = exact_nearest(vectors, vectors[[seed]], FAMILY)[0].tolist()
        if not taken & set(near):
            taken |= set(near)
        if len(taken) >= FAMILIES * FAMILY:
            break
    order = sorted(taken)
    draw.shuffle(order)
    return {
        "instruction": COMMANDS,
        "texts": [texts[place] for place in order],
        "right": right,
        "grade": shared_words,
    }


def _neighbours(texts: list[str], right: Mapping[str, str], cache: Path) -> dict[str, str]:
    """To each text the right answer of the most similar other one that is not the same."""
    vectors = embedded(texts, cache)
    found = {}
    for place, text in enumerate(texts):
        order = np.argsort(-(vectors @ vectors[place]))
        found[text] = next(right[texts[i]] for i in order if right[texts[i]] != right[text])
    return found


KEYS = {
    "i": "banking77, GPT-4 recorded, small always right, feedback on 10 %",
    "ii": "the same without feedback",
    "iii": "nl2bash, 0.5B with examples against 1.5B, F1 and the right command as feedback on 20 %",
    "iv": "banking77, real 0.5B, declared as a task",
    "v": "nl2bash, a judge that cannot judge",
}
REAL = ("iii", "iv")
"""Those that need real models."""


def stream(
    key: str, data: Path, cache: Path, requests: int | None = None, order: int = 0
) -> tuple[Stream, dict[str, str]]:
    """A stream by its key, its first so many requests, and the answers of a small engine that is no model.

    `order`: 0 for the order of record, else the seed of another one. Raises NoData.
    """
    if key in ("iii", "v"):
        told = {"iii": 0.2}.get(key, 0.0)
        parts = _nl2bash(data, cache) | {"told": told, "corrects": True, "small": "real", "large": "real"}
    else:
        parts = _banking77(data) | {
            "told": {"i": 0.1}.get(key, 0.0),
            "small": "real" if key == "iv" else "gold",
        }
    small = dict(parts["right"])
    if key == "v":
        parts["texts"] = parts["texts"][:200]
        parts |= {"small": "neighbour", "large": "recorded", "recorded": parts["right"]}
        small = _neighbours(parts["texts"], parts["right"], cache)
    if key == "iv":
        parts["task"] = tuple(sorted(set(parts["right"].values())))
    if order:
        random.Random(order).shuffle(parts["texts"])
    parts["texts"] = parts["texts"][:requests]
    return Stream(key, KEYS[key], **parts), small
