"""What steps need no engine for: cutting texts, tests, joining lists, gathering pieces. Pure; the same whenever it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workflows.graph import Step
from workflows.names import VariableId
from workflows.transform import TransformFailed, Value
from workflows.values import Held

Offsets = Callable[[str], list[tuple[int, int]]]
"""Where each token of a text begins and ends, in characters."""
COMPUTED = ("split", "when", "first_of", "merge", "transform", "gather")
"""Primitives that `computed` carries out."""


def computed(
    step: Step, held: Mapping[str, Held], offsets: Offsets, max_value_bytes: int
) -> Mapping[VariableId, Held | TransformFailed]:
    """What a step of COMPUTED makes of its inputs (Progress.held): the `outcome` of Progress.answered.

    `offsets` is asked for `split` alone. A gather with `how: index` gives back the index of its pieces; where it has none
    (an empty list), who carries it out makes an empty index: `needs_index`. May take long for many long texts: off the loop.
    """
    raise NotImplementedError


def needs_index(step: Step) -> bool:
    """Whether it gathers an index without pieces: make an empty one instead of asking `computed`."""
    raise NotImplementedError


def texts(step: Step, held: Mapping[str, Held]) -> list[str]:
    """The texts that an `embed`, `rerank` or `search` (in a component) works on, in order."""
    raise NotImplementedError


def arguments(step: Step, held: Mapping[str, Held]) -> Mapping[str, Any]:
    """A tool's arguments with values in place: a text that is one reference to a list and nothing else becomes the list."""
    raise NotImplementedError


def scores(found: Sequence[float]) -> Value:
    """Scores as the value of a `rerank` step: exact. Raises TransformFailed for one that is no number."""
    raise NotImplementedError
