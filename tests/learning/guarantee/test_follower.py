"""A log is told in its order, once, and a row that cannot be told keeps nobody from the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest

from learning.guarantee.follower import AT_ONCE, LogFollower


@dataclass(frozen=True)
class Row:
    id: int


@dataclass
class Hearer:
    heard: list[tuple[int, bool]] = field(default_factory=list)


class Follower(LogFollower[str, Hearer]):
    """Follows a list; row 3 cannot be told."""

    def __init__(self) -> None:
        super().__init__("test")
        self.log: list[Row] = []
        self.hearers: dict[str, Hearer] = {}

    def _last_id(self) -> int:
        return len(self.log)

    def _hearers(self) -> Iterable[tuple[str, Hearer]]:
        return self.hearers.items()

    def _rows(self, key: str, after: int) -> Sequence[Row]:
        return self.log[after : after + AT_ONCE]

    def _tell(self, key: str, hearer: Hearer, row: Row, *, live: bool) -> None:
        if row.id == 3:
            raise ValueError(row)
        hearer.heard.append((row.id, live))


def test_every_row_is_told_once_in_its_order_and_who_is_new_hears_all_of_old() -> None:
    follower = Follower()
    follower.hearers["a"] = first = Hearer()
    follower.look()
    follower.log = [Row(1), Row(2)]
    follower.look()
    follower.hearers["b"] = second = Hearer()
    follower.look()
    assert first.heard == [(1, True), (2, True)] and second.heard == [(1, False), (2, False)]
    follower.hearers["a"] = other = Hearer()
    follower.look()
    assert other.heard == second.heard


def test_a_row_that_cannot_be_told_is_passed_over() -> None:
    follower = Follower()
    follower.hearers["a"] = hearer = Hearer()
    follower.log = [Row(n) for n in range(1, AT_ONCE + 3)]
    with pytest.raises(ValueError, match="3"):
        follower.look()
    follower.look()
    assert [id for id, _ in hearer.heard] == [1, 2, *range(4, AT_ONCE + 3)]
