"""Soft labels: what a slow teacher thinks of examples that nobody tried, as rows for the scorer that has to be fast.

A student learns from a teacher's probabilities on more cases than were observed (Hinton, Vinyals, Dean 2015, "Distilling the
Knowledge in a Neural Network", section 2; for rankers: Hofstaetter et al. 2020, "Improving Efficient Neural Ranking Models
with Cross-Architecture Knowledge Distillation", section 3). The rows are ordinary ones of one example each and, once per
request, of none. They are for fitting only: `taught` of learning.training.scorer.training.trained, which never decides or
calibrates by them. Needs no torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from learning.training.scorer.rows import Row
from router.learning.cross_encoder_texts import TextRow

if TYPE_CHECKING:
    import numpy.typing as npt

WEIGHT = 0.1
"""Of a teacher's opinion, against 1 of an outcome that was observed."""
EACH = 4
"""Candidates of one request that are asked about."""


class Judge(Protocol):
    """Whoever has an opinion: router.learning.cross_encoder.Teacher."""

    def qualities(self, request: str, examples: Sequence[str]) -> tuple[float, npt.NDArray[np.float64]]: ...


def soft_rows(
    teacher: Judge,
    asked: Sequence[TextRow],
    *,
    weight: float = WEIGHT,
    each: int = EACH,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Row]:
    """Rows with the teacher's qualities for up to `each` examples of each of `asked`, and for none of them.

    Half of the examples are the first ones, between which the choice is made, the others drawn from the rest. The quality of
    `asked` itself is not looked at. Takes as long as the teacher does. Raises ValueError for a weight that is not above 0
    and at most 1.
    """
    if not 0 < weight <= 1:
        raise ValueError(f"a soft label weighs more than 0 and at most 1, not {weight}")
    generator = np.random.default_rng(seed)
    found: list[Row] = []
    for number, one in enumerate(asked, 1):
        places = _some(len(one.examples), each, generator)
        alone, with_one = teacher.qualities(one.request, [one.examples[p] for p in places])
        found.append(_with(one.row, [], alone, weight))
        found += [_with(one.row, [p], q, weight) for p, q in zip(places, with_one.tolist(), strict=True)]
        if number % 500 == 0:
            tell(f"{number} of {len(asked)} requests asked of the teacher")
    return found


def _some(count: int, most: int, generator: np.random.Generator) -> list[int]:
    first = min(count, (most + 1) // 2)
    rest = generator.permutation(np.arange(first, count))[: most - first]
    return [*range(first), *sorted(rest.tolist())]


def _with(row: Row, places: list[int], quality: float, weight: float) -> Row:
    return replace(
        row,
        questions=row.questions[places],
        answers=row.answers[places],
        scalars=row.scalars[places],
        quality=quality,
        weight=weight,
    )
