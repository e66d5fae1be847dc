"""Selects examples by similarity alone: what few-shot distillation sends, and what is sent if there are no scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from router.embedding.retriever import Retriever
from router.plan import Ask, Attempt, Candidate
from router.prompt import example_tokens, with_examples
from router.wording.lexical_things import about_other_things, things


def familiar(near: Sequence[Candidate], text: str, *, theta: float, same_names: bool) -> list[Candidate]:
    """The candidates that count as near: those with a cosine of at least `theta`.

    With `same_names` they must also name what `text` names, and nothing else.
    """
    found = [c for c in near if c.similarity >= theta]
    if same_names and found:
        asked = things(text)
        found = [c for c in found if not about_other_things(asked, things(c.example.question))]
    return found


def counts(near: Iterable[Candidate]) -> dict[int, int]:
    """Count the past answers that each of these examples stands for, by its id."""
    return {c.example.id: 1 + c.example.merged for c in near}


def that_fit(nearest_first: Iterable[Candidate], *, most: int, room_tokens: int) -> tuple[Candidate, ...]:
    """The nearest that fit, the nearest last: models weigh most what stands next to the question.

    A candidate that is too long is skipped for the next.
    """
    picked: list[Candidate] = []
    for candidate in nearest_first:
        if len(picked) >= most:
            break
        tokens = example_tokens(candidate)
        if tokens <= room_tokens:
            picked.append(candidate)
            room_tokens -= tokens
    return tuple(reversed(picked))


def of_conversation(
    ask: Ask, scope: str, retriever: Retriever, *, most: int, room_tokens: int
) -> tuple[Candidate, ...]:
    """The examples of the conversation's earlier turns, where they may be sent again; else none.

    What stays the same is in the engine's cache. Blocks for a read of the store, where there are any.
    """
    examples = ask.examples
    if not examples or len(examples) > most or sum(map(example_tokens, examples)) > room_tokens:
        return ()
    return examples if retriever.kept(examples, scope) else ()


def attempt(engine: str, ask: Ask, chosen: tuple[Candidate, ...]) -> Attempt:
    """Return the engine with these examples, or as it is if there are none."""
    if not chosen:
        return Attempt(engine)
    return Attempt(engine, with_examples(ask.chat.messages, chosen), chosen)
