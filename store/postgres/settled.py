"""Up to which id a table is complete: ids are drawn from a sequence before the commit, so a lower one may come later.

With plain `id > last` a reader misses what was drawn before and committed after it looked. No lock is needed: an id below
what the sequence had given out at some moment belongs to a transaction that had begun by then. When all of those have ended
(`pg_snapshot_xmin`), everything up to there is to be seen. An open transaction that writes holds this up, in whichever
database of the server it is.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from store.database import Rows

Table = Literal["requests", "choices", "outcomes", "task_answers", "workflow_changes"]
_IDS: dict[str, str] = {
    "requests": "row_id",
    "choices": "row_id",
    "outcomes": "id",
    "task_answers": "id",
    "workflow_changes": "place",
}
_SNAPSHOT = "SELECT pg_snapshot_xmin(s)::text, pg_snapshot_xmax(s)::text FROM pg_current_snapshot() AS s"
_LOOKS = 16


class Settled:
    """Watches the sequences of tables. Safe to use from any thread."""

    def __init__(self, execute: Callable[[str], Rows]) -> None:
        """`execute` reads. Writers must have a transaction id before they draw an id: see Writer."""
        self._execute = execute
        self._lock = threading.Lock()
        self._settled: dict[str, int] = {}
        self._looks: dict[str, deque[tuple[int, int]]] = {}
        """By table, (the last id given out, the first transaction id not yet given out then)."""

    def up_to(self, table: Table) -> int:
        """Every row with an id up to this one that will ever be there can be read now. Never goes back. Two reads.

        Raises what reading raises.
        """
        sequence = f"{table}_{_IDS[table]}_seq"
        # In this order: what the sequence gave out before it was read was drawn by a transaction below `xmax`.
        row: Any = self._execute(
            f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"  # noqa: S608 - a constant
        ).fetchone()
        xmin, xmax = (int(number) for number in self._execute(_SNAPSHOT).fetchone())
        with self._lock:
            looks = self._looks.setdefault(table, deque(maxlen=_LOOKS))
            if not looks or looks[-1][0] < row[0]:
                if len(looks) == _LOOKS:
                    # The oldest must stay: it is the next to be settled.
                    looks.pop()
                looks.append((row[0], xmax))
            while looks and looks[0][1] <= xmin:
                self._settled[table] = max(self._settled.get(table, 0), looks.popleft()[0])
            return self._settled.get(table, 0)

    def forget(self) -> None:
        """Begin anew: another server has transactions and sequences of its own."""
        with self._lock:
            self._settled.clear()
            self._looks.clear()
