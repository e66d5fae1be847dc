"""What a configuration tells about engines and components without asking them: for drawings, not for runs."""

from __future__ import annotations

from understudy.settings.config import Config
from workflows.plan import Profile

_OURS = ("vllm", "vllm-local")
"""Kinds of engines that somebody else does not send bills for."""
_ASSUMED_BATCH = 16
"""Of a component whose effective batch is measured while it works, which has not been yet."""


def profile(config: Config | None) -> Profile:
    """What a configuration tells about its engines and components without asking them."""
    if config is None:
        return Profile({"local": 1}, lambda model: True)
    batches = {
        name: each.batch or (1 if each.kind == "local" else _ASSUMED_BATCH)
        for name, each in config.components.items()
    }

    def certain(model: str) -> bool:
        settings = config.models.get(model)
        return settings is not None and settings.policy == "fixed"

    def hosted(model: str) -> bool:
        settings = config.models.get(model)
        return settings is None or config.engines[settings.engines[-1]].kind not in _OURS

    return Profile({"local": 1, **batches}, certain, hosted)
