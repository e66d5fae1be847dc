"""Makes the tenants that the settings name private, once: their examples leave the bank, and are put aside."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future

import structlog

from store.examples.private_bank import PrivateBank
from store.examples.rows import remove
from store.store import Memory as Store

log = structlog.get_logger(__name__)


def make_private(store: Store, names: Iterable[str]) -> None:
    """Blocks until it is committed. A tenant that was made private stays so when it is no longer named.

    Names as in `keys create`, or id:HEX. Raises what writing raises.
    """
    private = PrivateBank(store.db)
    for name in names:
        tenant = name[3:] if name.startswith("id:") else store.keys.tenant_named(name)
        put_aside = _begin(store, private, tenant).result(60.0)
        if put_aside:
            log.info("examples_put_aside", tenant=tenant, examples=put_aside)


def _begin(store: Store, private: PrivateBank, tenant: str) -> Future[int]:
    # In one transaction: no moment in which a pair is neither served nor put aside, or both.
    return store.examples.write_removal(
        lambda connection: remove(connection, tenant, private.begin(connection, tenant), erase=True)
    )
