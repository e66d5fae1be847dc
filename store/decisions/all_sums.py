"""All sums of the store: who is forgotten is taken off each of them, and each ends by its spans."""

from __future__ import annotations

from typing import Literal

from store.database import Connection, Database
from store.decisions.costs import COSTS
from store.decisions.quality_rollups import QUALITY
from store.decisions.rollups import REQUESTS, TIMES
from store.decisions.usage import USAGE
from store.sums import log_changed

# Usage tells names of models that clients made up by those of requests: it is forgotten first.
SUMS = (USAGE, REQUESTS, TIMES, QUALITY, COSTS)


def take_off_sums(
    db: Database, connection: Connection, tenant: str, column: Literal["key_id", "end_user"], name: str
) -> None:
    """Add what a tenant has under a key or an end user to what it has under none, inside the job that forgets it."""
    db.settle(connection)
    log_changed(connection, "outcomes")
    for sums in SUMS:
        sums.take_off(connection, tenant, column, name)


def sums_of_tenant_forgotten(db: Database, connection: Connection, tenant: str) -> None:
    """Have a tenant's sums be those of deleted tenants, inside the job that forgets its requests, or be gone."""
    db.settle(connection)
    log_changed(connection, "outcomes")
    for sums in SUMS:
        sums.forget_tenant(connection, tenant)
