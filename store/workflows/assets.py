"""Tenants' own workflows, and collections of texts with their vectors: what outlives the runs that use it.

Writes and reads are as of `RunStore`. A definition is bytes, which only its caller understands; a vector is too.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from store.reading import Reads
from store.workflows.records import Limits

NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class KeptWorkflow:
    """One version of a tenant's workflow."""

    tenant: str
    name: str
    version: str
    number: int
    """1 for the first of this name; the highest is the one that runs."""
    definition: bytes
    contributor: str
    created_at_s: float


@dataclass(frozen=True, slots=True)
class NewText:
    """A text that is to be kept in a collection."""

    text: str
    vector: bytes
    """Little-endian float32."""


@dataclass(frozen=True, slots=True)
class CollectionText:
    """A text of a collection."""

    seq: int
    text: str
    vector: bytes
    identity: str
    """Of the embedder that made the vector: vectors of another one cannot be compared."""


@dataclass(frozen=True, slots=True)
class CollectionPlace:
    """How far a collection is. An index that was made at one place is up to date while the place is the same."""

    generation: str
    """Another one since anything was removed or replaced: read the collection anew."""
    last_seq: int
    """Of its latest text; 0 without any. Within a generation: read what comes after the last one seen."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection in a list."""

    tenant: str
    name: str
    texts: int
    size_bytes: int
    created_at_s: float


class Assets(Protocol):
    """Definitions and collections. What names a tenant never gives another's."""

    reads: Reads
    """How an event loop reads of it."""

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
        """Keep a version of a workflow as its latest, and the `keep` latest of the name; gives its number.

        A version that is the latest already stays as it is. The future raises TooManyBytes.
        """
        ...

    def workflow(self, tenant: str, name: str, version: str | None = None) -> KeptWorkflow | None:
        """That version of the tenant's workflow, else the latest; None where there is none."""
        ...

    def workflows(self, tenant: str | None = None) -> list[KeptWorkflow]:
        """The latest version of each workflow, of one tenant or of all, by tenant and name."""
        ...

    def remove_workflow(self, tenant: str, name: str) -> Future[bool]:
        """Delete all versions; runs under way go on. False where there is none."""
        ...

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
        """Keep texts in a collection, made as needed; gives its place then.

        A text that this contributor has added before gets the vector of now, so that a step may be repeated. The future
        raises TooManyBytes, and then nothing is kept.
        """
        ...

    def place(self, tenant: str, collection: str) -> CollectionPlace | None:
        """How far a collection is; None where there is none. Microseconds: to be asked before each search."""
        ...

    def texts(
        self, tenant: str, collection: str, after_seq: int = 0, limit: int = 1000
    ) -> list[CollectionText]:
        """The texts of a collection after that one, in their order."""
        ...

    def collections(self, tenant: str | None = None) -> list[Collection]:
        """Collections with their sizes, of one tenant or of all, by tenant and name."""
        ...

    def remove_collection(self, tenant: str, collection: str) -> Future[bool]:
        """Delete a collection with its texts; False where there is none."""
        ...
