"""Plans of replay that were shown and may be run as they are, kept in memory for an hour."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from cachetools import TTLCache

from admin.sources import Sources
from store.jobs.replay_records import NewStep, ReplayBudget

_MOST, _KEPT_S = 32, 3600


@dataclass(frozen=True, slots=True)
class KeptPlan:
    """What a run would do, and with which budget."""

    tenant: str
    """Empty: every tenant's examples."""
    budget: ReplayBudget
    steps: Sequence[NewStep]


class KeptPlans:
    """Plans by a random id."""

    def __init__(self) -> None:
        self._kept: TTLCache[str, KeptPlan] = TTLCache(maxsize=_MOST, ttl=_KEPT_S)
        self._lock = threading.Lock()

    def put(self, plan: KeptPlan) -> str:
        """Keeps a plan; gives its id."""
        id = secrets.token_urlsafe(12)
        with self._lock:
            self._kept[id] = plan
        return id

    def take(self, id: str) -> KeptPlan | None:
        """The plan, which is not kept any longer: it is run once. None where it is not there any more."""
        with self._lock:
            found: KeptPlan | None = self._kept.pop(id, None)
            return found

    def close(self) -> None:
        """Nothing has to be ended."""


def kept_plans(sources: Sources) -> KeptPlans:
    """Those of this process."""
    return sources.shared("replay_plans", KeptPlans)
