"""Chooses which examples to send, how many and in what order: the set with the most expected quality, often empty.

Candidates are ranked by their worth, and once more with every answer's best example first: where one right example is
enough, a second one with the same answer adds nothing. Of all beginnings of both rankings the best is sent
(router.examples.set_quality).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from engines.chat import ChatRequest
from router.examples.set_quality import UNLEARNT, UNLEARNT_MOST, SetQuality, same_answer, terms_of_prefixes
from router.plan import Candidate
from router.prompt import example_tokens, tokens_needed

Order = Literal["helpful_last", "stable"]
"""helpful_last: the most helpful next to the question. stable: those the engine keeps warm first, then by age, so that an
engine that caches prefixes meets the same prefix again when the same examples are chosen."""
LeftOut = Literal["not_scored", "no_room", "enough", "adds_too_little"]
"""not_scored: its worth is unknown. no_room: its tokens did not fit. enough: as many as allowed were chosen.
adds_too_little: the set is expected to be no better with it."""


@dataclass(frozen=True, slots=True)
class Combination:
    """The chosen set."""

    chosen: tuple[Candidate, ...]
    """In the order in which they are sent."""
    quality_with: float
    """Expected quality of the small engine with them, 0 to 1; without any, its quality alone."""
    tokens: int
    """Estimated tokens they add to the prompt."""
    left_out: Mapping[int, LeftOut] = field(default_factory=dict, compare=False)
    """Why each of the others was not chosen, by the example's id."""


def combine(
    candidates: Sequence[Candidate],
    *,
    quality: SetQuality,
    most: int,
    budget_tokens: int,
    order: Order = "helpful_last",
    hot: Mapping[int, int] | None = None,
    number: int | None = None,
) -> Combination:
    """The examples to send: at most `most`, of at most `budget_tokens` together.

    `number`: exactly so many, if there are and they fit, whether expected to help or not. `hot`: positions of the examples
    that the engine keeps warm, for the stable order. Candidates without a worth are skipped. Before anything is learnt of
    sets, UNLEARNT_MOST are sent.
    """
    if quality == UNLEARNT and number is None:
        most = number = min(most, UNLEARNT_MOST)
    scored = sorted(
        (c for c in candidates if c.gain is not None and c.gain == c.gain), key=lambda c: -(c.gain or 0.0)
    )
    best: Sequence[Candidate] = ()
    best_quality = quality.alone if not number else float("-inf")
    # Where examples only vote, the best by worth are the best set.
    for ranked in (scored, _each_answer_first(scored)) if quality.one else (scored,):
        fitting = _that_fit(ranked, most if number is None else min(most, number), budget_tokens)
        answers = [same_answer(c.example.answer) for c in fitting]
        for n, terms in enumerate(terms_of_prefixes([c.gain or 0.0 for c in fitting], answers), 1):
            expected = quality.of(terms)
            if expected > best_quality and (number is None or n == len(fitting)):
                best, best_quality = fitting[:n], expected
    tokens = sum(map(example_tokens, best))
    sent, full, room_tokens = {c.example.id for c in best}, len(best) >= most, budget_tokens - tokens
    left_out = {c.example.id: _why_not(c, full, room_tokens) for c in candidates if c.example.id not in sent}
    expected = best_quality if best else quality.alone
    return Combination(_ordered(best, order, hot or {}), min(1.0, max(0.0, expected)), tokens, left_out)


def _each_answer_first(ranked: Sequence[Candidate]) -> list[Candidate]:
    """The best example of every answer, then the others, each in their order."""
    first: dict[str, Candidate] = {}
    rest = [c for c in ranked if first.setdefault(same_answer(c.example.answer), c) is not c]
    return [*first.values(), *rest]


def _that_fit(ranked: Sequence[Candidate], most: int, room_tokens: int) -> list[Candidate]:
    """The first that fit; one that is too long is skipped for the next."""
    fitting: list[Candidate] = []
    for candidate in ranked:
        if len(fitting) >= most:
            break
        tokens = example_tokens(candidate)
        if tokens <= room_tokens:
            fitting.append(candidate)
            room_tokens -= tokens
    return fitting


def _why_not(candidate: Candidate, full: bool, room_tokens: int) -> LeftOut:
    if candidate.gain is None or candidate.gain != candidate.gain:
        return "not_scored"
    if full:
        return "enough"
    return "no_room" if example_tokens(candidate) > room_tokens else "adds_too_little"


def with_worths(candidates: Sequence[Candidate], worths: Sequence[float]) -> list[Candidate]:
    """The candidates with the scorer's worths, in order; a third of the time dataclasses.replace takes."""
    return [
        Candidate(c.example, c.similarity, c.vector, c.answer_vector, worth, c.words)
        for c, worth in zip(candidates, worths, strict=True)
    ]


def room_tokens(chat: ChatRequest, *, max_example_tokens: int, context_tokens: int | None) -> int:
    """Tokens that examples may take: the operator's limit, and what the engine's context window leaves; at least 0."""
    if context_tokens is None:
        return max(0, max_example_tokens)
    return max(0, min(max_example_tokens, context_tokens - tokens_needed(chat)))


def _ordered(best_first: Sequence[Candidate], order: Order, hot: Mapping[int, int]) -> tuple[Candidate, ...]:
    if order == "stable":
        return hot_first(best_first, hot)
    return tuple(sorted(best_first, key=lambda c: c.gain or 0.0))


def hot_first(chosen: Sequence[Candidate], places: Mapping[int, int]) -> tuple[Candidate, ...]:
    """Sorts the examples that an engine keeps warm to the front, in a fixed order; the others follow by age.

    Prompts then share the longest prefix: requests with the same hottest example begin alike, whatever else was chosen,
    and the same set always has the same order. `places` maps an example's id to its position, 0 first.
    """
    return tuple(sorted(chosen, key=lambda c: (places.get(c.example.id, len(places)), c.example.id)))
