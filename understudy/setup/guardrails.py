"""From the settings to the guardrails."""

from __future__ import annotations

from gateway.guardrails import Guardrail, GuardrailMetrics, Guardrails
from understudy.settings.config import Config


def guardrails(config: Config, metrics: GuardrailMetrics, *, max_json_bytes: int) -> Guardrails | None:
    """What asks the configured ones; None where there are none."""
    made = [
        Guardrail(
            name,
            settings.url,
            {header: value.get_secret_value() for header, value in settings.headers.items()},
            settings.timeout_s,
            settings.without_verdict == "pass",
            frozenset(tenant.removeprefix("id:") for tenant in settings.tenants),
        )
        for name, settings in config.guardrails.items()
    ]
    return Guardrails(made, metrics, max_json_bytes=max_json_bytes) if made else None
