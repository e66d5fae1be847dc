"""Conversations to be played: two recorded traces, and four that are made by rules (docs/experiments/agents.md has them)."""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.recorded import rows, there
from engines.chat import CHARACTERS_PER_TOKEN

Message = Mapping[str, Any]
RECORDED = 1500
"""Requests of a recorded trace that are played: of each seed another stretch."""
_EASY, _MIXED, _HARD = (0.985, 0.99), (0.75, 0.97), (0.3, 0.7)
"""Between what a small engine's chance of a good answer is drawn, for each turn of a conversation of this kind."""
_NOISE = 0.03
"""Standard deviation of what a router expects of it."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a conversation."""

    session: int
    at_s: float
    messages: Sequence[Message]
    completion_tokens: int
    in_tool_loop: bool
    good: bool
    """Whether the small engine's answer would be good. The large one's always is."""
    expected: float
    """What a router expects of the small engine here, 0 to 1."""
    tools: Sequence[Any] = ()


@dataclass(slots=True)
class _Writer:
    """Writes one conversation, request by request."""

    session: int
    rng: random.Random
    system: Message
    at_s: float
    chances: tuple[float, float]
    tools: Sequence[Any] = ()
    messages: list[Message] = field(default_factory=list)
    good: bool = True
    chance: float = 1.0

    def user(self, tokens: float) -> None:
        """A user's turn: whether the small engine can do it holds for all steps of its tool loop."""
        if not self.messages:
            self.messages.append(self.system)
        chance = self.rng.uniform(*self.chances)
        self.good = self.rng.random() < chance
        self.chance = chance
        self._say("user", tokens)

    def tool(self, tokens: float) -> None:
        """A tool's result."""
        self._say("tool", tokens, tool_call_id="call")

    def asks(self, completion_tokens: float, *, in_tool_loop: bool = False) -> Request:
        """The request that stands here."""
        return Request(
            self.session,
            self.at_s,
            tuple(self.messages),
            max(1, round(completion_tokens)),
            in_tool_loop,
            self.good,
            min(1.0, max(0.0, self.chance + self.rng.gauss(0.0, _NOISE))),
            self.tools,
        )

    def answer(self, tokens: float, *, calls: bool = False) -> None:
        """The answer to it, which later requests carry."""
        said = (
            {"tool_calls": [{"id": "call", "type": "function", "function": {"name": "f"}}]} if calls else {}
        )
        self._say("assistant", tokens, **said)

    def _say(self, role: str, tokens: float, **more: Any) -> None:
        number = f"{self.session}.{len(self.messages)} "
        self.messages.append({"role": role, "content": text(number, tokens), **more})


def text(begins: str, tokens: float) -> str:
    """A text of about so many tokens, different for each beginning."""
    return begins.ljust(max(1, round(tokens)) * CHARACTERS_PER_TOKEN, "x")


def hard_coding(seed: int) -> Iterator[Request]:
    """The same, of which the small engine can do one task in eight: here nothing is to be had, and much to be lost."""
    return coding(seed, easy=0.1, mixed=0.1)


def coding(seed: int, easy: float = 0.6, mixed: float = 0.25) -> Iterator[Request]:
    """A coding agent: 12,000 tokens of instructions and tools, a few tasks, each with a loop of tools; some 30 requests."""
    rng = random.Random(f"coding {seed}")
    system, tools = _system("coding", 8_000), _tools(4_000)
    for session, at_s in _arrivals(rng, 80, every_s=60.0):
        one = _Writer(session, rng, system, at_s, _EASY, tools)
        for _ in range(rng.randint(2, 4)):
            one.chances = _kind(rng, easy, mixed)
            one.user(rng.lognormvariate(5.0, 0.8))
            yield one.asks(150)
            for _ in range(_geometric(rng, 9.0)):
                one.answer(150, calls=True)
                one.tool(min(8_000.0, rng.lognormvariate(6.6, 1.0)))
                one.at_s += 6.0 + rng.expovariate(1 / 6.0)
                yield one.asks(150, in_tool_loop=True)
            one.answer(350)
            one.at_s += rng.lognormvariate(4.1, 0.8)


def support(seed: int) -> Iterator[Request]:
    """A support chat: 1,500 tokens of instructions, five turns, one in three looks something up."""
    rng = random.Random(f"support {seed}")
    system, tools = _system("support", 1_300), _tools(200)
    for session, at_s in _arrivals(rng, 260, every_s=12.0):
        one = _Writer(session, rng, system, at_s, _kind(rng, 0.7, 0.2), tools)
        for _ in range(_geometric(rng, 5.0)):
            one.user(rng.lognormvariate(4.1, 0.6))
            if rng.random() < 1 / 3:
                yield one.asks(40)
                one.answer(40, calls=True)
                one.tool(300)
                one.at_s += 3.0
                yield one.asks(180, in_tool_loop=True)
            else:
                yield one.asks(180)
            one.answer(180)
            one.at_s += rng.lognormvariate(3.8, 0.8)


def research(seed: int) -> Iterator[Request]:
    """Questions on long documents: 30,000 tokens to begin with, six turns, two minutes apart: caches run out at times."""
    rng = random.Random(f"research {seed}")
    system = _system("research", 800)
    for session, at_s in _arrivals(rng, 200, every_s=40.0):
        one = _Writer(session, rng, system, at_s, _kind(rng, 0.55, 0.25))
        for turn in range(_geometric(rng, 6.0)):
            one.user(rng.lognormvariate(10.3, 0.4) if turn == 0 else rng.lognormvariate(6.0, 1.2))
            yield one.asks(500)
            one.answer(500)
            one.at_s += rng.lognormvariate(4.8, 0.7)


def batch(seed: int) -> Iterator[Request]:
    """Single questions under 2,000 tokens of instructions that all share."""
    rng = random.Random(f"batch {seed}")
    system = _system("batch", 2_000)
    for session, at_s in _arrivals(rng, 1_200, every_s=1.0):
        one = _Writer(session, rng, system, at_s, _kind(rng, 0.65, 0.2))
        one.user(rng.lognormvariate(5.3, 0.7))
        yield one.asks(rng.lognormvariate(5.0, 0.5))


def mooncake(seed: int, data: Path) -> Iterator[Request]:
    """Kimi's conversations (Mooncake): recorded lengths, times and shared blocks.

    A request goes on with the earlier one that it shares most blocks with, if it shares all of its whole ones.
    """
    rng = random.Random(f"mooncake {seed}")
    recorded = rows(data / "trace_mooncake_conversation.jsonl.gz")
    at = seed * RECORDED % max(1, len(recorded) - RECORDED)
    ends: dict[tuple[int, ...], tuple[_Writer, list[Message], int]] = {}
    system = _system("mooncake", 512)
    for number, row in enumerate(recorded[at : at + RECORDED]):
        blocks, before = tuple(row["hash_ids"]), None
        for length in range(len(blocks), 1, -1):
            before = ends.get(blocks[:length])
            if before is not None:
                break
        if before is None:
            one = _Writer(number, rng, system, 0.0, _kind(rng, 0.6, 0.25))
            tokens = row["tokens_in"] - 512
        else:
            earlier, said, so_far = before
            one = _Writer(earlier.session, rng, system, 0.0, earlier.chances, messages=list(said))
            tokens = row["tokens_in"] - so_far
        one.at_s = row["t_ms"] / 1000
        one.user(max(8, tokens))
        yield one.asks(row["tokens_out"])
        one.answer(row["tokens_out"])
        ends[blocks[:-1]] = one, list(one.messages), row["tokens_in"] + row["tokens_out"]


def azure(seed: int, data: Path) -> Iterator[Request]:
    """Azure's conversations of 2023: recorded lengths and times. They name no conversations; the rule that finds some:

    A request goes on with the open conversation (ten minutes) whose prompts and answers are the longest that fit into its
    prompt, if they leave 20 to 400 tokens for what is new.
    """
    rng = random.Random(f"azure {seed}")
    system = _system("azure", 100)
    with gzip.open(there(data / "trace_azure2023_conv.csv.gz"), "rt", encoding="utf-8") as lines:
        recorded = list(csv.DictReader(lines))
    at = seed * RECORDED % max(1, len(recorded) - RECORDED)
    open_: list[tuple[int, _Writer]] = []
    for number, row in enumerate(recorded[at : at + RECORDED]):
        at_s, prompt, answer = float(row["t_s"]), int(row["tokens_in"]), int(row["tokens_out"])
        open_ = [each for each in open_ if at_s - each[1].at_s < 600]
        fits = [each for each in open_ if 20 <= prompt - each[0] <= 400]
        so_far, one = max(
            fits,
            key=lambda each: each[0],
            default=(100, _Writer(number, rng, system, at_s, _kind(rng, 0.6, 0.25))),
        )
        open_ = [each for each in open_ if each[1] is not one]
        one.at_s = at_s
        one.user(max(8, prompt - so_far))
        yield one.asks(answer)
        one.answer(answer)
        open_.append((prompt + answer, one))


MADE: Mapping[str, Callable[[int], Iterator[Request]]] = {
    "coding": coding,
    "hard coding": hard_coding,
    "support": support,
    "research": research,
    "batch": batch,
}
RECORDED_TRACES: Mapping[str, Callable[[int, Path], Iterator[Request]]] = {
    "mooncake": mooncake,
    "azure": azure,
}


def trace(name: str, seed: int, data: Path) -> list[Request]:
    """The requests of a trace in the order of their times. Raises NoData."""
    found = MADE[name](seed) if name in MADE else RECORDED_TRACES[name](seed, data)
    return sorted(found, key=lambda request: request.at_s)


def _system(name: str, tokens: int) -> Message:
    return {"role": "system", "content": text(f"You are {name}. ", tokens)}


def _tools(tokens: int) -> Sequence[Any]:
    return ({"type": "function", "function": {"name": "f", "description": text("It ", tokens - 20)}},)


def _kind(rng: random.Random, easy: float, mixed: float) -> tuple[float, float]:
    drawn = rng.random()
    return _EASY if drawn < easy else _MIXED if drawn < easy + mixed else _HARD


def _arrivals(rng: random.Random, count: int, every_s: float) -> Iterator[tuple[int, float]]:
    at_s = 0.0
    for session in range(count):
        at_s += rng.expovariate(1 / every_s)
        yield session, at_s


def _geometric(rng: random.Random, mean: float) -> int:
    """At least 1."""
    count = 1
    while rng.random() < 1 - 1 / mean:
        count += 1
    return count
