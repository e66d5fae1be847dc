"""A Bifrost gateway's `config.json` as one of ours.

Field names are those of Bifrost's documentation (docs.getbifrost.ai/deployment-guides/config-json). Each key of a provider
is read as LiteLLM's deployments are, one for each model that it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from understudy.importing.litellm_deployments import Made, deployments
from understudy.importing.report import Report, shown

Fields = Mapping[str, Any]

_PROVIDERS = {"vertex": "vertex_ai", "vllm": "hosted_vllm", "sgl": "custom_openai"}
"""Names that LiteLLM has in another way."""
_WITH_PATH = ("azure", "gemini")
"""Whose base URLs are no OpenAI client's base without /v1."""
_EVERY = "*"
_PLACE = re.compile(r"^model_list\[\d+\] \((.*?)\)")
"""Where LiteLLM's reader found something; the model's name is what says it here."""
_NETWORK = {
    "base_url": "api_base",
    "default_request_timeout_in_seconds": "timeout",
    "max_retries": "max_retries",
    "extra_headers": "extra_headers",
}
_KEY_READ = {"id", "name", "value", "models", "weight", "aliases", "azure_key_config", "enabled"}
_PROVIDER_READ = {"keys", "network_config", "concurrency_and_buffer_size", "custom_provider_config"}
_WHY_NOT = {
    "governance": "virtual keys, teams and budgets are `keys` and `tenants` here, with limits.budgets",
    "client": "`listen`, `limits` and `memory` have what applies here",
    "config_store": "the configuration is this file; `understudy reload` takes a changed one",
    "logs_store": "requests are logged in memory.data_dir",
    "vector_store": "vectors are kept in memory.data_dir; similar questions are opt-in: memory.semantic_reuse",
    "mcp": "tools of workflows are `components`; MCP servers are not run here",
    "plugins": "`otel`, `guardrails` and `memory` have what applies here",
    "encryption_key": "no provider's key is stored: they are read from the environment",
}


def is_bifrost(data: Any) -> bool:
    """Whether this is a configuration of Bifrost."""
    return isinstance(data, dict) and isinstance(data.get("providers"), dict) and "model_list" not in data


def imported(data: Fields, prices: Fields, report: Report) -> tuple[dict[str, Any], Made]:
    """Returns our settings, and the engines and models in them; without any where nothing can be served."""
    providers = {str(name): provider for name, provider in data["providers"].items()}
    model_list = list(_deployments(providers, report))
    read = Report(variables=report.variables, secrets=report.secrets)
    made = deployments(model_list, None, read, prices)
    report.repeat(read, lambda where: _PLACE.sub(r"\1", where))
    for name in list(made.models):
        bare = name.partition("/")[2]
        if bare:
            made.models.setdefault(bare, list(made.models[name]))
    report.take(
        "providers",
        f"{len(data['providers'])} providers are {len(made.engines)} engines; each model is asked for with its provider "
        "before it, and without",
    )
    for section in data:
        if section not in ("providers", "$schema"):
            report.leave(
                str(section)[:80], _WHY_NOT.get(str(section), "nothing here does that, or it is not known")
            )
    report.change("health probes", "/healthz and /readyz in place of /health")
    memory = {"data_dir": "./data", "exact": {"enabled": False}, "examples": {"enabled": False}}
    models = {name: {"engines": engines} for name, engines in made.models.items()}
    return {"listen": {"port": 8080}, "engines": made.engines, "models": models, "memory": memory}, made


def _deployments(providers: Fields, report: Report) -> Iterator[dict[str, Any]]:
    """Yields what LiteLLM's `model_list` would have: an entry for each key and model."""
    every = [name for name, each in providers.items() if _serves_every(each)]
    for name, provider in providers.items():
        where = f"providers.{name[:60]}"
        if not isinstance(provider, dict) or not isinstance(provider.get("keys"), list):
            report.leave(where, f"it is {shown(provider)}; a mapping with a list of keys is right")
            continue
        left = [str(key)[:60] for key in provider if key not in _PROVIDER_READ]
        if left:
            report.leave(where, f"{', '.join(left)}: nothing here asks for it")
        shared = _shared(where, name, provider, report)
        for place, key in enumerate(provider["keys"]):
            at = f"{where}.keys[{place}]"
            if not isinstance(key, dict):
                report.leave(at, f"it is {shown(key)}; a mapping is right")
            elif not isinstance(key.get("models") or [], list):
                report.leave(f"{at}.models", f"it is {shown(key['models'])}; a list of models is right")
            elif key.get("enabled") is not False:
                yield from _of_key(at, name, key, shared, report, bare=every[:1] == [name])


def _of_key(
    where: str, provider: str, key: Fields, shared: Fields, report: Report, *, bare: bool
) -> Iterator[dict[str, Any]]:
    left = [str(name)[:60] for name in key if name not in _KEY_READ]
    if left:
        report.leave(where, f"{', '.join(left)}: nothing here asks for it")
    azure = key.get("azure_key_config")
    azure = azure if isinstance(azure, dict) else {}
    aliases = {**_texts(azure.get("deployments")), **_texts(key.get("aliases"))}
    named = [one for one in key.get("models") or [_EVERY] if isinstance(one, str)]
    params: dict[str, Any] = dict(shared)
    if key.get("value"):
        params["api_key"] = _value(key["value"])
    if isinstance(key.get("weight"), int | float):
        params["weight"] = key["weight"]
    if azure:
        params |= {"api_base": _value(azure.get("endpoint")), "api_version": _value(azure.get("api_version"))}
    known = _PROVIDERS.get(provider, provider)
    for model in dict.fromkeys([*(one for one in named if one != _EVERY), *aliases]):
        yield _entry(f"{provider}/{model}", known, aliases.get(model, model), params)
    if _EVERY in named and bare:
        report.change(
            f"{where}.models", f"clients ask for every other model without {provider}/ before its name"
        )
        yield _entry(_EVERY, known, _EVERY, params)
    elif _EVERY in named:
        report.leave(f"{where}.models", "name its models: what has no provider before it goes to another one")


def _entry(name: str, provider: str, model: str, params: Fields) -> dict[str, Any]:
    return {
        "model_name": name,
        "litellm_params": {**params, "model": f"{provider}/{model}", "custom_llm_provider": provider},
    }


def _shared(where: str, name: str, provider: Fields, report: Report) -> dict[str, Any]:
    """What all keys of a provider have in common, as LiteLLM's parameters."""
    found: dict[str, Any] = {}
    network = provider.get("network_config")
    for key, value in network.items() if isinstance(network, dict) else ():
        if key in _NETWORK:
            found[_NETWORK[key]] = value
        else:
            report.leave(f"{where}.network_config.{str(key)[:60]}", "the pause between tries grows by itself")
    base = found.get("api_base")
    if isinstance(base, str) and name not in _WITH_PATH and not base.rstrip("/").endswith("/v1"):
        found["api_base"] = base.rstrip("/") + "/v1"
    size = provider.get("concurrency_and_buffer_size")
    if isinstance(size, dict) and size.get("concurrency") is not None:
        found["max_parallel_requests"] = size["concurrency"]
    return found


def _serves_every(provider: Any) -> bool:
    keys = provider.get("keys") if isinstance(provider, dict) else None
    return any(
        isinstance(key, dict)
        and isinstance(key.get("models") or [], list)
        and _EVERY in (key.get("models") or [_EVERY])
        for key in (keys if isinstance(keys, list) else ())
    )


def _texts(given: Any) -> dict[str, str]:
    pairs = given.items() if isinstance(given, dict) else ()
    return {str(name): value for name, value in pairs if isinstance(value, str)}


def _value(given: Any) -> Any:
    """A value of Bifrost's, which may name an environment variable, as LiteLLM would write it."""
    if isinstance(given, str) and given.startswith("env."):
        return "os.environ/" + given.removeprefix("env.")
    return given
