"""The simulated world: a few thousand invented facts, and the grading of answers about them.

Seeded and without a clock: the same seed and size give the same world anywhere. See
docs/experiments/simulated-world.md for the model.
"""

from __future__ import annotations

import hashlib
import random
import re

from simulation import names as simulated_names
from simulation.reading import Messages, Reader, Reading
from simulation.sorting import labels, right_label
from simulation.topics import TOPICS, Fact

SIBLING_SHARE = 0.3
"""Share of the names that are made as nearly identical siblings of another."""


def seeded(*parts: object) -> random.Random:
    """A random generator that depends on the parts' text only, the same on every machine and in every process."""
    text = "\x1f".join(str(p) for p in parts)
    return random.Random(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()))


class World:
    """About `facts` facts, at least two names of each kind. Build it once: it takes a tenth of a second."""

    def __init__(self, seed: int = 7, facts: int = 3000) -> None:
        self.seed = seed
        per_kind = max(2, round(facts / sum(len(t.relations) * t.breadth for t in TOPICS)))
        taken: set[str] = set()
        made: list[Fact] = []
        for topic in TOPICS:
            rng = seeded("world", seed, topic.kind)
            named = simulated_names.names(
                rng, topic.kind, per_kind * topic.breadth, sibling_share=SIBLING_SHARE, taken=taken
            )
            for entity, family in named:
                for relation in topic.relations:
                    if relation.rule is not None:
                        value = relation.rule(entity)
                    else:
                        assert relation.draw is not None
                        value = relation.draw(rng)
                    made.append(Fact(len(made), entity, topic.kind, family, relation, value))
        self.facts: tuple[Fact, ...] = tuple(made)
        self.reader = Reader(self.facts)
        self._values: dict[tuple[str, str], tuple[str, ...]] = {}
        for topic in TOPICS:
            for relation in topic.relations:
                values = {f.value for f in made if f.kind == topic.kind and f.relation is relation}
                self._values[topic.kind, relation.key] = tuple(sorted(values, key=lambda v: (-len(v), v)))
        self._patterns = {key: _any_of(values) for key, values in self._values.items()}

    def read(self, question: str | Messages) -> Reading:
        """What a question asks for; a conversation's last turn is read with its earlier turns."""
        return self.reader.read(
            [{"role": "user", "content": question}] if isinstance(question, str) else question
        )

    def stated(self, fact: Fact, text: str) -> set[str]:
        """The values of the fact's relation that a text states."""
        said = text.replace(fact.entity, " ")
        return {m.casefold() for m in self._patterns[fact.kind, fact.relation.key].findall(said)}

    def plausible_error(self, fact: Fact, rng: random.Random) -> str:
        """A wrong value that looks right: another name's value of the same relation."""
        others = [v for v in self._values[fact.kind, fact.relation.key] if v != fact.value]
        return rng.choice(others)

    def grade(self, question: str | Messages, answer: str) -> float:
        """The quality of an answer, 0 to 1.

        For a fact: 1 for its value alone, 1/2 for its value beside another of the same relation, 0 otherwise; a question
        about several facts gets their mean. For a one-off: see OneOff.grade. For a question that is to be sorted: 1 for its
        label. For a question this world does not know: 0.
        """
        reading = self.read(question)
        if asked := () if isinstance(question, str) else labels(question):
            return float(answer.strip() == right_label(asked, reading.facts))
        if reading.one_off is not None:
            return reading.one_off.grade(answer)
        if not reading.facts:
            return 0.0
        truths = {f.value.casefold() for f in reading.facts}
        return sum(self._grade_one(f, answer, truths) for f in reading.facts) / len(reading.facts)

    def _grade_one(self, fact: Fact, answer: str, truths: set[str]) -> float:
        said = self.stated(fact, answer)
        if fact.value.casefold() not in said:
            return 0.0
        return 0.5 if said - truths else 1.0


def _any_of(values: tuple[str, ...]) -> re.Pattern[str]:
    """Matches any of the values as a whole word or phrase, the longest first, so that no value is found inside another."""
    return re.compile(
        r"(?<!\w)(?<!\d[,.])(?:" + "|".join(re.escape(v) for v in values) + r")(?!\w)", re.IGNORECASE
    )
