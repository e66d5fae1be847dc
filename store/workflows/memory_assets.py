"""Tenants' workflows and collections in one process's memory: `Assets`, and what makes a future of a write that is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from store.reading import INLINE
from store.workflows.assets import (
    NO_LIMITS,
    Collection,
    CollectionPlace,
    CollectionText,
    KeptWorkflow,
    NewText,
)
from store.workflows.records import Limits
from store.workflows.values import hold_room, size_of

T = TypeVar("T")


def done(write: Callable[[], T]) -> Future[T]:
    """The future of a write that happens now."""
    future: Future[T] = Future()
    try:
        future.set_result(write())
    except Exception as error:
        future.set_exception(error)
    return future


@dataclass(slots=True)
class _Shelf:
    """A collection: its texts by (contributor, text)."""

    created_at_s: float
    generation: int
    texts: dict[tuple[str, str], CollectionText] = field(default_factory=dict)


class MemoryAssets:
    """Definitions and collections: see `Assets` for what each does. `used`: bytes by tenant, shared with the runs."""

    def __init__(self, used: Counter[str]) -> None:
        self.reads = INLINE
        self._bytes = used
        self._workflows: dict[tuple[str, str], list[KeptWorkflow]] = {}
        self._collections: dict[tuple[str, str], _Shelf] = {}
        self._kept = 0
        """How many definitions were ever kept."""
        self._last_seq = 0
        self._generations = 0

    # ---- workflows

    def put_workflow(
        self,
        tenant: str,
        name: str,
        version: str,
        definition: bytes,
        *,
        now_s: float,
        contributor: str = "",
        keep: int = 20,
        limits: Limits = NO_LIMITS,
    ) -> Future[int]:
        """Keep a version of a workflow as its latest; gives its number."""

        def put() -> int:
            known = self._workflows.get((tenant, name), [])
            if known and known[-1].version == version:
                return known[-1].number
            number = known[-1].number + 1 if known else 1
            stay = [each for each in known if each.version != version and each.number > number - keep]
            freed = sum(len(each.definition) for each in known) - sum(len(each.definition) for each in stay)
            hold_room(self._bytes[tenant] - freed, len(definition), limits)
            self._bytes[tenant] += len(definition) - freed
            new = KeptWorkflow(tenant, name, version, number, definition, contributor, now_s)
            self._workflows[tenant, name] = [*stay, new]
            self._kept += 1
            return number

        return done(put)

    def workflow(self, tenant: str, name: str, version: str | None = None) -> KeptWorkflow | None:
        """That version of the tenant's workflow, else the latest."""
        known = reversed(self._workflows.get((tenant, name), []))
        return next((each for each in known if version in (None, each.version)), None)

    def workflows(self, tenant: str | None = None) -> list[KeptWorkflow]:
        """The latest version of each workflow."""
        return [known[-1] for key, known in sorted(self._workflows.items()) if tenant in (None, key[0])]

    def remove_workflow(self, tenant: str, name: str) -> Future[bool]:
        """Delete all versions."""

        def remove() -> bool:
            removed = self._workflows.pop((tenant, name), [])
            self._bytes[tenant] -= sum(len(each.definition) for each in removed)
            return bool(removed)

        return done(remove)

    # ---- collections

    def add_texts(
        self,
        tenant: str,
        collection: str,
        texts: Sequence[NewText],
        *,
        identity: str,
        now_s: float,
        contributor: str = "",
        limits: Limits = NO_LIMITS,
    ) -> Future[CollectionPlace]:
        """Keep texts in a collection, made as needed; gives its place then."""

        def add() -> CollectionPlace:
            shelf = self._collections.get((tenant, collection)) or _Shelf(now_s, self._generation())
            changed = dict[tuple[str, str], CollectionText]()
            seq, replaced, grown = self._last_seq, False, 0
            for each in texts:
                key = contributor, each.text
                known = changed.get(key) or shelf.texts.get(key)
                if known is not None and known.identity == identity:
                    continue
                seq += known is None
                replaced |= known is not None
                new = CollectionText(seq if known is None else known.seq, each.text, each.vector, identity)
                grown += _size(new) - (0 if known is None else _size(known))
                changed[key] = new
            hold_room(self._bytes[tenant], max(0, grown), limits)
            shelf.texts |= changed
            shelf.generation = self._generation() if replaced else shelf.generation
            self._collections[tenant, collection] = shelf
            self._last_seq = seq
            self._bytes[tenant] += grown
            return _place(shelf)

        return done(add)

    def place(self, tenant: str, collection: str) -> CollectionPlace | None:
        """How far a collection is."""
        shelf = self._collections.get((tenant, collection))
        return None if shelf is None else _place(shelf)

    def texts(
        self, tenant: str, collection: str, after_seq: int = 0, limit: int = 1000
    ) -> list[CollectionText]:
        """The texts of a collection after that one."""
        shelf = self._collections.get((tenant, collection))
        return [each for each in shelf.texts.values() if each.seq > after_seq][:limit] if shelf else []

    def collections(self, tenant: str | None = None) -> list[Collection]:
        """Collections with their sizes."""
        return [
            Collection(*key, len(shelf.texts), _room(shelf.texts), shelf.created_at_s)
            for key, shelf in sorted(self._collections.items())
            if tenant in (None, key[0])
        ]

    def remove_collection(self, tenant: str, collection: str) -> Future[bool]:
        """Delete a collection with its texts."""

        def remove() -> bool:
            shelf = self._collections.pop((tenant, collection), None)
            self._bytes[tenant] -= _room(shelf.texts) if shelf else 0
            return shelf is not None

        return done(remove)

    # ---- away

    def forget(self, tenant: str, contributor: str | None = None) -> int:
        """Delete what a tenant, or one contributor of it, has kept; gives how many texts and versions."""
        deleted = 0
        for key in [key for key in self._workflows if key[0] == tenant]:
            known = self._workflows.pop(key)
            stay = [each for each in known if contributor not in (None, each.contributor)]
            if stay:
                self._workflows[key] = stay
            self._bytes[tenant] -= sum(len(each.definition) for each in known if each not in stay)
            deleted += len(known) - len(stay)
        for key in [key for key in self._collections if key[0] == tenant]:
            shelf = self._collections[key]
            gone = {which: each for which, each in shelf.texts.items() if contributor in (None, which[0])}
            shelf.texts = {which: each for which, each in shelf.texts.items() if which not in gone}
            shelf.generation = self._generation() if gone else shelf.generation
            if not shelf.texts:
                del self._collections[key]
            self._bytes[tenant] -= _room(gone)
            deleted += len(gone)
        return deleted

    def _generation(self) -> int:
        self._generations += 1
        return self._generations


def _size(text: CollectionText) -> int:
    return size_of(text.text) + len(text.vector)


def _room(texts: dict[tuple[str, str], CollectionText]) -> int:
    return sum(map(_size, texts.values()))


def _place(shelf: _Shelf) -> CollectionPlace:
    return CollectionPlace(str(shelf.generation), max((each.seq for each in shelf.texts.values()), default=0))
