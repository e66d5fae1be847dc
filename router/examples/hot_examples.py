"""In which order examples stand that an engine keeps warm: a prompt that begins like others is cheaper to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from router.plan import Candidate


def hot_first(chosen: Sequence[Candidate], places: Mapping[int, int]) -> tuple[Candidate, ...]:
    """Examples with a place first, in the order of their places; the others after them, by age.

    So whoever has the same hottest example shares it, whatever else was chosen; and the same set always stands in the same
    order. `places`: example id to place, 0 first.
    """
    return tuple(sorted(chosen, key=lambda c: (places.get(c.example.id, len(places)), c.example.id)))
