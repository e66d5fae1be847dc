"""From the settings to what describes each component."""

from __future__ import annotations

from typing import Any

from engines.components.component import (
    ComponentLimits,
    ComponentSpec,
    OverHTTP,
    SearchShape,
    SimulatedPace,
    ToolShape,
)
from understudy.settings.components import (
    AnyComponent,
    EmbeddingsComponent,
    HTTPComponent,
    LocalComponent,
    RerankComponent,
    SearchComponent,
    SimulatedComponent,
    ToolComponent,
)
from understudy.settings.config import Config
from understudy.settings.knobs import knobs_of
from workflows.declaring.world import LOCAL

_FIXED: dict[str, Any] = {
    "max_queued": 10_000,
    "connect_s": 5.0,
    "max_answer_bytes": 16 * 2**20,
    "breaker_failures": 5,
    "breaker_open_s": 10.0,
}
"""Limits of every component that nobody outside could choose better."""


def component_specs(config: Config) -> dict[str, ComponentSpec]:
    """Every component by name: those of the configuration, and `local`, which is there in any case."""
    settings = {LOCAL: LocalComponent(kind="local"), **config.components}
    return {name: _spec(name, each) for name, each in settings.items()}


def _spec(name: str, settings: AnyComponent) -> ComponentSpec:
    limits = knobs_of(ComponentLimits, settings, settings.advanced, **_FIXED)
    http = _http(settings) if isinstance(settings, HTTPComponent) else None
    match settings:
        case SearchComponent():
            search = SearchShape(settings.hits, settings.text, settings.body)
            return ComponentSpec(name, settings.kind, limits, http, search=search)
        case ToolComponent():
            tool = ToolShape(settings.args, settings.answer, settings.result, settings.method)
            return ComponentSpec(name, settings.kind, limits, http, tool=tool)
        case SimulatedComponent():
            pace = SimulatedPace(settings.fixed_ms / 1000, settings.item_ms / 1000, settings.dimensions)
            return ComponentSpec(name, settings.kind, limits, pace=pace)
        case _:
            return ComponentSpec(name, settings.kind, limits, http)


def _http(settings: HTTPComponent) -> OverHTTP:
    key = None if settings.api_key is None else settings.api_key.get_secret_value()
    headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
    match settings:
        case EmbeddingsComponent():
            first, *further = settings.servers
            return OverHTTP(first, key, headers, settings.model, settings.dimensions, tuple(further))
        case RerankComponent():
            first, *further = settings.servers
            return OverHTTP(first, key, headers, settings.model, further_urls=tuple(further))
        case SearchComponent() | ToolComponent():
            return OverHTTP(settings.url, key, headers)
        case _:
            raise TypeError(f"{type(settings).__name__} is asked nowhere")
