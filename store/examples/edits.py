"""What a person changes of an example: its texts, and whether it may be used. Workers meet every change in the log."""

from __future__ import annotations

import sqlite3
import time
from concurrent.futures import Future

from store.examples import rows as example_rows
from store.examples.bank import ExampleBank
from store.examples.held_back import HELD_BACK_S
from store.examples.vectors import to_blob
from store.records import Example, Vector
from store.sqlite import words
from store.sqlite.database import Database


class ExampleEdits:
    """Over a bank. What is not the tenant's own does not exist."""

    def __init__(self, db: Database, bank: ExampleBank) -> None:
        self._db = db
        self._bank = bank

    def rewrite(
        self,
        tenant: str,
        id: int,
        *,
        question: str,
        answer: str,
        embedded_text: str,
        vector: Vector | None,
        embedding_version: str,
    ) -> Future[Example | None]:
        """Give an example other texts; gives it as it is then, or None if there is none.

        Its judgements were of the old answer and go with it; what it was used for stays. Without a vector it is not found
        until the gateway has made one. Raises BadVector or StoreBusy.
        """
        blob = None if vector is None else to_blob(vector)

        def change(connection: sqlite3.Connection) -> Example | None:
            found = example_rows.these(connection, tenant, [id])
            if not found:
                return None
            connection.execute(
                "UPDATE examples SET seq = ?, question = ?, answer = ?, embedded_text = ?, vector = ?,"
                " embedding_version = ? WHERE id = ?",
                (
                    example_rows.next_seq(connection),
                    question,
                    answer,
                    embedded_text,
                    blob,
                    embedding_version,
                    id,
                ),
            )
            size_bytes = example_rows.size_bytes_of(question, answer, embedded_text, len(blob or b""))
            connection.execute("UPDATE example_accounts SET size_bytes = ? WHERE id = ?", (size_bytes, id))
            if answer != found[0].answer:
                connection.execute(
                    "UPDATE example_accounts SET quality_sum = 0, quality_count = 0 WHERE id = ?", (id,)
                )
            example_rows.refresh_worth(connection, id)
            return example_rows.these(connection, tenant, [id])[0]

        return self._db.write(change, after=self._purge)

    def hold_back(self, tenant: str, id: int) -> Future[Example | None]:
        """Quarantine: no request is answered with it from its commit on, until it is let go."""
        return self._bank.update(tenant, id, served_from_s=HELD_BACK_S)

    def let_go(self, tenant: str, id: int) -> Future[Example | None]:
        """End a quarantine, whoever began it."""
        return self._bank.update(tenant, id, served_from_s=time.time())

    def pin(self, tenant: str, id: int, *, pinned: bool) -> Future[Example | None]:
        """Keep it whatever the caps say and whatever its twins answer; or no longer."""
        return self._bank.update(tenant, id, pinned=pinned)

    def _purge(self, changed: Example | None) -> None:
        if changed is not None:
            # What was taken out of a text must not stay among the words.
            words.purge_soon(self._db, "example_words")
