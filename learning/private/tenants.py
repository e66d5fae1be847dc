"""Makes the tenants that the settings name private, once: their examples leave the bank, and are put aside."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from store import Store

log = structlog.get_logger(__name__)


def make_private(store: Store, names: Iterable[str]) -> None:
    """Blocks until it is committed. A tenant that was made private stays so when it is no longer named.

    Names as in `keys create`, or id:HEX. Raises what writing raises.
    """
    for name in names:
        tenant = name[3:] if name.startswith("id:") else store.keys.tenant_named(name)
        put_aside = store.examples.make_private(tenant).result(60.0)
        if put_aside:
            log.info("examples_put_aside", tenant=tenant, examples=put_aside)
