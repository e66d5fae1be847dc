"""From the settings to what sends telemetry. The only file outside gateway.telemetry that imports its exporter."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from understudy.settings.config import Config

if TYPE_CHECKING:
    from gateway.telemetry.export import Telemetry, TelemetryMetrics


class TelemetryMissing(Exception):
    """What sends telemetry is not installed. The text says what to do about it."""


def telemetry(
    config: Config, series: Callable[[type[TelemetryMetrics]], TelemetryMetrics]
) -> Telemetry | None:
    """What sends telemetry; None where no collector is configured. `series` is Lasting.series. Raises TelemetryMissing."""
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
    return Telemetry(collector, Describer(providers(kinds), settings.content), series(TelemetryMetrics))
