"""Deletes what is remembered of a tenant, or of one key or user of it. For the API and `understudy forget`. Blocks."""

from __future__ import annotations

import time
from dataclasses import dataclass

from learning.bank.contributor import is_from, user_digest
from store import Store

_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was deleted."""

    examples: int
    answers: int
    """Exact answers. They do not say whose request they answered, so those of the whole tenant go."""
    requests: int
    """Rows of the request log; only a whole tenant's. They hold no content; a forgotten key's id is taken off them."""
    choices: int = 0
    """What the router weighed for their requests: the requests' vectors, and with them the feedback."""
    versions: int = 0
    """Of what was learnt; only a whole tenant's. They hold weights, and learning anew leaves out what is gone."""


class Forgetter:
    """Over an open store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def contributor(
        self,
        tenant: str,
        *,
        key_id: str = "",
        user: str = "",
        purge: bool = False,
        timeout_s: float = 60.0,
    ) -> Forgotten:
        """Delete the examples, choices, feedback and requests' texts of a key, or of requests that named a user.

        The tenant's exact answers, which do not say whose they are, go all of them.

        `purge` waits until nothing of the removed vectors is in the tenant's index and its snapshot, which otherwise
        happens in the background. See `erase` for what SQLite may still hold. Raises what writing raises, TimeoutError
        among it.
        """
        store = self._store
        digest = user_digest(store.secret, tenant, user) if user else None
        whose = [
            n
            for n in store.examples.contributors.names(tenant)
            if is_from(n, key_id=key_id or None, digest=digest)
        ]
        removing = [store.examples.remove_contributor(tenant, name) for name in whose]
        forgetting = store.answers.exact.forget_tenant(tenant)
        if key_id:
            store.decisions.requests.forget_key(tenant, key_id).result(timeout_s)
        examples = sum(removed.result(timeout_s) for removed in removing)
        answers = forgetting.result(timeout_s)
        choices = sum(store.forget_experience(tenant, name, timeout_s) for name in whose)
        if store.follower is not None:
            store.follower.wait_for(store.examples.last_seq(), timeout_s)
        if purge:
            store.purge_index(tenant)
        return Forgotten(examples, answers, 0, choices)

    def tenant(self, tenant: str, timeout_s: float = 60.0) -> Forgotten:
        """Delete everything of a tenant but its keys. Raises as `contributor` does."""
        store = self._store
        done = store.forget_tenant(tenant, timeout_s)
        store.purge_index(tenant)
        return Forgotten(done.examples, done.answers, done.requests, done.choices, done.versions)

    def erase(self, timeout_s: float = 60.0) -> bool:
        """Write the database file anew without what was deleted; False while another process reads the old one on and on.

        Takes seconds per gigabyte, during which every process's writes wait.
        """
        until_s = time.monotonic() + timeout_s
        erased = self._store.erase(timeout_s)
        while not erased and time.monotonic() < until_s:
            time.sleep(_AGAIN_S)
            erased = self._store.scrub(timeout_s)
        return erased
