"""The database behind a store, for the few tests that must look at its tables, or hurt them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from store import Forgotten, Store
from store.examples.bank import ExampleBank
from store.records import Admitted, NewExample
from store.sqlite.database import Database


def database(store: Store) -> Database:
    return store._db


def forget_contributor(store: Store, tenant: str, contributor: str) -> Forgotten:
    """What `understudy forget --key` does, for one contributor by its name."""
    answers = store.answers.exact.forget(tenant=tenant, contributors=[contributor]).result(60)
    removing = store.examples.remove_contributor(tenant, contributor)
    choices = store.forget_experience(tenant, contributor)
    examples = removing.result(60)
    if store.follower is not None:
        store.follower.wait_for(store.examples.last_seq(), 60)
        store.purge_index(tenant)
    return Forgotten(examples, answers, 0, choices, 0, store.erase())


def admit_each(bank: ExampleBank, news: Iterable[NewExample], chunk: int = 256) -> Iterator[Admitted]:
    """What becomes of each pair, once its chunk is committed."""
    reading = iter(news)
    while some := list(itertools.islice(reading, chunk)):
        yield from bank.admit_many(some).result(60)
