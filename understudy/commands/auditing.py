"""What commands do is in the audit log beside what people do on the admin pages."""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping
from typing import Any

from store import Store
from store.people.audit import AuditOutcome, AuditRecord

_WRITE_S = 30.0


def note(store: Store, action: str, target: str, detail: Mapping[str, Any], *, failed: bool = False) -> None:
    """Adds a row under the name of whoever runs the command. Waits for the commit."""
    outcome: AuditOutcome = "failed" if failed else "done"
    record = AuditRecord(time.time(), user(), action, target, outcome, "command line", detail)
    store.audit.note(record).result(_WRITE_S)


def user() -> str:
    """Whoever runs the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "command line"
