"""Tells which processes cannot ask which engines: one of kind vllm-local lives inside the serving worker, and only there.

Replay, the KV plan, private banks and the admin pages have processes of their own. Each is refused with a sentence that
names the setting, before anything is begun, instead of finding an engine that was never started.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from understudy.settings.engines import EngineSettings, VLLMLocalEngine
from understudy.settings.learning import JudgingSettings
from understudy.settings.models import ModelSettings
from understudy.settings.replay import ReplaySettings

_REMEDY = "run `vllm serve` beside the gateway and use kind vllm"


def out_of_reach(engines: Mapping[str, EngineSettings], engine: str) -> str | None:
    """Why no process but the serving worker can ask this engine; None where any can."""
    if not isinstance(engines.get(engine), VLLMLocalEngine):
        return None
    return f"engines.{engine} is of kind vllm-local, which only the serving worker can ask; {_REMEDY}"


def replay_out_of_reach(
    engines: Mapping[str, EngineSettings],
    models: Mapping[str, ModelSettings],
    replay: ReplaySettings,
    judging: JudgingSettings | None,
) -> str | None:
    """The first setting that would have replay, or its KV plan, ask an engine out of its reach, and what would be right."""
    for key, engine in _asked_by_replay(models, replay, judging):
        why = out_of_reach(engines, engine)
        if why is not None:
            return f"{key} has replay ask {engine!r}, from a process of its own, but {why}"
    return None


def _asked_by_replay(
    models: Mapping[str, ModelSettings], replay: ReplaySettings, judging: JudgingSettings | None
) -> Iterator[tuple[str, str]]:
    """(setting, engine), as understudy.setup.replay and learning.replay.material choose them."""
    advanced = replay.advanced
    if replay.judge is not None:
        yield "replay.judge", replay.judge
    elif judging is not None:
        yield "judging.engine", judging.engine
    if advanced.engine is not None:
        yield "replay.advanced.engine", advanced.engine
    if advanced.generator is not None:
        yield "replay.advanced.generator", advanced.generator
    for name, model in models.items():
        reference = advanced.engine or model.engines[-1]
        yield f"models.{name}.engines", reference
        alone = next((each for each in model.engines if each != reference), None)
        if alone is not None and advanced.expand:
            # Asked what it says without help.
            yield f"models.{name}.engines", alone
    yield from (("replay.advanced.kv_plan.engines", name) for name in advanced.kv_plan.engines)
