"""Applies the settings that operators change at run time: a worker uses them within a second, and no request waits for
it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from router.dials import Dials
from store.changes import LOOK_EVERY_S, Follower
from store.learned.dials import TurnedDials, TurnedDialsLog

log = structlog.get_logger(__name__)

Apply = Callable[[Dials, Mapping[str, Dials]], None]
"""Called with the settings of a served model, and with those of tenants that differ, by tenant."""


class DialFollower(Follower):
    """Follows the log of changed dials."""

    def __init__(
        self,
        dials: TurnedDialsLog,
        models: Mapping[str, Apply],
        *,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        """Applies the dials in force, which blocks for a read of each.

        `models`: by served model, called with its settings when they change; on this thread, so it must be quick.
        """
        super().__init__("dials", look_every_s)
        self._dials = dials
        self._models = dict(models)
        self._applied: dict[str, tuple[Dials, dict[str, Dials]]] = {}
        self._seen = -1
        # Here, and not with the thread: that is begun on an event loop.
        self.look()

    def look(self) -> None:
        """See Follower. The applied dials stay in force in this process after the last one."""
        generation = self._dials.generation()
        if generation == self._seen:
            return
        for model, apply in self._models.items():
            row = self._dials.in_force(model)
            dials = _dials_of(row) if row is not None else Dials()
            own = {
                tenant: Dials(**(dials.turned() | _dials_of(turned).turned()))  # type: ignore[arg-type]
                for tenant, turned in self._dials.of_tenants(model).items()
            }
            if (dials, own) != self._applied.get(model, (Dials(), {})):
                apply(dials, own)
                self._applied[model] = dials, own
                log.info("routing_settings_changed", model=model, settings=dials.turned(), tenants=len(own))
        self._seen = generation


def _dials_of(row: TurnedDials) -> Dials:
    return Dials(row.preference, row.theta, row.m, row.max_examples)
