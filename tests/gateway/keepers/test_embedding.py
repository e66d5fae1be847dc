"""What becomes of large embeddings when the thread that keeps them falls behind, or is gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, cast

import pytest

from engines.answers.answer import Body
from gateway.keepers import embedding
from gateway.keepers.embedding import Embedded, EmbeddingKeeper
from store.answers.exact_cache import ExactCache
from store.errors import StoreBusy
from store.records import ExactAnswer

VECTORS = b'{"data": [{"embedding": [' + b"0.5," * 20_000 + b"1]}]}"


class Slow:
    """A cache that takes nothing until it is let."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.kept: list[bytes] = []

    def put(
        self, key: bytes, tenant: str, answer: ExactAnswer, *, request_id: str, contributor: str
    ) -> Future[bool]:
        assert self.go_on.wait(30)
        self.kept.append(key)
        done: Future[bool] = Future()
        done.set_result(True)
        return done


class Kept:
    """A keeper on a slow cache, and what it told of."""

    def __init__(self) -> None:
        self.cache = Slow()
        self.told: list[BaseException | None] = []
        self.keeper = EmbeddingKeeper(cast(ExactCache, self.cache), self._follow)

    def _follow(self, kind: str, future: Future[Any]) -> None:
        self.told.append(future.exception())

    def keep(self, key: bytes, body: bytes = VECTORS, *, encoded: bool = False) -> None:
        answer = Body([body], len(body), "application/json", encoded)
        self.keeper.keep(Embedded(key, "a1", "", "req-1", "up", answer))


@pytest.fixture
def slow() -> Iterator[Kept]:
    made = Kept()
    yield made
    made.cache.go_on.set()
    made.keeper.close()


def test_it_is_settled_once_the_last_one_is_handed_over(slow: Kept) -> None:
    assert slow.keeper.settled()
    slow.keep(b"one")
    slow.keep(b"one")
    keeping = slow.keeper.under_way(b"one")
    assert keeping is not None and not slow.keeper.settled()
    slow.cache.go_on.set()
    slow.keeper.close()
    assert slow.keeper.settled() and slow.keeper.under_way(b"one") is None
    assert slow.cache.kept == [b"one", b"one"] and slow.told == [None, None]


def test_what_is_too_much_at_once_is_told_and_not_kept(slow: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "_AT_ONCE", 2)
    for key in (b"one", b"two", b"three"):
        slow.keep(key)
    assert [type(error) for error in slow.told] == [StoreBusy]
    slow.cache.go_on.set()
    slow.keeper.close()
    assert slow.cache.kept == [b"one", b"two"]


def test_after_its_end_nothing_is_kept_and_nothing_raised(slow: Kept) -> None:
    slow.keeper.close()
    slow.keep(b"late")
    assert [type(error) for error in slow.told] == [RuntimeError] and slow.keeper.settled()


def test_what_cannot_be_read_is_not_kept(slow: Kept) -> None:
    slow.cache.go_on.set()
    slow.keep(b"packed", b"no gzip", encoded=True)
    slow.keeper.close()
    assert slow.cache.kept == [] and slow.told == []
