"""Parts of the gateway with its default settings, for benchmarks that use such a part alone."""

from __future__ import annotations

from router.choosing import chooser
from router.choosing.load import LoadKnobs
from understudy.settings.models import ModelAdvanced

ACTIONS = 2
"""Among which the benchmarks' choosers choose: a small and a large engine."""


def default_chooser(load_strength: float | None = None) -> chooser.Chooser:
    """A chooser as a served model gets it, but for `load_strength` where it is given."""
    model = ModelAdvanced()
    strength = model.load_strength if load_strength is None else load_strength
    knobs = chooser.Knobs(least_probability=model.epsilon / ACTIONS, load=LoadKnobs(strength))
    return chooser.Chooser(knobs)
