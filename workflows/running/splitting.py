"""Reads the items of a list that a model is still writing, as its text comes."""

from __future__ import annotations

from collections.abc import Callable

from workflows.definition import Splits
from workflows.graph import Step
from workflows.items import Items


class Splitting:
    """`told` takes each item's index and text as soon as its end is seen."""

    def __init__(self, splits: Splits, told: Callable[[int, str], object], max_items: int) -> None:
        self._items = Items(splits, max_items)
        self._told = told
        self._count = 0

    def feed(self, piece: str) -> None:
        """More of the answer."""
        for text in self._items.feed(piece):
            index, self._count = self._count, self._count + 1
            self._told(index, text)


def splits_of(step: Step) -> Splits | None:
    """How a step's answer becomes a list; None where it does not."""
    splits = step.what.get("splits")
    return None if splits is None else Splits(**splits)
