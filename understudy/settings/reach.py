"""Tells which processes cannot ask which engines: one of kind vllm-local lives inside the serving worker, and only there.

Replay, the KV plan, private banks and the admin pages have processes of their own. Each is refused with a sentence that
names the setting, before anything is begun, instead of finding an engine that was never started.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from understudy.settings.engines import VLLMLocalEngine

if TYPE_CHECKING:
    from understudy.settings.config import Config

_REMEDY = "run `vllm serve` beside the gateway and use kind vllm"


def out_of_reach(config: Config, engine: str) -> str | None:
    """Why no process but the serving worker can ask this engine; None where any can."""
    if not isinstance(config.engines.get(engine), VLLMLocalEngine):
        return None
    return f"engines.{engine} is of kind vllm-local, which only the serving worker can ask; {_REMEDY}"


def replay_out_of_reach(config: Config) -> str | None:
    """The first setting that would have replay, or its KV plan, ask an engine out of its reach, and what would be right."""
    for key, engine in _asked_by_replay(config):
        why = out_of_reach(config, engine)
        if why is not None:
            return f"{key} has replay ask {engine!r}, from a process of its own, but {why}"
    return None


def _asked_by_replay(config: Config) -> Iterator[tuple[str, str]]:
    """(setting, engine), as understudy.setup.replay and learning.replay.material choose them."""
    replay, advanced = config.replay, config.replay.advanced
    if replay.judge is not None:
        yield "replay.judge", replay.judge
    elif config.judging is not None:
        yield "judging.engine", config.judging.engine
    if advanced.engine is not None:
        yield "replay.advanced.engine", advanced.engine
    if advanced.generator is not None:
        yield "replay.advanced.generator", advanced.generator
    for name, model in config.models.items():
        reference = advanced.engine or model.engines[-1]
        yield f"models.{name}.engines", reference
        alone = next((each for each in model.engines if each != reference), None)
        if alone is not None and advanced.expand:
            # Asked what it says without help.
            yield f"models.{name}.engines", alone
    yield from (("replay.advanced.kv_plan.engines", name) for name in advanced.kv_plan.engines)
