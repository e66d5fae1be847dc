"""From the settings to the guardrails."""

from __future__ import annotations

from gateway.guardrails.guardrail import Guarding, GuardrailMetrics
from gateway.guardrails.stage import Guardrails
from understudy.built import Built
from understudy.settings.guardrails import GuardrailSettings


def add_to(built: Built) -> None:
    """Ask the configured ones."""
    guarding = [
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
        for name, settings in built.config.guardrails.items()
    ]
    metrics = GuardrailMetrics(built.metrics.registry)
    made = Guardrails(guarding, metrics, max_json_bytes=built.max_json_bytes)
    built.guardrails = built.parts.add(made, aclose=made.aclose)


def _headers(settings: GuardrailSettings) -> dict[str, str]:
    headers = {name: value.get_secret_value() for name, value in settings.advanced.headers.items()}
    if settings.api_key is not None:
        headers["Authorization"] = f"Bearer {settings.api_key.get_secret_value()}"
    return headers
