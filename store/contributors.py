"""Who contributed to a tenant's bank, by the names given with the examples. Knows no key and no user."""

from __future__ import annotations

from store.database import Database


def contributors(db: Database, tenant: str) -> list[str]:
    """Every contributor with live examples of the tenant's, in order; the unknown one is left out."""
    rows = db.read().execute(
        "SELECT DISTINCT contributor FROM example_accounts WHERE tenant = ? AND contributor <> '' ORDER BY contributor",
        (tenant,),
    )
    return [name for (name,) in rows.fetchall()]


def tenants(db: Database) -> list[str]:
    """Every tenant of whom there is an example or an exact answer, in order."""
    rows = db.read().execute(
        "SELECT tenant FROM example_totals UNION SELECT tenant FROM exact_answers ORDER BY 1"
    )
    return [tenant for (tenant,) in rows.fetchall()]
