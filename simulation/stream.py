"""Generates the requests that people make of the simulated world, from a seed.

Popularity follows Zipf's law; people repeat requests exactly, paraphrase each other, ask the same about a nearly identical
name, follow up, chat, and take up new topics over time. An engine sees the messages only: the other fields of an `Ask` are
for reports.
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from simulation import oneoffs as simulated_oneoffs
from simulation.phrasing import DISTRACTIONS, SYSTEM_PROMPTS, Habits, core, dress, follow_up, slip
from simulation.topics import TOPICS, Fact
from simulation.world import World, seeded


@dataclass(frozen=True, slots=True)
class Traffic:
    """The parameters of the stream. Shares are of all requests; the rest asks a popular fact in a new wording."""

    zipf_exponent: float = 1.1
    """Exponent of the popularity of facts: the fact of rank r = 1, 2, ... is asked in proportion to r ** -zipf_exponent."""
    exact_repeat: float = 0.08
    """The same conversation again, byte for byte: a retry, a shared link, a button that sends a fixed question."""
    look_alike: float = 0.08
    """The wording of a recent question, about another name of the same kind."""
    near_name: float = 0.5
    """Share of the look-alikes about a nearly identical name, where there is one."""
    one_off: float = 0.08
    """Sums, sorting, letters: answerable, but not from examples."""
    small_talk: float = 0.02
    follow_up: float = 0.07
    compound: float = 0.03
    """Two facts of one name in one question."""
    recent: int = 400
    """Number of requests that repeats and look-alikes reach back."""
    by_application: float = 0.9
    """Share of the questions about an application's kinds that come through it, with its system prompt."""
    habits: Habits = field(default_factory=Habits)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, with what it asks for."""

    number: int
    messages: tuple[dict[str, str], ...]
    kind: str
    """new | exact_repeat | look_alike | one_off | small_talk | follow_up | compound"""
    facts: tuple[Fact, ...] = ()

    @property
    def question(self) -> str:
        """The last user turn."""
        return self.messages[-1]["content"]


class Stream:
    """`length` requests about a world. Iterating twice gives the same requests."""

    def __init__(self, world: World, length: int, *, seed: int = 7, traffic: Traffic | None = None) -> None:
        self.world = world
        self.length = length
        self.traffic = traffic or Traffic()
        self._seed = seed
        self._kin: dict[tuple[str, str], list[Fact]] = {}
        for fact in world.facts:
            self._kin.setdefault((fact.kind, fact.relation.key), []).append(fact)
        self._of_entity: dict[str, list[Fact]] = {}
        for fact in world.facts:
            self._of_entity.setdefault(fact.entity, []).append(fact)

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Ask]:
        rng = seeded("stream", self._seed, self.world.seed)
        ranked = list(self.world.facts)
        rng.shuffle(ranked)
        popularity = {f.id: (rank + 1) ** -self.traffic.zipf_exponent for rank, f in enumerate(ranked)}
        arrivals = sorted({t.arrives_at for t in TOPICS})
        recent: deque[Ask] = deque(maxlen=self.traffic.recent)
        drawn: tuple[list[Fact], list[float]] = ([], [])
        for number in range(self.length):
            if arrivals and number >= arrivals[0] * self.length:
                now = arrivals.pop(0)
                there = {t.kind for t in TOPICS if t.arrives_at <= now}
                facts = [f for f in ranked if f.kind in there]
                drawn = facts, list(itertools.accumulate(popularity[f.id] for f in facts))
            ask = self._next(rng, number, recent, drawn)
            recent.append(ask)
            yield ask

    def _next(
        self, rng: random.Random, number: int, recent: deque[Ask], drawn: tuple[list[Fact], list[float]]
    ) -> Ask:
        traffic = self.traffic
        kind = _choose(
            rng,
            exact_repeat=traffic.exact_repeat if recent else 0.0,
            look_alike=traffic.look_alike if recent else 0.0,
            one_off=traffic.one_off,
            small_talk=traffic.small_talk,
            follow_up=traffic.follow_up,
            compound=traffic.compound,
        )
        if kind == "exact_repeat":
            return replace(rng.choice(recent), number=number, kind=kind)
        if kind == "one_off":
            return Ask(number, self._say(rng, simulated_oneoffs.make(rng), None), kind)
        if kind == "small_talk":
            return Ask(number, self._say(rng, rng.choice(simulated_oneoffs.SMALL_TALK), None), kind)
        if kind == "look_alike" and (ask := self._look_alike(rng, number, rng.choice(recent))) is not None:
            return ask
        facts, weights = drawn
        fact = facts[bisect.bisect(weights, rng.random() * weights[-1])]
        if kind == "follow_up":
            return self._follow_up(rng, number, fact)
        others = [f for f in self._of_entity[fact.entity] if f is not fact]
        if kind == "compound" and others:
            return self._ask(rng, number, "compound", (fact, rng.choice(others)))
        return self._ask(rng, number, "new", (fact,))

    def _ask(self, rng: random.Random, number: int, kind: str, facts: tuple[Fact, ...]) -> Ask:
        habits = self.traffic.habits
        distraction = None
        if rng.random() < habits.distraction:
            other = rng.choice(self._kin[facts[0].kind, facts[0].relation.key])
            if other is not facts[0]:
                distraction = rng.choice(DISTRACTIONS).format(other=other.entity)
        text = dress(rng, core(rng, facts, habits), habits, distraction)
        if rng.random() < habits.typo and self.world.read(slipped := slip(rng, text)).facts == facts:
            text = slipped
        return Ask(number, self._say(rng, text, facts[0]), kind, facts)

    def _look_alike(self, rng: random.Random, number: int, model: Ask) -> Ask | None:
        """The model request's words about another name; None where they cannot be reused."""
        if len(model.facts) != 1 or model.kind == "follow_up":
            return None
        fact = model.facts[0]
        kin = [f for f in self._kin[fact.kind, fact.relation.key] if f is not fact]
        near = [f for f in kin if f.family == fact.family]
        other = rng.choice(near) if near and rng.random() < self.traffic.near_name else rng.choice(kin)
        text = model.question.replace(fact.entity, other.entity).replace(
            fact.entity.lower(), other.entity.lower()
        )
        if self.world.read(text).facts != (other,):
            return None
        return Ask(number, (*model.messages[:-1], {"role": "user", "content": text}), "look_alike", (other,))

    def _follow_up(self, rng: random.Random, number: int, fact: Fact) -> Ask:
        """A second turn that leaves out the name, or what is asked about it; its first turn was answered rightly."""
        same_name = rng.random() < 0.5
        pool = self._of_entity[fact.entity] if same_name else self._kin[fact.kind, fact.relation.key]
        earlier = rng.choice([f for f in pool if f is not fact] or [fact])
        opening = self._say(
            rng, dress(rng, core(rng, (earlier,), self.traffic.habits), self.traffic.habits), fact
        )
        text = follow_up(rng, fact, same_name=same_name)
        messages = (
            *opening,
            {"role": "assistant", "content": f"It is {earlier.value}."},
            {"role": "user", "content": text},
        )
        if self.world.read(messages).facts != (fact,):
            return self._ask(rng, number, "new", (fact,))
        return Ask(number, messages, "follow_up", (fact,))

    def _say(self, rng: random.Random, text: str, about: Fact | None) -> tuple[dict[str, str], ...]:
        user = {"role": "user", "content": text}
        for prompt, kinds in SYSTEM_PROMPTS.items():
            if about is not None and about.kind in kinds and rng.random() < self.traffic.by_application:
                return ({"role": "system", "content": prompt}, user)
        return (user,)


def _choose(rng: random.Random, **shares: float) -> str:
    at = rng.random()
    for name, share in shares.items():
        at -= share
        if at < 0:
            return name
    return "new"
