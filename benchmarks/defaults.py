"""Parts of the gateway with its default settings, for benchmarks that use such a part alone."""

from __future__ import annotations

from router.choosing import chooser
from router.choosing.load import LoadKnobs
from understudy.settings.knobs import knobs_of
from understudy.settings.learning import LearningAdvanced
from understudy.settings.models import ModelAdvanced

ACTIONS = 2
"""Among which the benchmarks' choosers choose: a small and a large engine."""
HALF_LIFE_S = LearningAdvanced().half_life_h * 3600


def default_chooser() -> chooser.Chooser:
    """A chooser as a served model gets it."""
    model = ModelAdvanced()
    load = knobs_of(LoadKnobs, threshold=model.load_threshold, strength=model.load_strength)
    knobs = knobs_of(
        chooser.Knobs, gamma_scale=model.gamma, least_probability=model.epsilon / ACTIONS, load=load
    )
    return chooser.Chooser(knobs)
