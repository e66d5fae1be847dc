"""Which processes a configuration wants beside its workers."""

from __future__ import annotations

from typing import Literal

from understudy.settings.config import Config

LEARNER, REPLAYER, ADMIN = "learner", "replayer", "admin"


Role = Literal["all", "gateway", "background"]
"""What this machine's processes do: answer requests, do what no request waits for, or both."""


def helpers_wanted(config: Config, role: Role = "all") -> list[str]:
    """Their names."""
    wanted = {
        LEARNER: learner_wanted(config) and role != "gateway",
        REPLAYER: config.replay.enabled and role != "gateway",
        ADMIN: admin_wanted(config) and role != "background",
    }
    return [name for name, is_wanted in wanted.items() if is_wanted]


def learner_wanted(config: Config) -> bool:
    """Whether there is anything to learn, and it is allowed: then a learner runs beside the workers."""
    memory = config.memory
    if memory is None or not memory.examples.enabled or not config.learning.enabled:
        return False
    return any(model.policy == "in_context" or model.may_have_tasks for model in config.models.values())


def admin_wanted(config: Config) -> bool:
    """Whether admin pages are served: where there is a folder that outlives the gateway, unless they are switched off."""
    return config.admin.enabled and config.memory is not None and config.memory.data_dir is not None
