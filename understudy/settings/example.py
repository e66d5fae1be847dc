"""Writes `config.example.yaml`: `python -m understudy.settings.example`.

It shows the settings an operator meets. Those under `advanced` and `health`, what bounds workflows, what goes with
PostgreSQL, and the simulated engines, are in docs/reference/settings.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr

from understudy.settings.config import Config
from understudy.settings.engines import OpenAIEngine, VLLMEngine, VLLMLocalEngine
from understudy.settings.learning import JudgingSettings
from understudy.settings.memory import MemorySettings
from understudy.settings.models import ModelSettings
from understudy.settings.upstream import Upstream

_HEAD = """\
# The settings an operator meets, each with its default and a sentence. Less common ones stand under `advanced:` in the block
# they belong to: docs/reference/settings.md lists them all. ${NAME} is read from the environment, ${NAME:-default} with a
# fallback. `understudy check FILE` validates a file and shows what it comes to.
# Written by `python -m understudy.settings.example`.
"""
_ALSO_HAS = "# model, price, context_tokens and max_in_flight as above"
_GROUPS: dict[str, tuple[type[BaseModel], Mapping[str, Any]]] = {
    "upstream": (Upstream, {"base_url": "https://api.openai.com/v1"}),
    "memory": (MemorySettings, {"data_dir": "./data"}),
    "judging": (JudgingSettings, {"engine": "large"}),
}
"""Groups that are off by default, or need a value, and what the example says in them."""
_LEFT_OUT = {"health"}
"""Groups of less common settings only."""
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
    "applications": "applications: {infer: show}  # docs/explanation/applications.md",
    "guardrails": """\
guardrails:
  pii: {url: "http://127.0.0.1:9000/check", api_key: "${GUARD_KEY}", on_failure: refuse}  # docs/how-to/guardrails.md
""",
    "webhooks": """\
webhooks:  # docs/how-to/money.md
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
"""Groups that hold what operators make up, shown as comments; their other settings are less common ones."""


def example() -> str:
    """The whole example as YAML text."""
    lines = [_HEAD.rstrip()]
    for name, field in Config.model_fields.items():
        if name in _LEFT_OUT:
            continue
        lines += ["", f"# {field.description}"]
        if name in _SHOWN_ONLY:
            lines += [f"# {line}" for line in _SHOWN_ONLY[name].splitlines()]
            continue
        lines.append(f"{name}:")
        match name:
            case "engines":
                lines += _engines()
            case "models":
                given = {"engines": ["small", "large"]}
                lines += ["  gpt-4o:  # the name clients ask for", *_group(ModelSettings, 2, given)]
            case _:
                group, given = _GROUPS.get(name, (type(field.default), {}))
                lines += _group(group, 1, given)
    return "\n".join(lines) + "\n"


def _engines() -> Iterator[str]:
    shown = set(OpenAIEngine.model_fields)
    yield "  large:  # any name"
    yield from _group(OpenAIEngine, 2, {"kind": "openai", "base_url": "https://api.openai.com/v1"})
    yield "  small:"
    yield f"    {_ALSO_HAS}, and api_key"
    vllm = {"kind": "vllm", "base_url": "http://127.0.0.1:8000/v1"}
    yield from _group(VLLMEngine, 2, vllm, shown - set(vllm))
    yield "  local:"
    yield f"    {_ALSO_HAS}"
    local = {"kind": "vllm-local", "model_dir": "org/model"}
    yield from _group(VLLMLocalEngine, 2, local, (shown | set(VLLMEngine.model_fields)) - set(local))


def _group(
    model: type[BaseModel], depth: int, given: Mapping[str, Any], left_out: set[str] | None = None
) -> Iterator[str]:
    pad = "  " * depth
    for name, field in model.model_fields.items():
        if name in _WITH_ANOTHER or name in (left_out or ()):
            continue
        yield f"{pad}# {field.description or _KIND}"
        if name in _INSTEAD:
            yield f"{pad}# {name}: {_INSTEAD[name]}"
            continue
        value = given.get(name, None if field.is_required() else field.get_default())
        if isinstance(value, BaseModel):
            yield f"{pad}{name}:"
            yield from _group(type(value), depth + 1, {})
        else:
            yield f"{pad}{field.alias or name}: {json.dumps(value, default=_plain)}"


_INSTEAD = {
    "database_url": '"postgresql://understudy:${PGPASSWORD}@db.example/understudy?sslmode=verify-full"',
    "base_urls": '["http://10.0.0.1:8000/v1", {"url": "http://10.0.0.2:8000/v1", "weight": 2}]',
    "proxy": '"http://proxy.example:3128"',
}
"""Settings in the place of another one, and what they may look like."""
_WITH_ANOTHER = {
    "advanced",
    *("cors", "tells_usage", "slo_tpot_ms"),
    *("listen_url", "deadline_ms", "stale_s", "connections", "index", "index_memory_mib", "blobs_url"),
}
"""Less common settings that stand in no `advanced` block, and those that mean something with memory.database_url only."""
_KIND = "Which kind of engine this is: openai, anthropic, azure, vllm, vllm-local, or simulated."


def _plain(value: object) -> Any:
    return str(value) if isinstance(value, Path | SecretStr) else list(value)  # type: ignore[call-overload]


if __name__ == "__main__":
    Path("config.example.yaml").write_text(example(), encoding="utf-8")
