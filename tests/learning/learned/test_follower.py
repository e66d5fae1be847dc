"""Any kind of thing that is learnt is followed alike: opened once, the next best where one is broken, closed when unused."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from learning.learned.follower import Slot, VersionFollower
from store import Store
from store.records import ArtifactRecord


class Words(VersionFollower[tuple[int, str]]):
    """Follows versions that are words; one that shouts cannot be used."""

    def _found(self, slot: Slot, held: tuple[int, str] | None) -> tuple[int, str]:
        versions = self._artifacts.versions("counts", *slot)
        return next(iter(self._first(versions, self._read)), (0, ""))

    def _used(self, held: tuple[int, str]) -> Iterable[int]:
        return [held[0]]

    def _read(self, record: ArtifactRecord) -> str:
        word = self._artifacts.read(record).decode()
        if word.isupper():
            raise ValueError(word)
        return word


def test_the_newest_version_that_can_be_opened_is_held_of_the_slots_last_asked_for(tmp_path: Path) -> None:
    store, broken = Store.open(tmp_path), list[str]()
    follower = Words("words", store.artifacts, 2, broken=broken.append)
    try:
        for tenant, word in (("a", "one"), ("a", "TWO"), ("b", "three"), ("c", "four")):
            store.artifacts.publish("counts", tenant, "m", word.encode(), metrics={})
        for tenant in "abab":
            follower._asked((tenant, "m"))
            follower.look()
        assert follower._asked(("a", "m")) == (1, "one") and broken == ["counts"]
        assert follower._asked(("c", "m")) is None
        follower.look()
        assert follower._asked(("c", "m")) == (4, "four") and follower._asked(("b", "m")) is None
        assert set(follower._opened.values()) == {"one", "four"}
    finally:
        follower.stop()
        store.close()
