"""Chooses who answers in place of an engine that was to answer, and for which of its failures. Pure.

An engine that may answer by itself stands in for everything: slowness, an outage, an answer that breaks off. One that needs
proof and has none stands in for an outage at most. Refuses to know how failures look (engines.candidates).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from router.plan import Action, Attempt


@dataclass(frozen=True, slots=True)
class StandIns:
    """The rule of one served model. `engines`: small to large; `listed`: those that the operator lists, if any are.

    `proof`: what keeps smaller engines from answering (models.NAME.proof); off for a policy that never offloads.
    """

    engines: tuple[str, ...] = ()
    listed: tuple[str, ...] | None = None
    proof: Literal["on", "floor", "off"] = "off"

    def ways(
        self, attempts: Sequence[Attempt], proven: Collection[Action] = (), offload_cap: float = 0.0
    ) -> list[tuple[Attempt, bool]]:
        """Those of a plan's attempts that may be made, in their order; and whether only during an outage.

        `proven`: the actions that may answer this request; `offload_cap`: the share of requests that the floor leaves to
        other engines than the reference.
        """
        first = 1 if attempts[0].prediction is None else 2
        planned = [(one, False) for one in attempts[:first]]
        others = [self._way(one, planned[-1][0].engine, proven, offload_cap) for one in attempts[first:]]
        order = self.listed or ()
        found = sorted(
            (one for one in others if one is not None),
            key=lambda one: (one[1], order.index(one[0].engine) if one[0].engine in order else -1),
        )
        return planned + found

    def _way(
        self, way: Attempt, planned: str, proven: Collection[Action], offload_cap: float
    ) -> tuple[Attempt, bool] | None:
        if self._larger(way.engine, planned):
            return way, False
        if self.proof == "on":
            for one in (way, Attempt(way.engine)):
                if Action(one.engine, bool(one.examples)) in proven:
                    return one, False
            return (way, True) if way.engine in (self.listed or ()) else None
        if self.listed is not None and way.engine not in self.listed:
            return None
        return way, self.proof == "floor" and offload_cap < 1.0

    def _larger(self, engine: str, planned: str) -> bool:
        order = self.engines
        return engine in order and planned in order and order.index(engine) > order.index(planned)


ANYBODY = StandIns()
"""Every engine of a plan stands in for every other."""
