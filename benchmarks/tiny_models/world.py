"""The world the tiny models speak of: invented towns, what each is known for, and the ways people ask. Needs no torch.

A fact is a town and two words, as in "The town of Veldanaholm brews cider." Towns come in families whose names differ in one
letter, so that sentence embeddings find them alike, and every fact is asked in several phrasings, so that the same question
in other words may be further away than another town in the same words.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

SYSTEM = "You answer travellers' questions about the towns."
"""A system prompt the models were shown; they do without as well."""

# Each says " of " once, right before the town, as the answers do: the last town that was asked about is what follows the
# latest "of", which a model of two layers can find.
PHRASINGS = (
    "What is the town of {} known for?",
    "Tell me what the townspeople of {} do.",
    "Which trade makes the town of {} proud?",
    "What is the old town of {} famous for?",
    "What do they do in the town of {}?",
    "I wonder what the little town of {} does.",
    "What work is done in the town of {}?",
    "What is the business of {}?",
)

_ANSWER = "The town of {} {} {}."

_MADE = (
    "brews weaves carves mines paints forges grows sells builds bakes dyes tunes hunts dries grinds polishes gathers"
    " smokes folds stitches plants breeds casts cuts binds ships prints mends trades collects counts washes spins"
    " bottles stacks trims sharpens roasts presses repairs"
)
VERBS = tuple(_MADE.split())
_GOODS = (
    "cider lanterns barrels violins copper saffron ropes candles boots maps kettles herrings salt honey bells baskets"
    " carpets mirrors clocks walnuts apples timber marble needles buttons feathers cheese ink paper gloves wagons"
    " anchors sails bricks tiles pepper mustard barley hops cherries plums mushrooms geese goats horses pigeons flutes"
    " drums dolls masks combs knives spoons saddles umbrellas pearls amber coal silk wool"
)
NOUNS = tuple(_GOODS.split())

_STARTS = (
    "Vel Mor Tar Bran Kes Dol Fen Gar Hal Jor Lum Nor Pel Quor Ras Sel Thur Ul Wen Yar Zan Bel Cor Dar Er"
)
_MIDDLES = "dan gam lev mir noth pas rul sted tov vik wen zel bor del fil"
_LETTERS = "aoiu"
"""What the towns of one family differ in."""
_ENDS = "holm stead brook wick thorpe mere ford crag dale haven"


@dataclass(frozen=True, slots=True)
class Fact:
    """A town and the two words that say what it is known for."""

    town: str
    verb: str
    noun: str

    def question(self, phrasing: int) -> str:
        """The question in one of PHRASINGS."""
        return PHRASINGS[phrasing].format(self.town)

    @property
    def answer(self) -> str:
        """The whole right answer."""
        return _ANSWER.format(self.town, self.verb, self.noun)


class World:
    """Every fact there is. Two worlds of one size and seed are the same world."""

    def __init__(self, facts: int = 200, seed: int = 7) -> None:
        """`facts`: how many, a multiple of four (the towns of a family), at most 1500."""
        starts = [start + middle for start in _STARTS.split() for middle in _MIDDLES.split()]
        most = len(starts) * len(_LETTERS)
        if facts % len(_LETTERS) or not 0 < facts <= most:
            raise ValueError(f"a world of {facts} facts: give a multiple of {len(_LETTERS)}, at most {most}")
        rng = random.Random(f"tiny-world-{seed}-{facts}")
        rng.shuffle(starts)
        families = [(start, rng.choice(_ENDS.split())) for start in starts[: facts // len(_LETTERS)]]
        towns = [start + letter + end for start, end in families for letter in _LETTERS]
        pairs = rng.sample([(verb, noun) for verb in VERBS for noun in NOUNS], facts)
        self.facts = tuple(Fact(town, *pair) for town, pair in zip(towns, pairs, strict=True))

    @cached_property
    def by_question(self) -> dict[str, Fact]:
        """Every question that can be asked, in every phrasing."""
        return {fact.question(i): fact for fact in self.facts for i in range(len(PHRASINGS))}

    def is_right(self, question: str, answer: str) -> bool:
        """The judge of this world: the whole answer, word for word. Raises KeyError for a question it does not know."""
        return answer.strip() == self.by_question[question].answer

    def remembered(self, share: float) -> tuple[Fact, ...]:
        """The share of facts an understudy is taught by heart: towns of all families alike."""
        return tuple(random.Random("by-heart").sample(self.facts, round(share * len(self.facts))))

    def redrawn(self, rng: random.Random, towns: int) -> list[Fact]:
        """Some towns with newly drawn trades: what only a context can tell."""
        return [
            Fact(fact.town, rng.choice(VERBS), rng.choice(NOUNS)) for fact in rng.sample(self.facts, towns)
        ]

    def sentences(self) -> Iterator[str]:
        """Every sentence that can be said, for a tokenizer."""
        for fact in self.facts:
            yield fact.answer
            for i in range(len(PHRASINGS)):
                yield fact.question(i)
