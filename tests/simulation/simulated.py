"""The pace of simulated components in tests."""

from __future__ import annotations

from engines.components.component import SimulatedPace

PACE = SimulatedPace(fixed_s=0.01, per_item_s=0.001, dimensions=64)
