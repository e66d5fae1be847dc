"""Settings of OpenTelemetry."""

from __future__ import annotations

from pydantic import Field, SecretStr, field_validator

from understudy.settings.engines import checked_url
from understudy.settings.group import Settings


class TelemetryAdvanced(Settings):
    """Less common settings of OpenTelemetry."""

    service_name: str = Field("understudy", min_length=1, description="service.name of what is sent.")
    sampled_share: float = Field(
        1,
        ge=0,
        le=1,
        description="Share of the traces that begin here which are sent; a client's traceparent decides over its own.",
    )
    timeout_s: float = Field(10, gt=0, le=300, description="Longest wait for the collector.")
    metrics_every_s: float = Field(30, ge=1, le=3600, description="Interval between two exports of metrics.")


class TelemetrySettings(Settings):
    """Spans and metrics for an OpenTelemetry collector (OTLP over HTTP). Needs the extra `otel`."""

    endpoint: str | None = Field(
        None, description="Its base URL, e.g. http://127.0.0.1:4318; null: nothing is sent."
    )
    headers: dict[str, SecretStr] = Field({}, description="Headers for it, e.g. its key.")
    content: bool = Field(
        False,
        description="Whether spans hold messages and answers, too; never those of requests that are not to be kept.",
    )
    advanced: TelemetryAdvanced = Field(TelemetryAdvanced(), description="Less common settings.")

    _valid_url = field_validator("endpoint")(lambda url: url and _collector_url(url))


def _collector_url(url: str) -> str:
    base = checked_url(url)
    for path in ("/v1/traces", "/v1/metrics"):
        if base.endswith(path):
            raise ValueError(f"must end before {path}: {base.removesuffix(path)} is right")
    return base
