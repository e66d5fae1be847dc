"""Words questions as people in the simulated world do: synonyms, frames, politeness, a story around it, typing slips.

Turns facts into text; every choice comes from the random generator it is given.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from simulation.names import tokens
from simulation.topics import Fact

FRAMES: tuple[tuple[str, int], ...] = (
    ("What is the {n} of {e}?", 10),
    ("What's the {n} of {e}?", 8),
    ("what's {e}'s {n}", 4),
    ("{e} {n}", 5),
    ("{n} {e}?", 2),
    ("Tell me the {n} of {e}.", 4),
    ("Do you know the {n} of {e}?", 3),
    ("I need the {n} of {e}.", 3),
    ("Can you look up the {n} for {e}?", 3),
    ("Remind me: {n} of {e}?", 2),
    ("{e} - {n}?", 2),
    ("Give me {e}'s {n}.", 2),
)
"""Ways to ask for a noun of a name, with their relative frequency."""

PAIRED = (
    "What are the {n} and the {m} of {e}?",
    "I need both the {n} and the {m} of {e}.",
    "For {e}: {n}, and also {m}?",
)
FOLLOW_SAME_NAME = (
    "And its {n}?",
    "And the {n}?",
    "ok and what's the {n}",
    "What about the {n}?",
    "Do you know the {n} as well?",
)
FOLLOW_OTHER_NAME = (
    "And {e}?",
    "What about {e}?",
    "Same for {e}, please.",
    "and for {e}?",
    "How about {e} then?",
)
OPENERS = (
    "Hi! ",
    "Hello, ",
    "Hey there. ",
    "Quick one: ",
    "Sorry to bother you, ",
    "Please help: ",
    "One more thing. ",
    "I was wondering, ",
)
CLOSERS = (
    " Thanks!",
    " Thank you in advance.",
    " Please.",
    " Just the answer, please.",
    " Short answer is fine.",
    " I can't find it anywhere.",
    " Asking for a colleague.",
    " No rush.",
)
STORIES = (
    "I'm putting together a handout for Thursday and one line is still blank.",
    "My sister and I have been arguing about this since breakfast and neither of us wants to give in, so here goes.",
    "We are cleaning up an old spreadsheet that somebody left behind, and half of the cells are empty. I have filled in "
    "what I could from memory, but I would rather check this one before it goes out to everybody.",
    "A customer is on hold while I write this, so I'd be grateful for something I can read out to her straight away.",
    "I had this written down on a note, then the dog ate the note.",
    "For the quiz tonight I still lack one question, and it must be something that nobody can guess.",
    "This came up in a meeting and nobody in the room was sure, which was a little embarrassing.",
    "I'm new here and still finding my way around, so forgive me if this is a silly question.",
)
DISTRACTIONS = (
    "I already know about {other}.",
    "Somebody told me about {other}, but that is not what I am after.",
    "Last week I asked you the same about {other}.",
    "Please don't mix it up with {other}.",
)
SYSTEM_PROMPTS = {
    "You are the help desk of a large organisation. Answer from the reference files.": (
        "device",
        "library",
        "employee",
    ),
    "You are a travel assistant. Reply in one short sentence.": ("place", "route", "festival"),
    "You are a friendly research librarian. Be precise, and give some background where it is useful.": (
        "title",
        "person",
    ),
}
"""System prompts of applications, with the kinds of names they are asked about: an application always sends the same one."""
CARELESS = (
    ("What is", "Whats"),
    ("What is the", "What is"),
    ("What's the", "what's"),
    ("the ", ""),
    ("?", "??"),
    ("?", " ?"),
    ("?", "?!"),
    ("Tell me", "tell me pls"),
    ("Can you", "can u"),
    ("Do you know", "do u know"),
    ("How ", "how "),
    ("Wh", "wh"),
)
"""Small differences in writing the same words: the original and its replacement."""
TAKES_AN_ARTICLE = frozenset({"device", "ship", "route", "species", "festival"})


@dataclass(frozen=True, slots=True)
class Habits:
    """How often people write in which way; probabilities, independent of each other."""

    own_form: float = 0.3
    """Uses a question of the relation's own instead of a frame around a noun."""
    opener: float = 0.1
    closer: float = 0.1
    story: float = 0.04
    distraction: float = 0.02
    """Names another entity of the same kind first."""
    lower_case: float = 0.3
    unpunctuated: float = 0.3
    careless: float = 0.3
    """Writes the same words slightly differently: `whats`, `??`, a missing `the`."""
    typo: float = 0.06


def with_article(fact: Fact) -> str:
    """The name as it is used in a sentence: `the QX-410`, but `Verdania`."""
    has_own = fact.entity.casefold().startswith("the ")
    return f"the {fact.entity}" if fact.kind in TAKES_AN_ARTICLE and not has_own else fact.entity


def _fill(template: str, fact: Fact, noun: str, other_noun: str = "") -> str:
    name = with_article(fact) if " {e}" in template and "the {e}" not in template else fact.entity
    return template.format(e=name, n=noun, m=other_noun)


def _mostly_the_first(rng: random.Random, options: Sequence[str]) -> str:
    """Draws a synonym: each is a third as frequent as the one before it."""
    return rng.choices(options, [3.0**-i for i in range(len(options))])[0]


def core(rng: random.Random, facts: Sequence[Fact], habits: Habits) -> str:
    """The bare question about one fact, or about two facts of one name."""
    fact = facts[0]
    noun = _mostly_the_first(rng, fact.relation.nouns)
    if len(facts) > 1:
        return _fill(rng.choice(PAIRED), fact, noun, _mostly_the_first(rng, facts[1].relation.nouns))
    if rng.random() < habits.own_form:
        return _fill(_mostly_the_first(rng, fact.relation.forms), fact, noun)
    frames, weights = zip(*FRAMES, strict=True)
    return _fill(rng.choices(frames, weights)[0], fact, noun)


def follow_up(rng: random.Random, fact: Fact, *, same_name: bool) -> str:
    """A question that needs the conversation before it: it leaves out the name, or what is asked about it."""
    return _fill(
        rng.choice(FOLLOW_SAME_NAME if same_name else FOLLOW_OTHER_NAME),
        fact,
        rng.choice(fact.relation.nouns),
    )


def dress(rng: random.Random, question: str, habits: Habits, distraction: str | None = None) -> str:
    """The question with politeness, a story and careless writing around it. Typing slips are made by `slip`."""
    if rng.random() < habits.careless:
        old, new = rng.choice(CARELESS)
        question = question.replace(old, new, 1)
    if rng.random() < habits.unpunctuated:
        question = question.rstrip("?.")
    if rng.random() < habits.opener:
        question = rng.choice(OPENERS) + question
    if distraction is not None:
        question = f"{distraction} {question}"
    if rng.random() < habits.story:
        question = f"{rng.choice(STORIES)} {question}"
    if rng.random() < habits.closer:
        question += rng.choice(CLOSERS)
    return question.lower() if rng.random() < habits.lower_case else question


def slip(rng: random.Random, text: str) -> str:
    """One typing slip in one word of four letters or more: a swapped, dropped, doubled or wrong letter."""
    words = text.split(" ")
    able = [i for i, w in enumerate(words) if len(w) >= 4 and w.isalpha()]
    if not able:
        return text
    at = rng.choice(able)
    word = words[at]
    i = rng.randrange(1, len(word) - 1)
    words[at] = rng.choice(
        (
            word[:i] + word[i + 1] + word[i] + word[i + 2 :],
            word[:i] + word[i + 1 :],
            word[:i] + word[i] + word[i:],
            word[:i] + rng.choice("abcdefghijklmnoprstuvw") + word[i + 1 :],
        )
    )
    return " ".join(words)


def plain_words() -> set[str]:
    """Every word that people use around a question, so that a reader takes none for a misspelt name."""
    texts = [f for f, _ in FRAMES]
    for group in (PAIRED, FOLLOW_SAME_NAME, FOLLOW_OTHER_NAME, OPENERS, CLOSERS, STORIES, DISTRACTIONS):
        texts.extend(group)
    texts.extend(new for _, new in CARELESS)
    return {w for t in texts for w in tokens(t)}
