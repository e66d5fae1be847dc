"""The outbox of webhooks: what was noticed, each crossing once over workers and restarts, and what is to be delivered."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, NamedTuple

from store.database import Connection, Database

State = Literal["due", "delivered", "given_up"]
_KEPT_S = 30 * 86_400
_STATES_KEPT_S = 400 * 86_400
_MOST_AT_ONCE = 100


class Crossing(NamedTuple):
    """Something that is to be told when it becomes so."""

    name: str
    """Of what: `engine:large`, `budget:key:k1:usd:day:1700000000:80`."""
    value: str
    """What it has become. While it stays that, nothing more is told."""
    usual: str | None
    """Seen for the first time like this, it is noted and nothing told; None: it is told in any case."""
    event: str
    """Empty: it is noted, and nothing is told."""
    body: str
    """The message, as JSON."""


@dataclass(frozen=True, slots=True)
class Message:
    """One delivery."""

    id: str
    """The same for every try."""
    endpoint: str
    event: str
    body: str
    made_at_s: float
    tries: int
    state: State = "due"
    result: str = ""


class WebhookOutbox:
    """Notes crossings, and keeps their messages until they are delivered."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def notice(
        self, crossings: Sequence[Crossing], endpoints: Sequence[tuple[str, frozenset[str]]], now_s: float
    ) -> Future[list[str]]:
        """Note what has become so, and put a message for each endpoint that wants it into the outbox; all or nothing.

        `endpoints`: each with the events it wants. Gives the names of what has become so.
        """

        def write(connection: Connection) -> list[str]:
            self._db.hold(connection, "webhooks")
            become = []
            for one in crossings:
                before = connection.execute(
                    "SELECT value FROM webhook_states WHERE name = ?", (one.name,)
                ).fetchone()
                if before is not None and before[0] == one.value:
                    continue
                connection.execute(
                    "INSERT INTO webhook_states (name, value, at_s) VALUES (?, ?, ?)"
                    " ON CONFLICT (name) DO UPDATE SET value = excluded.value, at_s = excluded.at_s",
                    (one.name, one.value, now_s),
                )
                if before is None and one.value == one.usual:
                    continue
                become.append(one.name)
                if one.event:
                    rows = [
                        (f"msg_{secrets.token_hex(12)}", endpoint, one.event, one.body, now_s, now_s)
                        for endpoint, events in endpoints
                        if one.event in events
                    ]
                    connection.executemany(_ADD, rows)
            return become

        return self._db.write(write)

    def changed(self, crossings: Sequence[Crossing]) -> list[Crossing]:
        """Those that are not as they were noted, or never were and are not as usual. Blocks for a read.

        Of the others `notice` would tell nothing: that thousands of tenants are as usual need not be noted.
        """
        known: dict[str, str] = {}
        names = [one.name for one in crossings]
        for at in range(0, len(names), 500):
            some = names[at : at + 500]
            marks = ", ".join("?" * len(some))
            rows = self._db.read().execute(
                f"SELECT name, value FROM webhook_states WHERE name IN ({marks})",  # noqa: S608 - question marks
                some,
            )
            known.update(rows.fetchall())
        return [one for one in crossings if known.get(one.name, one.usual) != one.value]

    def due(self, now_s: float) -> list[Message]:
        """What is to be tried now, the oldest first. Blocks for a read."""
        rows = self._db.read().execute(
            "SELECT id, endpoint, event, body, made_at_s, tries FROM webhook_messages"
            " WHERE state = 'due' AND due_at_s <= ? ORDER BY due_at_s LIMIT ?",
            (now_s, _MOST_AT_ONCE),
        )
        return [Message(*row) for row in rows.fetchall()]

    def tried(self, id: str, state: State, due_at_s: float, result: str) -> Future[None]:
        """What became of a try; `due_at_s`: when it is tried next."""

        def write(connection: Connection) -> None:
            connection.execute(
                "UPDATE webhook_messages SET state = ?, tries = tries + 1, due_at_s = ?, result = ? WHERE id = ?",
                (state, due_at_s, result[:40], id),
            )

        return self._db.write(write)

    def recent(self, limit: int = 100) -> list[Message]:
        """The latest messages, newest first, delivered or not. Blocks for a read."""
        rows = self._db.read().execute(
            "SELECT id, endpoint, event, body, made_at_s, tries, state, result FROM webhook_messages"
            " ORDER BY made_at_s DESC, id LIMIT ?",
            (limit,),
        )
        return [Message(*row) for row in rows.fetchall()]

    def trim(self, now_s: float) -> Future[int]:
        """Drop messages after 30 days, and what was noticed after 400; gives how many rows."""

        def delete(connection: Connection) -> int:
            messages = connection.execute(
                "DELETE FROM webhook_messages WHERE made_at_s < ?", (now_s - _KEPT_S,)
            )
            states = connection.execute(
                "DELETE FROM webhook_states WHERE at_s < ?", (now_s - _STATES_KEPT_S,)
            )
            return messages.rowcount + states.rowcount

        return self._db.write(delete)


_ADD = (
    "INSERT INTO webhook_messages (id, endpoint, event, body, made_at_s, state, tries, due_at_s, result)"
    " VALUES (?, ?, ?, ?, ?, 'due', 0, ?, '')"
)
