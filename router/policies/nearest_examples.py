"""Examples by nearness alone: what few-shot distillation sends, and what is sent when nobody can say what would help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from router.examples.lexical_things import about_other_things, things
from router.plan import Candidate
from router.prompt import example_tokens


def familiar(near: Sequence[Candidate], text: str, *, theta: float, same_names: bool) -> list[Candidate]:
    """Of the candidates those that count as near: of a cosine of at least `theta`.

    `same_names`: and that name what `text` names, and nothing else.
    """
    found = [c for c in near if c.similarity >= theta]
    if same_names and found:
        asked = things(text)
        found = [c for c in found if not about_other_things(asked, things(c.example.question))]
    return found


def that_fit(nearest_first: Iterable[Candidate], *, most: int, room_tokens: int) -> tuple[Candidate, ...]:
    """The nearest that fit, the nearest last: models weigh most what stands next to the question.

    One that is too long is passed over for the next.
    """
    picked: list[Candidate] = []
    for candidate in nearest_first:
        tokens = example_tokens(candidate)
        if len(picked) < most and tokens <= room_tokens:
            picked.append(candidate)
            room_tokens -= tokens
    return tuple(reversed(picked))
