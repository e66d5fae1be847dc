"""From the settings to the guardrails."""

from __future__ import annotations

from gateway.guardrails.guardrail import Guarding, GuardrailMetrics
from gateway.guardrails.stage import Guardrails
from understudy.settings.config import Config
from understudy.settings.guardrails import GuardrailSettings


def guardrails(config: Config, metrics: GuardrailMetrics, *, max_json_bytes: int) -> Guardrails | None:
    """What asks the configured ones; None where there are none."""
    made = [
        Guarding(
            name,
            settings.url,
            _headers(settings),
            settings.timeout_s,
            settings.on_failure == "allow",
            settings.when == "before",
            settings.models,
            frozenset(tenant.removeprefix("id:") for tenant in settings.advanced.tenants),
        )
        for name, settings in config.guardrails.items()
    ]
    return Guardrails(made, metrics, max_json_bytes=max_json_bytes) if made else None


def _headers(settings: GuardrailSettings) -> dict[str, str]:
    headers = {name: value.get_secret_value() for name, value in settings.advanced.headers.items()}
    if settings.api_key is not None:
        headers["Authorization"] = f"Bearer {settings.api_key.get_secret_value()}"
    return headers
