"""Which settings have an engine asked in an API that it does not speak: refused where it could never work, else told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from understudy.settings.engines import EngineSettings, TenantSettings
from understudy.settings.learning import JudgingSettings
from understudy.settings.models import ModelSettings
from understudy.settings.replay import ReplaySettings

_ASKED_ALONE = ("embeddings", "images", "audio", "moderations", "other")
"""APIs in which one answer is no worse for having nobody to choose among."""


def check_apis(
    engines: Mapping[str, EngineSettings], judging: JudgingSettings | None, replay: ReplaySettings
) -> None:
    """Raises ValueError for an engine that the gateway itself asks for chat completions, and that speaks none."""
    named = {
        "judging.engine": judging.engine if judging is not None else None,
        "replay.judge": replay.judge,
        "replay.advanced.engine": replay.advanced.engine,
        "replay.advanced.generator": replay.advanced.generator,
    }
    for setting, name in named.items():
        if name is not None and name in engines and "chat" not in engines[name].understood:
            raise ValueError(
                f"{setting} names {name!r}, which is asked for chat completions and speaks {_listed(engines[name])} only: "
                f"name another engine, or add chat to engines.{name}.apis if it does speak it"
            )


def unspoken(
    engines: Mapping[str, EngineSettings], models: Mapping[str, ModelSettings], replay: ReplaySettings
) -> Iterator[str]:
    """What works less than it seems to, a sentence each: engines of one model that speak no API in common."""
    for name, model in models.items():
        known = [engines[one] for one in model.engines if one in engines]
        apis = frozenset[str]().union(*(one.understood for one in known)) - {*_ASKED_ALONE}
        alone = not any(sum(api in one.understood for one in known) > 1 for api in apis)
        if len(known) > 1 and alone and not _one_server(known):
            told = ", ".join(f"{one} ({_listed(engines[one])})" for one in model.engines if one in engines)
            yield (
                f"models.{name}.engines speak no API in common, so no request has a choice or a stand-in among them: {told}"
            )
        larger = engines.get(model.larger_context or "")
        if larger is not None and known and not larger.understood & apis:
            yield (
                f"models.{name}.larger_context names {model.larger_context!r}, which speaks {_listed(larger)} only, and so "
                "none of what its other engines are asked"
            )
        reference = engines.get(model.engines[-1])
        if replay.enabled and reference is not None and "chat" not in reference.understood:
            yield (
                f"replay.enabled is true, but the reference engine of models.{name}, {model.engines[-1]!r}, speaks "
                f"{_listed(reference)} only: replay asks for chat completions, and leaves that model out"
            )


def unsalted(engines: Mapping[str, EngineSettings]) -> Iterator[str]:
    """Engines that keep tenants' caches apart, but for one API: a sentence each."""
    for name, engine in engines.items():
        if isinstance(engine, TenantSettings) and engine.salted and "messages" in engine.spoken:
            yield (
                f"engines.{name}.salted keeps tenants' prefix caches apart, but vLLM takes no cache_salt with messages: "
                f"leave messages out of engines.{name}.apis where tenants must not find out by its timing what others "
                "asked"
            )


def _one_server(engines: list[EngineSettings]) -> bool:
    """Whether all are one model of one server, each for APIs of its own: nothing else was meant."""
    urls = {(getattr(one, "base_url", None), one.model) for one in engines}
    return len(urls) == 1 and None not in next(iter(urls))


def _listed(engine: EngineSettings) -> str:
    return ", ".join(sorted(engine.understood))
