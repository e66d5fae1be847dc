"""Whose limits hold for a request: those of its key, its tenant and its end user, all at once. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.limits.errors import REQUESTS, TOKENS
from store.people.allowance import NANO, USD
from store.people.limits import Limits, Period
from store.records import Key, Tenant


@dataclass(frozen=True, slots=True)
class Scope:
    """Somebody whose limits hold."""

    name: str
    """What is spent is kept under it."""
    label: str
    """As an error calls them."""
    limits: Limits
    budgets: tuple[tuple[str, Period, int], ...] = ()
    """(kind, period, nanodollars) of each."""
    rates: tuple[tuple[str, int], ...] = ()
    """(kind, how many a minute) of each."""
    spends: bool = False
    """Whether tokens or dollars of it are limited."""

    @classmethod
    def of(cls, name: str, label: str, limits: Limits) -> Scope:
        """Made of its limits."""
        budgets = tuple((USD + one.per, one.per, round(one.usd * NANO)) for one in limits.budgets)
        each = ((REQUESTS, limits.requests_per_minute), (TOKENS, limits.tokens_per_minute))
        rates = tuple((kind, limit) for kind, limit in each if limit is not None)
        return cls(name, label, limits, budgets, rates, bool(limits.tokens_per_minute or budgets))

    @property
    def counts(self) -> bool:
        """Whether anything of it has to be counted."""
        limits = self.limits
        return bool(
            limits.requests_per_minute or limits.tokens_per_minute or limits.concurrency or limits.budgets
        )


def key_scopes(key: Key, tenant: Tenant | None) -> tuple[Scope, ...]:
    """The key itself and its tenant, where they are limited; known from a request's head."""
    found = [Scope.of(f"key:{key.id}", f"the key '{key.name[:60]}'", key.limits)]
    if tenant is not None:
        found.append(Scope.of(f"tenant:{tenant.id}", f"the tenant '{tenant.name[:60]}'", tenant.limits))
    return tuple(scope for scope in found if _limited(scope))


def user_scopes(key: Key, tenant: Tenant | None, user: str) -> tuple[Scope, ...]:
    """Scopes of an end user of the key and the tenant, by a digest. Requests without a user share one."""
    label = "this end user" if user else "the end user that is not named"
    found = [Scope.of(f"user:{key.id}/{user}", f"{label} of the key", key.each_user)]
    if tenant is not None:
        found.append(Scope.of(f"user:{tenant.id}/{user}", f"{label} of the tenant", tenant.each_user))
    return tuple(scope for scope in found if _limited(scope))


def most_output_of(scopes: Sequence[Scope]) -> tuple[int, str] | None:
    """The most tokens that a request may be answered, and whose limit that is; None without one."""
    found = [
        (scope.limits.max_output_tokens, scope.label)
        for scope in scopes
        if scope.limits.max_output_tokens is not None
    ]
    return min(found) if found else None


def _limited(scope: Scope) -> bool:
    return scope.counts or scope.limits.max_output_tokens is not None
