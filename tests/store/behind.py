"""The database behind a store, for the few tests that must look at its tables, or hurt them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace

from store import Forgotten, Store
from store.examples.bank import ExampleBank
from store.examples.vector_index import Rebuilder
from store.examples.versions import ExampleVersions
from store.records import Admitted, NewExample
from store.sqlite.database import Database
from tests.patience import wait_for


def database(store: Store) -> Database:
    return store._db


def forget_contributor(store: Store, tenant: str, contributor: str) -> Forgotten:
    """What `understudy forget --key` does, for one contributor by its name."""
    done = store.forget_contributors(tenant, [contributor])
    if store.follower is not None:
        store.purge_index(tenant)
    return replace(done, erased=store.erase())


def admit_each(bank: ExampleBank, news: Iterable[NewExample], chunk: int = 256) -> Iterator[Admitted]:
    """What becomes of each pair, once its chunk is committed."""
    reading = iter(news)
    while some := list(itertools.islice(reading, chunk)):
        yield from admit_many(bank, some).result(60)


def admit_many(bank: ExampleBank, news: Sequence[NewExample]) -> Future[list[Admitted]]:
    """`ExampleBank.admit` for many pairs in one transaction, for tests that need many."""
    jobs = [bank._admission(new) for new in news]
    return bank._db.write(lambda connection: [job(connection) for job in jobs], after=bank._tell)


def written_by(versions: ExampleVersions, run_id: int) -> list[int]:
    """Examples that a run of replay wrote and that are still there, by id."""
    query = "SELECT example_id FROM example_lineage WHERE run_id = ? ORDER BY example_id"
    return [id for (id,) in versions._db.read().execute(query, (run_id,)).fetchall()]


def rebuilt_all(rebuilder: Rebuilder) -> None:
    """Return once nothing is left to rebuild."""
    wait_for(lambda: rebuilder._thread is None, "the graphs rebuilt")
