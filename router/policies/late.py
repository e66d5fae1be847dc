"""Goes on with decisions that were late for their clients, without a deadline, so that small engines are compared by them.

As long as the answer takes: Plan.with_late takes what is known by its end. A busy machine is not made busier: few go on at
once, and texts are embedded when no client waits for another's embedding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from router.plan import Plan

AT_ONCE = 4


class LateDecisions:
    """The late decisions of one policy; on one event loop. It holds its tasks until they end."""

    def __init__(self) -> None:
        self._going_on: set[asyncio.Task[Plan]] = set()

    def go_on(self, plan: Plan, decide: Callable[[], Coroutine[Any, Any, Plan]]) -> Plan:
        """The plan of a late decision, with what `decide` will come to; as it is if enough others go on."""
        if len(self._going_on) >= AT_ONCE:
            return plan
        task = asyncio.get_running_loop().create_task(decide(), name="late decision")
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)
        return replace(plan, late=task)
