"""A configuration object of Portkey's gateway, or the `conf.json` of its open-source server, as one of ours.

Field names are those of Portkey's documentation (portkey.ai/docs/api-reference/inference-api/config-object) and of its
server's `conf.example.json`; keys in camelCase and the older `mode` beside `options` are read, too. Each target is read as
LiteLLM's deployments are: behind each other where they are fallbacks, by their weights where they share requests.
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
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OF_OLD = {"options": "targets"}
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
_WHY_NOT_OF_SERVER = {
    "plugins_enabled": "`guardrails` allow, block or replace what is asked and answered",
    "credentials": "they are those of plugins; `guardrails` has the URL and the key of a server of yours",
    "rate_limits": "requests are limited for keys and tenants, not for engines: limits.requests",
    "usage_limits": "dollars and tokens are limited for keys and tenants, not for engines: limits.budgets",
}
_INTEGRATION_READ = {"provider", "slug", "credentials", "models", "name"}
_MODES = ("single", "fallback", "loadbalance", "conditional")


def is_portkey(data: Any) -> bool:
    """Whether this is a configuration object of Portkey, or its server's file."""
    if not isinstance(data, dict) or "model_list" in data:
        return False
    data = _snaked(data)
    if any(isinstance(data.get(name), list) for name in ("targets", "integrations", "plugins_enabled")):
        return True
    named = any(isinstance(data.get(name), str) for name in ("provider", "virtual_key"))
    return named and "providers" not in data


def imported(data: Fields, prices: Fields, report: Report) -> tuple[dict[str, Any], Made]:
    """Returns our settings, and the engines and models in them; without any where nothing can be served."""
    data = _snaked(data)
    if "integrations" in data or "plugins_enabled" in data:
        source, counted, entries = "integrations", "names of models", list(_integrations(data, report))
    else:
        found = list(_targets("config", data, {}, report))
        turns = sorted({turn for _, turn, _ in found})
        read_each = (_entry(where, fields, turns.index(turn), report) for where, turn, fields in found)
        source, counted, entries = "targets", "targets", [each for each in read_each if each is not None]
    read = Report(variables=report.variables, secrets=report.secrets)
    made = deployments(entries, None, read, prices)
    report.repeat(read, lambda where: _PLACE.sub(lambda at: f"target {int(at[1]) + 1}", where))
    asked = "whatever model is asked for" if _EVERY in made.models else "to the names of their models"
    report.take(source, f"{len(entries)} {counted} are {len(made.engines)} engines, which answer {asked}")
    report.change("health probes", "/healthz and /readyz in place of /v1/health")
    memory = {"data_dir": "./data", "exact": _exact(data, report), "examples": {"enabled": False}}
    models = {name: {"engines": engines} for name, engines in made.models.items()}
    return {"listen": {"port": 8787}, "engines": made.engines, "models": models, "memory": memory}, made


def _snaked(given: Any) -> Any:
    """The same with today's names in snake case; what `override_params` holds are fields of requests, and stay."""
    if isinstance(given, list):
        return [_snaked(each) for each in given]
    if not isinstance(given, dict):
        return given
    named = {_CAMEL.sub("_", str(key)).lower(): value for key, value in given.items()}
    named = {
        _OF_OLD.get(key, key): value if key == "override_params" else _snaked(value)
        for key, value in named.items()
    }
    if "targets" in named and isinstance(named.get("mode"), str):
        named.setdefault("strategy", {"mode": named.pop("mode")})
    return named


def _integrations(data: Fields, report: Report) -> Iterator[dict[str, Any]]:
    """What LiteLLM's `model_list` would have of the server's models: an entry by `@slug/model`, one by the model."""
    for name in sorted(data.keys() - {"integrations", "cache", "$schema"}):
        report.leave(name[:60], _WHY_NOT_OF_SERVER.get(name, "nothing here asks for it"))
    given = data.get("integrations")
    if not isinstance(given, list) or not given:
        report.leave(
            "integrations",
            "the file has none, since each request says its provider: import what clients send as x-portkey-config",
        )
        return
    for place, each in enumerate(given):
        where = f"integrations[{place}]"
        if not isinstance(each, dict):
            report.leave(where, f"it is {shown(each)}; a mapping is right")
            continue
        for name in sorted(each.keys() - _INTEGRATION_READ):
            report.leave(f"{where}.{name[:60]}", _WHY_NOT_OF_SERVER.get(name, "nothing here asks for it"))
        credentials = each.get("credentials")
        fields = {"provider": each.get("provider")} | (credentials if isinstance(credentials, dict) else {})
        models = each.get("models")
        for model in models if isinstance(models, list) and models else [{"slug": _EVERY}]:
            slug = model.get("slug") if isinstance(model, dict) else model
            if not isinstance(slug, str):
                report.leave(f"{where}.models", f"one is {shown(slug)}; a text is right")
                continue
            if isinstance(model, dict) and model.get("status", "active") != "active":
                report.leave(f"{where}.models", f"{str(slug)[:60]!r} is not active there")
                continue
            entry = _entry(where, fields | {"override_params": {"model": slug}}, 0, report)
            if entry is not None:
                for called in dict.fromkeys((slug, f"@{each.get('slug')}/{slug}")):
                    yield entry | {"model_name": called}


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
