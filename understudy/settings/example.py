"""Writes `config.example.yaml`: `python -m understudy.settings.example`.

It shows the settings that most operators meet on the first day; all are in docs/reference/settings.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from understudy.settings.admin import AdminSettings
from understudy.settings.config import Config, LogSettings
from understudy.settings.engines import OpenAIEngine, VLLMEngine
from understudy.settings.learning import JudgingSettings, LearningSettings
from understudy.settings.listen import Listen
from understudy.settings.memory import MemorySettings
from understudy.settings.models import ModelSettings
from understudy.settings.names import groups_in
from understudy.settings.replay import ReplaySettings
from understudy.settings.retention import RetentionSettings
from understudy.settings.telemetry import TelemetrySettings
from understudy.settings.upstream import Upstream
from understudy.settings.users import UsersSettings

_HEAD = """\
# The settings that most operators meet, each with a sentence; docs/reference/settings.md lists them all. ${NAME} is
# read from the environment, ${NAME:-default} with a fallback. `understudy check FILE` validates a file.
# Written by `python -m understudy.settings.example`.
"""
_GROUPS: dict[str, tuple[type[BaseModel], str]] = {
    "listen": (Listen, "host port workers"),
    "upstream": (Upstream, "base_url api_key"),
    "memory": (
        MemorySettings,
        "data_dir partition exact.enabled exact.ttl_s examples.enabled examples.admission.secrets"
        " examples.admission.private_data log_requests request_texts.enabled",
    ),
    "users": (UsersSettings, "sources"),
    "retention": (RetentionSettings, "texts_days rows_days"),
    "learning": (LearningSettings, "spend_share"),
    "judging": (JudgingSettings, "engine share_offloaded max_usd_per_day"),
    "replay": (ReplaySettings, "enabled cron max_run_usd"),
    "admin": (AdminSettings, "host port https"),
    "log": (LogSettings, "requests level"),
    "otel": (TelemetrySettings, "endpoint"),
}
"""Groups that are shown, and which of their settings."""
_ENGINES: dict[str, tuple[type[BaseModel], str]] = {
    "large": (
        OpenAIEngine,
        "kind base_url api_key model price.input_usd_per_mtok price.output_usd_per_mtok context_tokens",
    ),
    "small": (VLLMEngine, "kind base_url"),
}
_MODEL = "engines cascade policy proof max_loss in_context.preference in_context.max_examples"
_GIVEN: dict[str, Any] = {
    "upstream.base_url": "https://api.openai.com/v1",
    "engines.large.kind": "openai",
    "engines.large.base_url": "https://api.openai.com/v1",
    "engines.large.api_key": "${OPENAI_API_KEY}",
    "engines.small.kind": "vllm",
    "engines.small.base_url": "http://127.0.0.1:8000/v1",
    "models.gpt-4o.engines": ["small", "large"],
    "memory.data_dir": "./data",
    "judging.engine": "large",
}
"""Values of the example that are not the default."""
_SHOWN_ONLY = {
    "keys": """\
keys:
  web:  # docs/how-to/keys-and-tenants.md
    secret: ${WEB_KEY}
    tenant: acme
    limits: {models: ["gpt-4o*"], requests_per_minute: 600, budgets: [{usd: 5, per: day}]}
    each_user: {budgets: [{usd: 0.2, per: day}]}
""",
    "tenants": """\
tenants:
  acme:
    limits: {budgets: [{usd: 100, per: month}], time_zone: Europe/Berlin}
""",
    "components": """\
components:
  web: {kind: search, url: "https://search.example/api?q={query}&count={k}", hits: /results, text: [/title, /text]}
""",
    "applications": "applications: {infer: show}  # docs/explanation/workflows.md",
    "guardrails": """\
guardrails:
  pii: {url: "http://127.0.0.1:9000/check", api_key: "${GUARD_KEY}", on_failure: refuse}  # docs/how-to/guardrails.md
""",
    "webhooks": """\
webhooks:  # docs/how-to/observe.md
  - {url: "${WEBHOOK_URL}", secret: "${WEBHOOK_SECRET}", events: [budget.crossed, engine.down, engine.up]}
""",
    "workflows": """\
workflows:
  summary:  # docs/how-to/workflows.md
    inputs: {document: last_user}
    steps:
      parts: {split: "{{document}}", tokens: 1000}
      notes: {map: "{{parts}}", chat: "Note what matters in: {{item}}", model: gpt-4o}
      answer: {chat: "Summarise these notes: {{notes}}", model: gpt-4o}
    output: answer
""",
}
"""Groups that hold what operators make up, shown as comments."""


def example() -> str:
    """The whole example as YAML text."""
    lines = [_HEAD.rstrip()]
    for name, field in Config.model_fields.items():
        if name in _SHOWN_ONLY:
            lines += ["", f"# {field.description}"]
            lines += [f"# {line}" for line in _SHOWN_ONLY[name].splitlines()]
        elif name == "engines":
            lines += ["", f"# {field.description}", "engines:"]
            for engine, (group, shown) in _ENGINES.items():
                lines += [f"  {engine}:", *_group(group, f"engines.{engine}", shown.split())]
        elif name == "models":
            lines += ["", f"# {field.description}", "models:", "  gpt-4o:  # the name clients ask for"]
            lines += _group(ModelSettings, "models.gpt-4o", _MODEL.split())
        elif name in _GROUPS:
            group, shown = _GROUPS[name]
            lines += ["", f"# {field.description}", f"{name}:", *_group(group, name, shown.split())]
    return "\n".join(lines) + "\n"


def _group(model: type[BaseModel], dotted: str, shown: list[str]) -> Iterator[str]:
    """The lines of a group, of whose settings those named are shown; `price.input_usd` is one of a group within it."""
    pad = "  " * (dotted.count(".") + 1)
    for name, field in model.model_fields.items():
        below = [one.partition(".")[2] for one in shown if one.startswith(f"{name}.")]
        if below:
            yield f"{pad}{name}:"
            (group,), _ = groups_in(field.annotation)
            yield from _group(group, f"{dotted}.{name}", below)
        elif name in shown:
            default = None if field.is_required() else field.get_default()
            value = _GIVEN.get(f"{dotted}.{name}", default)
            yield f"{pad}# {field.description or _KIND}"
            yield f"{pad}{field.alias or name}: {json.dumps(value, default=_plain)}"


_KIND = "Which kind of engine this is: openai, anthropic, azure, vllm, vllm-local, or simulated."


def _plain(value: object) -> Any:
    return str(value) if isinstance(value, Path | SecretStr) else list(value)  # type: ignore[call-overload]


if __name__ == "__main__":
    Path("config.example.yaml").write_text(example(), encoding="utf-8")
