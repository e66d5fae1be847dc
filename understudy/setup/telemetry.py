"""From the settings to what sends telemetry. The only file outside gateway.telemetry that imports its exporter."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from understudy.built import Built
from understudy.cannot_start import CannotStart
from understudy.settings.config import Config

if TYPE_CHECKING:
    from gateway.telemetry.export import Telemetry


class TelemetryMissing(CannotStart):
    """What sends telemetry is not installed. The text says what to do about it."""


def add_to(built: Built) -> None:
    """Send what ends, and what is counted. Raises TelemetryMissing."""
    if made := telemetry(built.config, built.metrics.registry):
        built.telemetry = built.parts.add(made, start=made.start, stop=made.close)


def telemetry(config: Config, registry: CollectorRegistry) -> Telemetry | None:
    """Build what sends telemetry; None if no collector is configured. Raises TelemetryMissing."""
    settings = config.otel
    if settings.endpoint is None:
        return None
    if importlib.util.find_spec("opentelemetry") is None:
        raise TelemetryMissing(
            "otel.endpoint is set, but the OpenTelemetry SDK is not installed: pip install 'understudy-gateway[otel]'"
        )
    from gateway.telemetry.described import Describer
    from gateway.telemetry.export import Collector, Telemetry, TelemetryMetrics
    from gateway.telemetry.providers import providers

    collector = Collector(
        settings.endpoint,
        {name: value.get_secret_value() for name, value in settings.headers.items()},
        settings.advanced.service_name,
        settings.advanced.timeout_s,
        settings.advanced.metrics_every_s,
    )
    kinds = {name: engine.kind for name, engine in config.engines.items()}
    return Telemetry(collector, Describer(providers(kinds), settings.content), TelemetryMetrics(registry))
