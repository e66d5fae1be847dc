"""A rehearsal as JSON, without words of the log: what the command prints, pages show, and a gateway's gates begin with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from learning.rehearsal.arms import ALONE, NEAREST, Past, Rehearsed
from learning.rehearsal.figures import rows, sentence, told
from learning.rehearsal.foreseen import Foreseen, gate_opens, student_opens
from learning.rehearsal.kept import VERSION
from learning.rehearsal.students import STUDENT, in_order, with_student
from router.digest import shared_scope

RETRAINED_EVERY = 100
"""New labels after which a gateway trains a task's student anew, by default."""
_MOST_REQUESTS = 1000
"""In a stream that is drawn."""


def report(past: Sequence[Past], found: Rehearsed, max_loss: float, *, examples: int) -> dict[str, Any]:
    """Every figure. Blocks for a minute or two: a student is trained some fifteen times, and streams are drawn."""
    import sklearn.linear_model  # noqa: F401  whose threads are limited below
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        # On a busy machine more threads wait for each other longer than they work.
        found = with_student(found, past)
        predicted = in_order(_largest(past), RETRAINED_EVERY) if STUDENT in found.ways else []
    ways = ALONE, NEAREST.format(examples)
    told_share = sum(one.score is not None for one in past) / len(past)
    requests = min(len(past), _MOST_REQUESTS)
    gate = gate_opens(found, ways, max_loss, requests=requests, told_share=told_share)
    proven = told(gate, "By its own proof the small engine")
    student: Foreseen | None = None
    if predicted:
        student = student_opens(predicted, max_loss, every=RETRAINED_EVERY)
        proven += " " + told(student, "The student")
    return {
        "version": VERSION,
        "max_loss": max_loss,
        "ways": [asdict(row) for row in rows(found)],
        "said": sentence(found, max_loss),
        "proven": proven,
        "gate": asdict(gate),
        "student": None if student is None else asdict(student),
        "scopes": _by_scope(found, ways),
    }


def _largest(past: Sequence[Past]) -> list[Past]:
    """The latest requests under the instructions of most: each scope has a student, and a promise, of its own."""
    scope, _ = Counter(one.scope for one in past).most_common(1)[0]
    return [one for one in past if one.scope == scope][-_MOST_REQUESTS:]


def _by_scope(found: Rehearsed, ways: tuple[str, str]) -> dict[str, dict[str, list[float]]]:
    """By shared scope and way (`alone`, `examples`): number of questions and their mean quality."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, one in enumerate(found.questions):
        places[shared_scope(one.past.scope)].append(place)
    return {
        scope: {
            name: [len(known), sum(known) / len(known)]
            for name, way in zip(("alone", "examples"), ways, strict=True)
            if (known := [each.quality for place in some if (each := found.ways[way][place])])
        }
        for scope, some in places.items()
    }
