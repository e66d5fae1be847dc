"""The simulated world as a judge of examples: who would be helped by what, how much, and what the best choice would
have been.

Everything that is chosen by or trained on comes from texts, vectors and graded answers; the truth (`expected_quality`,
`best_set`) is only ever used to measure.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from router import digest
from router.plan import Candidate
from router.prompt import with_examples
from simulation import minds as simulated_minds
from simulation.minds import Aptitude, knows, reply
from simulation.reading import Pair
from simulation.stream import Ask, Stream
from simulation.topics import Fact
from simulation.world import World, seeded
from store.records import Example, Vector

ENGINE_SEED = 7
LEAD = "lead"
REMEMBERED = 0.5
"""Share of the requests that the lead answers, and that so become examples."""
SECONDS_APART = 20.0


@dataclass(frozen=True)
class Played:
    """A stream of requests with what memory makes of each."""

    world: World
    asks: list[Ask]
    texts: list[str]
    vectors: np.ndarray
    answers: list[str]
    """What the lead says to each."""
    answer_vectors: np.ndarray | None

    def example(self, i: int) -> Example:
        """Request `i` with the lead's answer, as it would be remembered."""
        return Example(
            id=i + 1,
            seq=i + 1,
            tenant="t",
            scope=scope_of(self.asks[i]),
            question=self.texts[i],
            answer=self.answers[i],
            source_engine=LEAD,
            created_at_s=SECONDS_APART * i,
        )


def scope_of(ask: Ask) -> str:
    """What must be equal for an example to apply: here, the system prompt."""
    first = ask.messages[0]
    return first["content"] if first["role"] == "system" else ""


def play(world: World, requests: int, seed: int, embed: Callable[[str], Vector], *, answers: bool) -> Played:
    """Reads the stream and embeds it; the lead answers every request. `answers`: embed those as well."""
    asks = list(Stream(world, requests, seed=seed))
    texts = [digest.question(ask.messages) for ask in asks]
    said = [reply(world, "lead", ENGINE_SEED, ask.messages) for ask in asks]
    vectors = np.stack([embed(text) for text in texts])
    return Played(world, asks, texts, vectors, said, np.stack([embed(a) for a in said]) if answers else None)


class Bank:
    """What is remembered: the nearest of it by exact search, within the same scope unless told otherwise."""

    def __init__(self, played: Played, *, scoped: bool = True) -> None:
        self._played = played
        self._scoped = scoped
        self._of_scope: dict[str, list[int]] = {}
        self._questions: dict[str, set[str]] = {}

    def add(self, i: int) -> None:
        """Remembers request `i`, unless the very same question is there."""
        scope = scope_of(self._played.asks[i]) if self._scoped else ""
        known = self._questions.setdefault(scope, set())
        if self._played.texts[i] not in known:
            known.add(self._played.texts[i])
            self._of_scope.setdefault(scope, []).append(i)

    def everything(self) -> list[Candidate]:
        """All that is remembered, oldest first, as candidates of no request."""
        return [self._candidate(i, 0.0) for i in sorted(i for ids in self._of_scope.values() for i in ids)]

    def near(self, i: int, count: int) -> list[Candidate]:
        """Candidates for request `i`, nearest first; never the very same question."""
        played = self._played
        there = self._of_scope.get(scope_of(played.asks[i]) if self._scoped else "", [])
        if not there:
            return []
        similarity = played.vectors[there] @ played.vectors[i]
        nearest = np.argsort(-similarity, kind="stable")
        order = [j for j in nearest if played.texts[there[j]] != played.texts[i]]
        return [self._candidate(there[j], float(similarity[j])) for j in order[:count]]

    def _candidate(self, i: int, similarity: float) -> Candidate:
        played = self._played
        answer = None if played.answer_vectors is None else played.answer_vectors[i]
        return Candidate(played.example(i), similarity, played.vectors[i], answer)


def remembered(played: Played, upto: int, seed: int) -> Bank:
    """A bank of what the lead answered among the first `upto` requests."""
    bank = Bank(played)
    for i in range(upto):
        if is_remembered(i, seed):
            bank.add(i)
    return bank


def is_remembered(i: int, seed: int) -> bool:
    """Whether the lead answers request `i` when nobody asks otherwise."""
    return seeded("remembered", seed, i).random() < REMEMBERED


def graded(world: World, ask: Ask, examples: Sequence[Candidate], choice: int = 0) -> float:
    """Asks the understudy once, and grades what it says: all that anybody outside a simulation can know."""
    messages = with_examples(ask.messages, examples)
    said = reply(world, "understudy", ENGINE_SEED, messages, choice)
    return world.grade(ask.messages, said)


def expected_quality(world: World, ask: Ask, examples: Sequence[Candidate]) -> float:
    """The understudy's mean grade with these examples, from its aptitude rather than from replies."""
    mind = Aptitude()
    messages = with_examples(ask.messages, examples)
    pairs = world.reader.pairs(messages)
    reading = world.read(messages)
    if reading.one_off is not None:
        chance = mind.one_off * (mind.irrelevant if any(p.facts for p in pairs) else 1.0)
        return chance + (1 - chance) * _worth_of_an_error(world, ask)
    if not reading.facts:
        return 0.0
    return sum(_chance(world, fact, pairs, mind) for fact in reading.facts) / len(reading.facts)


def _chance(world: World, fact: Fact, pairs: Sequence[Pair], mind: Aptitude) -> float:
    told, misleading, irrelevant, of_rule = simulated_minds._sort_out(world, fact, pairs)
    if told:
        right = told.casefold() == fact.value.casefold()
        read = mind.right_when_read * mind.irrelevant_when_read**irrelevant
        return read * mind.misleading_when_read ** len(misleading) if right else 0.0
    chance = mind.lucky
    if fact.is_rule:
        chance = mind.rule_after[min(of_rule, len(mind.rule_after) - 1)] * mind.irrelevant**irrelevant
    if knows(world, ENGINE_SEED, fact, mind):
        known = mind.right_when_known * mind.irrelevant**irrelevant * mind.misleading ** len(misleading)
        chance = max(chance, known)
    return chance


def _worth_of_an_error(world: World, ask: Ask) -> float:
    """The mean grade of wrong answers to a one-off: some hold half of what they should."""
    asked = world.read(ask.messages).one_off
    assert asked is not None
    wrong = [simulated_minds._one_off(asked, seeded("wrong", n, ask.question), 0.0) for n in range(4)]
    return sum(world.grade(ask.messages, answer) for answer in wrong) / len(wrong)


def best_set(world: World, ask: Ask, candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """The oracle's choice: by the true expected quality, greedily and then exchanging one for one while that helps."""
    chosen: list[Candidate] = []
    best = expected_quality(world, ask, chosen)
    while len(chosen) < most:
        tried = [
            (expected_quality(world, ask, [c, *chosen]), -k)
            for k, c in enumerate(candidates)
            if c not in chosen
        ]
        if not tried or max(tried)[0] <= best + 1e-9:
            break
        best, place = max(tried)
        chosen = [candidates[-place], *chosen]
    for k, other in itertools.product(range(len(chosen)), candidates):
        if other not in chosen:
            exchanged = [*chosen[:k], other, *chosen[k + 1 :]]
            if (value := expected_quality(world, ask, exchanged)) > best + 1e-9:
                best, chosen = value, exchanged
    return chosen
