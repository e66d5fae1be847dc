"""What a configuration tells about engines and components without asking them: for drawings, not for runs."""

from __future__ import annotations

from understudy.settings.config import Config
from workflows.plan import Profile

_ASSUMED_BATCH = 16
"""Of a component whose effective batch is measured while it works, which has not been yet."""


def profile(config: Config | None) -> Profile:
    """What a configuration tells about its engines and components without asking them."""
    if config is None:
        return Profile({"local": 1})
    batches = {
        name: each.batch or (1 if each.kind == "local" else _ASSUMED_BATCH)
        for name, each in config.components.items()
    }

    return Profile({"local": 1, **batches})
