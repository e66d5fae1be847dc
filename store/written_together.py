"""Several rows that nobody waits for, written as one job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from store.database import Connection, Database
from store.errors import StoreBusy, StoreClosed, ValueRefused


def write_each(
    db: Database,
    insert: Callable[..., None],
    wanted: Sequence[tuple[Any, ...]],
    *,
    spare: bool = False,
    together: Callable[[Connection], None] | None = None,
) -> Future[None]:
    """Call `insert(connection, *one)` for each in one job, or `together` in its place; done once all are committed.

    Where a value of one is refused, each is written by itself: the others are kept, and the future has that error.
    `spare`: see Database.write. Raises StoreBusy.
    """

    def insert_all(connection: Connection) -> None:
        for one in wanted:
            insert(connection, *one)

    written = db.write(together or insert_all, patient=True, spare=spare, rows=len(wanted))
    if len(wanted) == 1:
        return written
    done: Future[None] = Future()
    left = len(wanted)

    def settle_one(error: BaseException) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set_exception(error)

    def settle(_: Future[None]) -> None:
        error = written.exception()
        if error is None:
            done.set_result(None)
        elif not isinstance(error, ValueRefused | UnicodeError):
            done.set_exception(error)
        else:
            # On the writer's thread, as all that is told of these.
            for one in wanted:
                try:
                    alone = write_each(db, insert, [one], spare=spare)
                    alone.add_done_callback(lambda _: settle_one(error))
                except (StoreBusy, StoreClosed):
                    settle_one(error)

    written.add_done_callback(settle)
    return done
