"""Deletes what is stored of a tenant, or of one key or user of it. For the API and `understudy forget`. Blocks."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from learning.bank.contributor import is_from, user_digest
from store import Store
from store.held import Held

_AGAIN_S = 0.2
_REFUSED_WITHIN_S = 1.5
"""After it every worker refuses a key that was revoked."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Numbers of deleted rows."""

    examples: int
    answers: int
    """Exact answers."""
    requests: int
    """Rows of the request log, which hold no content; only for a whole tenant. A deleted key's id is removed from them."""
    choices: int = 0
    """Logged decisions, with the requests' embeddings and the feedback."""
    versions: int = 0
    """Learnt versions: all of the tenant's, if anything they were learnt from went. Learnt anew from what is left."""
    keys: int = 0
    """Revoked; only where a tenant is deleted."""


class Forgetter:
    """Deletes from an open store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def contributor(
        self,
        tenant: str,
        *,
        key_id: str = "",
        user: str = "",
        digest: str = "",
        purge: bool = False,
        timeout_s: float = 60.0,
    ) -> Forgotten:
        """Deletes examples, exact answers, choices, feedback and request texts of a key, or of requests that named a user.

        `digest`: that of the user, where the name is not known.

        With them go exact answers that were made with such an example, and those of which nobody knows whom they answered.

        `purge` waits until nothing of the removed embeddings is in the tenant's index and its snapshot, which otherwise
        happens in the background. See `erase` for what SQLite may still hold. Raises what writing raises, including
        TimeoutError.
        """
        store = self._store
        digest = user_digest(store.secret, tenant, user) if user else digest
        whose = self._names(tenant, key_id, digest)
        done = store.forget_contributors(tenant, whose, key_id, timeout_s)
        if purge:
            store.purge_index(tenant)
        return Forgotten(done.examples, done.answers, 0, done.choices, done.versions)

    def held(self, tenant: str, *, key_id: str = "", digest: str = "") -> Held:
        """How much is remembered of a key, or of a user, by kind; rows of the request log are those that name it."""
        whose = self._names(tenant, key_id, digest)
        return self._store.held_of_contributors(tenant, whose, key_id, digest)

    def _names(self, tenant: str, key_id: str, digest: str) -> list[str]:
        """The contributors that have the key, or the user's digest."""
        names = self._store.examples.contributors.names(tenant)
        found = {name for name in names if is_from(name, key_id=key_id or None, digest=digest or None)}
        # Rows of the request log name a user of whom nothing else may be kept.
        return sorted(found | ({f"/{digest}"} if digest else set()))

    def delete_tenant(self, tenant: str, name: str = "", timeout_s: float = 60.0) -> Forgotten:
        """Revokes a tenant's keys, drops its limits and deletes everything of it. Its totals stay, as deleted tenants'.

        Waits until the keys are refused everywhere, so that no request of the tenant's comes in between; one that is under
        way by then may still leave a row. Raises KeptInConfiguration, before anything is done, and as `contributor` does.
        """
        revoked = self._store.tenant_records.delete(tenant, name)
        if revoked:
            time.sleep(_REFUSED_WITHIN_S)
        return replace(self.tenant(tenant, timeout_s), keys=len(revoked))

    def tenant(self, tenant: str, timeout_s: float = 60.0) -> Forgotten:
        """Deletes everything of a tenant but its keys and limits. Raises as `contributor` does."""
        store = self._store
        done = store.forget_tenant(tenant, timeout_s)
        store.purge_index(tenant)
        return Forgotten(done.examples, done.answers, done.requests, done.choices, done.versions)

    def erase(self, timeout_s: float = 60.0) -> bool:
        """Rewrites the database file without what was deleted; False if another process kept reading the old one.

        Takes seconds per gigabyte, during which all writes wait.
        """
        until_s = time.monotonic() + timeout_s
        erased = self._store.erase(timeout_s)
        while not erased and time.monotonic() < until_s:
            time.sleep(_AGAIN_S)
            erased = self._store.scrub(timeout_s)
        return erased
