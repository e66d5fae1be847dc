"""Defines what the steps of a workflow are carried out with, beside engines: components and kept collections.

Interfaces only. What they raise for a step is engines.components.component.ComponentError. Cancelling the awaiting task
withdraws the work at once, whether it waits or is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engines.components.component import Components
from workflows.plan import Profile
from workflows.running.indexes import Indexes


@dataclass(frozen=True, slots=True)
class Means:
    """The means by which `Runs` carries out workflows."""

    components: Components
    indexes: Indexes
    profile: Callable[[], Profile]
    """Returns components and engines as they are now: what the passes go by."""
    usd_per_item: Mapping[str, float] = field(default_factory=dict)
    """The price of a text, a search or a call, by component; 0 for those that are not in it."""
