"""Up to which id a table is complete: ids are drawn from a sequence before the commit, so a lower one may come later.

With plain `id > last` a reader misses what was drawn before and committed after it looked. No lock is needed: an id that
the sequence has given out belongs to a transaction that had its number by then. So: read the sequence, then draw a number;
as soon as all lower ones have ended (`pg_snapshot_xmin`), everything up to there is to be seen. An open transaction that
writes holds this up, in whichever database of the server it is.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from store.database import Rows

Table = Literal["requests", "choices", "outcomes", "task_answers"]
_IDS: dict[str, str] = {
    "requests": "row_id",
    "choices": "row_id",
    "outcomes": "id",
    "task_answers": "id",
}
_NEXT = "SELECT pg_current_xact_id()::text"
# `xmax` of a snapshot would not do: it is behind the last transaction that ended, not behind the last that began.
_OLDEST = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
_LOOKS = 16


class Settled:
    """Watches the sequences of tables. Safe to use from any thread."""

    def __init__(self, execute: Callable[[str], Rows]) -> None:
        """`execute` reads. Writers must have a transaction id before they draw an id: see Writer."""
        self._execute = execute
        self._lock = threading.Lock()
        self._settled: dict[str, int] = {}
        self._looks: dict[str, deque[tuple[int, int]]] = {}
        """By table, (the last id given out, a transaction that began after that)."""

    def up_to(self, table: Table) -> int:
        """Every row with an id up to this one that will ever be there can be read now. Never goes back.

        One read where nothing is new, else up to three. Raises what reading raises.
        """
        sequence = f"{table}_{_IDS[table]}_seq"
        last: int = self._one(
            f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"  # noqa: S608 - a constant
        )
        with self._lock:
            settled, looks = self._settled.get(table, 0), self._looks.setdefault(table, deque())
            known = looks[-1][0] if looks else settled
        if last > known:
            began = int(self._one(_NEXT))
            with self._lock:
                if len(looks) == _LOOKS:
                    # The oldest stays, as it is the next to be settled.
                    looks.pop()
                looks.append((last, began))
        if last > settled:
            oldest = int(self._one(_OLDEST))
            with self._lock:
                while looks and looks[0][1] < oldest:
                    self._settled[table] = max(self._settled.get(table, 0), looks.popleft()[0])
        with self._lock:
            return self._settled.get(table, 0)

    def _one(self, sql: str) -> Any:
        return self._execute(sql).fetchone()[0]

    def forget(self) -> None:
        """Begin anew: another server has transactions and sequences of its own."""
        with self._lock:
            self._settled.clear()
            self._looks.clear()
