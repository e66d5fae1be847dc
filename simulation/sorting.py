"""A task of few labels for the simulated engines: a system prompt that lists kinds of names, and questions to be sorted."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from engines.chat import message_text
from simulation.reading import Messages
from simulation.topics import Fact

PROMPT = "Sort the question by what it is about. Answer with one word of: {kinds}."
OTHER = "other"
_ASKED = re.compile(r"^Sort the question by .*\bone word of: ([\w, ]+)\.")


def labels(messages: Messages) -> tuple[str, ...]:
    """The labels that the system prompt lists; none where nothing is to be sorted."""
    for message in messages:
        if message.get("role") == "system" and (found := _ASKED.match(message_text(message.get("content")))):
            return tuple(label.strip() for label in found[1].split(","))
    return ()


def sorted_as(asked: Sequence[str], facts: Sequence[Fact], rng: random.Random, *, sure: bool) -> str:
    """The label of a question about these facts; one at random, now and then, by who is not `sure`."""
    if not sure and rng.random() < _SLIPS:
        return rng.choice(list(asked))
    return right_label(asked, facts)


def right_label(asked: Sequence[str], facts: Sequence[Fact]) -> str:
    """The label of a question about these facts."""
    kind = facts[0].kind if facts else OTHER
    return kind if kind in asked else OTHER


_SLIPS = 0.1
