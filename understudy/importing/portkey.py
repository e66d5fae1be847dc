"""A configuration object of Portkey's gateway as one of ours.

Field names are those of Portkey's documentation (portkey.ai/docs/api-reference/inference-api/config-object). Each target is
read as LiteLLM's deployments are: behind each other where they are fallbacks, by their weights where they share requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from understudy.importing.litellm_deployments import Made, deployments, number
from understudy.importing.litellm_providers import NOT_SPOKEN, PROVIDERS
from understudy.importing.report import Report, shown

Fields = Mapping[str, Any]

_PROVIDERS = {
    "azure-openai": "azure",
    "google": "gemini",
    "vertex-ai": "vertex_ai",
    "together-ai": "together_ai",
    "fireworks-ai": "fireworks_ai",
    "mistral-ai": "mistral",
    "perplexity-ai": "perplexity",
    "x-ai": "xai",
    "jina": "jina_ai",
    "azure-ai": "azure_ai",
    "nvidia-nim": "nvidia_nim",
}
"""Names that LiteLLM has in another way."""
_EVERY = "*"
_PLACE = re.compile(r"^model_list\[(\d+)\] \(.*?\)")
"""Where LiteLLM's reader found something: the number is that of the target."""
_ALL = "strategy", "targets", "cache"
_PASSED_ON = {
    "api_key": "api_key",
    "custom_host": "api_base",
    "openai_organization": "organization",
    "azure_api_version": "api_version",
    "weight": "weight",
}
_READ = {
    *_ALL,
    *_PASSED_ON,
    "provider",
    "virtual_key",
    "override_params",
    "retry",
    "request_timeout",
    "azure_resource_name",
    "azure_deployment_id",
    "name",
    "index",
}
_WHY_NOT = {
    "input_guardrails": "`guardrails` allow, block or replace what is asked",
    "output_guardrails": "`guardrails` allow, block or replace what is answered",
    "before_request_hooks": "`guardrails` allow, block or replace what is asked",
    "after_request_hooks": "`guardrails` allow, block or replace what is answered",
    "strict_open_ai_compliance": "answers of providers are passed on as they came",
    "forward_headers": "clients' headers are passed on as they came",
}
_MODES = ("single", "fallback", "loadbalance", "conditional")


def is_portkey(data: Any) -> bool:
    """Whether this is a configuration object of Portkey."""
    if not isinstance(data, dict) or "model_list" in data:
        return False
    return isinstance(data.get("targets"), list) or (
        any(isinstance(data.get(name), str) for name in ("provider", "virtual_key"))
        and "providers" not in data
    )


def imported(data: Fields, prices: Fields, report: Report) -> tuple[dict[str, Any], Made]:
    """Returns our settings, and the engines and models in them; without any where nothing can be served."""
    found = list(_targets("config", data, {}, report))
    turns = sorted({turn for _, turn, _ in found})
    entries = [
        entry
        for where, turn, fields in found
        if (entry := _entry(where, fields, turns.index(turn), report)) is not None
    ]
    read = Report(variables=report.variables, secrets=report.secrets)
    made = deployments(entries, None, read, prices)
    report.repeat(read, lambda where: _PLACE.sub(lambda at: f"target {int(at[1]) + 1}", where))
    report.take(
        "targets",
        f"{len(found)} targets are {len(made.engines)} engines, which answer whatever model is asked for",
    )
    report.change("health probes", "/healthz and /readyz in place of /v1/health")
    memory = {"data_dir": "./data", "exact": _exact(data, report), "examples": {"enabled": False}}
    models = {name: {"engines": engines} for name, engines in made.models.items()}
    return {"listen": {"port": 8787}, "engines": made.engines, "models": models, "memory": memory}, made


def _targets(
    where: str, given: Any, above: Fields, report: Report
) -> Iterator[tuple[str, tuple[int, ...], dict[str, Any]]]:
    """Yields each target that asks a provider: its place in the file, its turn, and its fields with those around it.

    Targets with the same turn share requests; one with a later turn stands in for them.
    """
    if not isinstance(given, dict):
        report.leave(where, f"it is {shown(given)}; a mapping is right")
        return
    fields = {**above, **{name: value for name, value in given.items() if name not in _ALL}}
    targets = given.get("targets")
    if targets is None:
        yield where, (), fields
        return
    if not isinstance(targets, list):
        report.leave(f"{where}.targets", f"it is {shown(targets)}; a list is right")
        return
    mode = _mode(where, given, report)
    if mode == "conditional":
        targets = _default(where, given["strategy"], targets, report)
    if mode != "loadbalance":
        fields.pop("weight", None)
    for place, target in enumerate(targets):
        step = 0 if mode == "loadbalance" else place
        for at, turn, each in _targets(f"{where}.targets[{place}]", target, fields, report):
            yield at, (step, *turn), each


def _mode(where: str, given: Fields, report: Report) -> str:
    strategy = given.get("strategy")
    mode = strategy.get("mode") if isinstance(strategy, dict) else "single"
    if mode not in _MODES:
        report.leave(f"{where}.strategy.mode", f"{shown(mode)}; one of {', '.join(_MODES)} is right")
        return "fallback"
    if isinstance(strategy, dict) and strategy.get("on_status_codes"):
        report.change(
            f"{where}.strategy.on_status_codes",
            "another engine is asked after 429, 5xx, timeouts and broken connections",
        )
    return str(mode)


def _default(where: str, strategy: Fields, targets: list[Any], report: Report) -> list[Any]:
    """The targets of a condition, the one that is asked where none holds first."""
    report.leave(
        f"{where}.strategy.conditions",
        "requests are not told apart by conditions: its default is asked, and the others are behind it; give each a model "
        "name of its own",
    )
    name = strategy.get("default")
    return sorted(targets, key=lambda each: not (isinstance(each, dict) and each.get("name") == name))


def _entry(where: str, fields: Fields, turn: int, report: Report) -> dict[str, Any] | None:
    """What LiteLLM's `model_list` would have of a target; None where it names nobody."""
    params = {name: fields[key] for key, name in _PASSED_ON.items() if fields.get(key) is not None}
    provider, slug = _provider(fields)
    if not provider:
        report.leave(
            where, f"its provider is kept at Portkey behind {slug[:60]!r}: write `provider` beside it"
        )
        return None
    if slug and "api_key" not in params:
        variable = re.sub(r"\W+", "_", slug).strip("_").upper()
        params["api_key"] = f"os.environ/{variable}"
        report.change(where, f"the secret of {slug[:60]!r} is kept at Portkey: export it as {variable}")
    override = fields.get("override_params")
    override = dict(override) if isinstance(override, dict) else {}
    model = override.pop("model", None) or fields.get("azure_deployment_id") or _EVERY
    resource = fields.get("azure_resource_name")
    for name, value in (("override_params.model", model), ("azure_resource_name", resource)):
        if not isinstance(value, str | None):
            report.leave(f"{where}.{name}", f"it is {shown(value)}; a text is right")
            return None
    if override:
        report.leave(
            f"{where}.override_params", f"{', '.join(map(str, override))}: requests go out as they came"
        )
    if resource:
        params.setdefault("api_base", f"https://{resource}.openai.azure.com")
    if isinstance(retry := fields.get("retry"), dict) and retry.get("attempts") is not None:
        params["max_retries"] = retry["attempts"]
    if (timeout_ms := fields.get("request_timeout")) is not None:
        given_ms = number(timeout_ms)
        params["timeout"] = given_ms / 1000 if given_ms else timeout_ms
    for name in sorted(fields.keys() - _READ):
        report.leave(f"{where}.{name[:60]}", _WHY_NOT.get(name, "nothing here asks for it"))
    params |= {"model": f"{provider}/{model}", "custom_llm_provider": provider, "order": turn}
    return {"model_name": _EVERY, "litellm_params": params}


def _provider(fields: Fields) -> tuple[str, str]:
    """LiteLLM's name of the provider, empty where it is not said, and under which name Portkey keeps its key, if it does.

    A name that begins with a provider's, such as `openai-prod`, is taken for one of its keys.
    """
    said, slug = fields.get("provider"), fields.get("virtual_key")
    if isinstance(said, str) and said.startswith("@"):
        slug, said = said.removeprefix("@"), None
    slug = slug if isinstance(slug, str) else ""
    if isinstance(said, str):
        return _PROVIDERS.get(said, said), slug
    known = sorted({*_PROVIDERS, *PROVIDERS, *NOT_SPOKEN}, key=len, reverse=True)
    found = next((name for name in known if re.match(rf"{re.escape(name)}\b", slug)), "")
    return _PROVIDERS.get(found, found), slug


def _exact(data: Fields, report: Report) -> dict[str, Any]:
    """The exact cache, where the whole configuration has one."""
    cache = data.get("cache")
    if not isinstance(cache, dict):
        return {"enabled": False}
    if cache.get("mode") == "semantic":
        report.change("config.cache", "exact repeats are answered from memory; similar ones are opt-in")
    else:
        report.take("config.cache", "exact repeats are answered from memory")
    age_s = number(cache.get("max_age"))
    return {"enabled": True} | ({"ttl_s": age_s} if age_s else {})
