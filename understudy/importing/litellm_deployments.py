"""LiteLLM's `model_list` as engines and models.

A deployment is one place where a model is; those of one `model_name` share its requests there. Here equal ones become the
base URLs of one engine, and different ones stand in for each other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.importing.litellm_providers import (
    NOT_SPOKEN,
    PROVIDERS,
    RERANKING,
    Provider,
    provider_and_model,
)
from understudy.importing.report import STANDS_AT, Report, shown
from understudy.settings.prices import LIST, PriceList, prices_file, read_prices

Fields = Mapping[str, Any]

_FROM_ENVIRONMENT = "os.environ/"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PER_MILLION = 1_000_000
_MOST_WEIGHT = 1000
_MOST_ATTEMPTS = 6
_PRICES = {
    "input_cost_per_token": ("input_usd_per_mtok", _PER_MILLION),
    "output_cost_per_token": ("output_usd_per_mtok", _PER_MILLION),
    "cache_read_input_token_cost": ("cached_input_usd_per_mtok", _PER_MILLION),
    "cache_creation_input_token_cost": ("cache_write_usd_per_mtok", _PER_MILLION),
    "cache_creation_input_token_cost_above_1hr": ("cache_write_1h_usd_per_mtok", _PER_MILLION),
    "output_cost_per_image": ("usd_per_image", 1),
    "input_cost_per_request": ("usd_per_request", 1),
}
_ADVANCED_PRICES = {
    "cache_write_usd_per_mtok",
    "cache_write_1h_usd_per_mtok",
    "usd_per_image",
    "usd_per_request",
}
_RERANK = "rerank"
_APIS = {
    "completion": ["completions"],
    "embedding": ["embeddings"],
    "image_generation": ["images"],
    "audio_transcription": ["audio"],
    "audio_speech": ["audio"],
    "moderation": ["moderations"],
    "moderations": ["moderations"],
    "responses": ["responses"],
    _RERANK: ["other"],
}
"""What `model_info.mode` says an engine is asked for; `chat`, and what is not named, leaves it open."""
_READ = {
    "model",
    "custom_llm_provider",
    "api_key",
    "api_base",
    "base_url",
    "api_version",
    "organization",
    "timeout",
    "stream_timeout",
    "max_retries",
    "num_retries",
    "rpm",
    "tpm",
    "weight",
    "order",
    "extra_headers",
    "headers",
    "region_name",
    "max_parallel_requests",
    "litellm_credential_name",
    *_PRICES,
}
_WHY_NOT = {
    "tags": "requests are not told apart by tags; give each tag a model name of its own",
    "max_budget": "dollars are limited for keys, tenants and end users, not for engines",
    "budget_duration": "dollars are limited for keys, tenants and end users, not for engines",
    "mock_response": "nothing is made up here",
    "drop_params": "requests go out as they came",
    "additional_drop_params": "requests go out as they came",
    "cooldown_time": "a circuit breaker stays open for engines.*.advanced.breaker_open_s",
    "use_in_pass_through": "what no model names goes to `upstream`",
    "litellm_system_prompt": "requests go out as they came",
}
_DEFAULT_WHY = "requests go out as they came: no field is added to them"
_ENDPOINT = re.compile(
    r"(/openai/deployments/[^/]+)?/(chat/completions|completions|embeddings|responses|messages|api/(chat|generate|embed))/?$"
    r"|/openai/deployments/[^/]+/?$"
)
_VERSION = re.compile(r"[?&]api-version=([\w-]+)")
_TAKEN = ("upstream", "student")
"""Names of engines of the gateway's own."""
_INFO_READ = {"mode", "max_input_tokens", *_PRICES}
_INFO_SAID = {"id", "base_model", "description", "created_at", "updated_at", "db_model"}
"""Of `model_info`, what changes no answer."""


@dataclass(slots=True)
class Made:
    """Engines and models, as the configuration will say them."""

    engines: dict[str, dict[str, Any]] = field(default_factory=dict)
    models: dict[str, list[str]] = field(default_factory=dict)
    """Engine names by model name, from the last stand-in to the one that is asked first."""

    @property
    def unpriced(self) -> list[str]:
        """Names of engines without a price."""
        return [name for name, engine in self.engines.items() if "price" not in engine]


@dataclass(slots=True)
class _Deployment:
    where: str
    name: str
    engine: dict[str, Any]
    order: float
    weight: float | None

    @property
    def same(self) -> str:
        """Equal for deployments that are replicas of each other."""
        return repr([(k, v) for k, v in sorted(self.engine.items()) if k not in ("base_url", "api_key")])


def deployments(model_list: Any, credentials: Any, report: Report, prices: Fields) -> Made:
    """Returns the engines and models of a `model_list`. What cannot be read is left out, and reported.

    `prices`: LiteLLM's price table, by model.
    """
    if not isinstance(model_list, list):
        report.leave("model_list", f"it is {shown(model_list)}; a list of models is right")
        return Made()
    known = _credentials(credentials, report)
    found: dict[str, list[_Deployment]] = {}
    price_list = read_prices(prices_file(None))
    for place, entry in enumerate(model_list):
        reader = _Reader(f"model_list[{place}]", report, known, prices, price_list)
        deployment = reader.deployment(entry)
        if deployment is not None:
            found.setdefault(deployment.name, []).append(deployment)
    made = Made()
    for name, of_name in found.items():
        _add(made, name, of_name, report)
    if by_list := [name for name, engine in made.engines.items() if engine.get("price") == LIST]:
        report.change(
            "prices",
            f"the file has none of {listed(by_list)}: list prices as known on {price_list.as_of} hold (price: list, which "
            "`understudy prices` shows), without any discount of yours",
        )
    if made.unpriced:
        report.leave(
            "prices",
            f"set engines.*.price of {listed(made.unpriced)}, or they are unpriced; --prices reads LiteLLM's table of them"
            " (model_prices_and_context_window.json)",
        )
    return made


class _Reader:
    """Reads one entry of the list."""

    def __init__(
        self,
        where: str,
        report: Report,
        credentials: Mapping[str, Fields],
        prices: Fields,
        price_list: PriceList,
    ) -> None:
        self.where = where
        self.report = report
        self.credentials = credentials
        self.prices = prices
        self.price_list = price_list

    def deployment(self, entry: Any) -> _Deployment | None:
        name = entry.get("model_name") if isinstance(entry, dict) else None
        params = entry.get("litellm_params") if isinstance(entry, dict) else None
        model = params.get("model") if isinstance(params, dict) else None
        if not (
            isinstance(name, str) and name and isinstance(model, str) and model and isinstance(params, dict)
        ):
            self.report.leave(self.where, "it has no model_name, or no litellm_params.model")
            return None
        self.where = f"{self.where} ({name[:60]})"
        params = self._with_credentials(params)
        info = entry.get("model_info")
        info = info if isinstance(info, dict) else {}
        custom = params.get("custom_llm_provider")
        provider_name, own_name, by_responses = provider_and_model(
            model, custom if isinstance(custom, str) else None
        )
        if info.get("mode") == _RERANK:
            # Cohere's OpenAI-compatible API has no reranking.
            provider_name = RERANKING.get(provider_name, provider_name)
            self.report.change(
                f"{self.where}.model_info.mode",
                "a request goes to its server as it came, below the same version: /rerank, /v1/rerank or /v2/rerank",
            )
        provider = self._provider(provider_name, own_name, params)
        if provider is None:
            return None
        if by_responses:
            self.report.change(
                f"{self.where}.model",
                "apis is [responses]: its requests go to it as they came, chat completions and Messages are translated",
            )
            info = {**info, "mode": "responses"}
        engine = self._engine(name, provider, own_name, params, info)
        if engine is None:
            return None
        self._tell_rest(params, info)
        weight = next(
            (w for key in ("weight", "rpm", "tpm") if (w := number(params.get(key))) is not None), None
        )
        return _Deployment(self.where, name, engine, number(params.get("order")) or 0.0, weight)

    def _with_credentials(self, params: Fields) -> Fields:
        named = params.get("litellm_credential_name")
        if named is None:
            return params
        if not isinstance(named, str) or named not in self.credentials:
            self.report.leave(
                f"{self.where}.litellm_credential_name", "credential_list has none of this name"
            )
            return params
        return {**self.credentials[named], **params}

    def _provider(self, name: str, own_name: str, params: Fields) -> Provider | None:
        if name in NOT_SPOKEN:
            self.report.leave(self.where, f"{name}: {NOT_SPOKEN[name]}")
            return None
        if name in PROVIDERS:
            return PROVIDERS[name]
        if params.get("api_base") or params.get("base_url"):
            # LiteLLM, too, takes what it does not know at an address of its own for OpenAI's API.
            return PROVIDERS["custom_openai"]
        said = (
            f"the provider of {own_name[:60]!r} is not known here"
            if not name
            else f"{name[:40]!r} is no provider known here"
        )
        self.report.leave(self.where, f"{said}, and there is no api_base: add an engine for it")
        return None

    def _engine(
        self, name: str, provider: Provider, own_name: str, params: Fields, info: Fields
    ) -> dict[str, Any] | None:
        base_url = self._base_url(provider, params)
        if base_url is None:
            self.report.leave(self.where, "it has no api_base, and its provider has no address of its own")
            return None
        engine: dict[str, Any] = {"kind": provider.kind, "base_url": base_url}
        key = self._key(provider, params)
        if key is not None:
            engine["api_key"] = key
        if "*" in own_name:
            if "/" in name or ("*" in name and own_name not in ("*", name)):
                self.report.leave(
                    self.where,
                    "its clients put the provider before the model's name, which no upstream knows: list the names, or name "
                    "the models as the provider does",
                )
                return None
        else:
            engine["model"] = own_name
        in_url = _VERSION.search(str(params.get("api_base") or params.get("base_url")))
        version = params.get("api_version") or (in_url and in_url[1])
        if provider.kind == "azure" and version is not None:
            engine["api_version"] = self._text(f"{self.where}.api_version", version)
        if (region := params.get("region_name")) is not None:
            engine["region"] = self._text(f"{self.where}.region_name", region) or ""
        names = info.get("base_model"), params.get("base_model"), params["model"], own_name
        listed = (self.prices[each] for each in names if isinstance(each, str) and each in self.prices)
        table = next((each for each in listed if isinstance(each, dict)), {})
        self._prices(engine, {**table, **info, **params})
        self._limits(engine, params, info)
        return engine

    def _base_url(self, provider: Provider, params: Fields) -> str | None:
        given = params.get("api_base") or params.get("base_url")
        if given is None:
            if provider.kind == "azure":
                return self._variable("AZURE_API_BASE", "as LiteLLM reads it")
            return provider.base_url
        text = self._text(f"{self.where}.api_base", given)
        if text is not None:
            text = self._without_endpoint(text)
        if provider.suffix and text is not None and not text.startswith("$"):
            text = text.rstrip("/")
            return text if text.endswith(provider.suffix) else text + provider.suffix
        return text

    def _without_endpoint(self, url: str) -> str:
        """A base URL of one that names an endpoint, or has a query."""
        base = _ENDPOINT.sub("", url.partition("?")[0].partition("#")[0])
        if base != url:
            self.report.change(
                f"{self.where}.api_base",
                f"the base URL is {base}: the endpoint and the query are not part of it",
            )
        return base

    def _key(self, provider: Provider, params: Fields) -> str | None:
        given = params.get("api_key")
        if given is not None:
            return self._secret(f"{self.where}.api_key", given, provider.key_variable or "ENGINE_API_KEY")
        if provider.key_variable is None:
            return "none"
        return self._variable(provider.key_variable, "as LiteLLM reads it where a model has no api_key")

    def _prices(self, engine: dict[str, Any], said: Fields) -> None:
        price: dict[str, Any] = {}
        for key, (name, factor) in _PRICES.items():
            if said.get(key) is None:
                continue
            dollars = number(said[key])
            if dollars is None:
                self.report.leave(f"{self.where}.{key}", f"{shown(said[key])} is no price")
                continue
            target = price.setdefault("advanced", {}) if name in _ADVANCED_PRICES else price
            target[name] = float(f"{dollars * factor:.10g}")
        if price:
            engine["price"] = price
        elif self.price_list.find(engine["kind"], engine["base_url"], engine.get("model", "")) is not None:
            engine["price"] = LIST

    def _limits(self, engine: dict[str, Any], params: Fields, info: Fields) -> None:
        advanced: dict[str, Any] = {}
        for key in ("max_retries", "num_retries", "max_parallel_requests", "weight", "order", "rpm", "tpm"):
            if params.get(key) is not None and number(params[key]) is None:
                self.report.leave(f"{self.where}.{key}", f"{shown(params[key])} is no number of at least 0")
        for key in ("extra_headers", "headers"):
            if params.get(key) is not None and not isinstance(params[key], dict):
                self.report.leave(f"{self.where}.{key}", f"it is {shown(params[key])}; a mapping is right")
        retries = number(params.get("max_retries"), params.get("num_retries"))
        if retries is not None:
            advanced["attempts"] = attempts(retries)
        for key, name in (("timeout", "answer_s"), ("stream_timeout", "first_data_s")):
            if params.get(key) is not None:
                if seconds := number(params[key]):
                    advanced[name] = seconds
                else:
                    self.report.leave(f"{self.where}.{key}", f"{shown(params[key])} is no number of seconds")
        headers = self._headers(params)
        if headers:
            advanced["headers"] = headers
        if context := number(info.get("max_input_tokens")):
            engine["context_tokens"] = int(context)
        if parallel := number(params.get("max_parallel_requests")):
            engine["max_in_flight"] = max(1, int(parallel))
        mode = info.get("mode")
        if isinstance(mode, str) and mode in _APIS:
            engine["apis"] = _APIS[mode]
        elif mode not in (None, "chat"):
            self.report.leave(f"{self.where}.model_info.mode", f"{shown(mode)} is not known here")
        if advanced:
            engine["advanced"] = advanced

    def _headers(self, params: Fields) -> dict[str, str]:
        headers = {}
        for key in ("extra_headers", "headers"):
            given = params.get(key)
            for name, value in given.items() if isinstance(given, dict) else ():
                variable = re.sub(r"\W", "_", f"HEADER_{name}").upper()
                headers[str(name)] = self._secret(f"{self.where}.{key}.{name}", value, variable)
        if (organization := params.get("organization")) is not None:
            text = self._text(f"{self.where}.organization", organization)
            if text is not None:
                headers["OpenAI-Organization"] = text
        return {name: value for name, value in headers.items() if value is not None}

    def _tell_rest(self, params: Fields, info: Fields) -> None:
        for key in params:
            if key not in _READ:
                self.report.leave(f"{self.where}.{str(key)[:60]}", _WHY_NOT.get(key, _DEFAULT_WHY))
        rates = [key for key in ("rpm", "tpm") if params.get(key) is not None]
        if rates:
            self.report.change(
                f"{self.where}.{','.join(rates)}",
                "a weight among equal deployments only: an engine's own 429 and rate-limit headers are heeded, and limits "
                "are of keys and tenants",
            )
        left = [str(key)[:60] for key in info if key not in _INFO_READ and key not in _INFO_SAID]
        if left:
            self.report.leave(f"{self.where}.model_info", f"{listed(left)}: nothing here asks for it")

    # ---- texts and secrets

    def _text(self, where: str, given: Any) -> str | None:
        """A text that is no secret, as it will stand in the configuration."""
        if not isinstance(given, str | int | float) or isinstance(given, bool):
            self.report.leave(where, f"it is {shown(given)}; a text is right")
            return None
        variable = variable_of(given)
        return self._variable(variable, "as before") if variable else escaped(str(given))

    def _secret(self, where: str, given: Any, variable: str) -> str | None:
        named = variable_of(given)
        if named:
            return self._variable(named, "as before")
        if not isinstance(given, str) or not given:
            self.report.leave(where, f"it is {shown(given)}; a text is right")
            return None
        if given.lower() in (
            "none",
            "empty",
            "fake",
            "fake-key",
            "not-needed",
            "dummy",
            "sk-1234",
            "anything",
        ):
            return "none"
        return secret_variable(where, given, variable, self.report)

    def _variable(self, name: str, source: str) -> str:
        self.report.variables.setdefault(name, source)
        return "${" + name + "}"


def secret_variable(where: str, secret: str, variable: str, report: Report) -> str:
    """A reference in the place of a secret that stands in the file itself: it is not copied."""
    taken, count = report.secrets.get(secret, variable), 2
    while secret not in report.secrets and taken in report.variables:
        taken, count = f"{variable}_{count}", count + 1
    report.secrets[secret] = taken
    report.variables.setdefault(taken, f"{STANDS_AT}{where} in the file")
    report.change(where, f"the secret stands in the file; it is not copied, and is read from ${{{taken}}}")
    return "${" + taken + "}"


def variable_of(given: Any) -> str:
    """The environment variable that a value of LiteLLM's names (`os.environ/NAME`); empty where it names none."""
    if not isinstance(given, str) or not given.startswith(_FROM_ENVIRONMENT):
        return ""
    name = given.removeprefix(_FROM_ENVIRONMENT)
    return name if _VARIABLE.fullmatch(name) else ""


def escaped(text: str) -> str:
    """A text that our own file reads as it stands: `${` would name a variable there."""
    return text.replace("${", "$ {")


def attempts(retries: float) -> int:
    """Tries of one request, of a number of retries after the first."""
    return max(1, min(_MOST_ATTEMPTS, int(min(retries, _MOST_ATTEMPTS)) + 1))


def number(*given: Any) -> float | None:
    """The first of these that is there, as a finite number of at least 0; None where it is none."""
    for value in given:
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        try:
            found = float(value)
        except (ValueError, OverflowError):
            return None
        if not math.isfinite(found) or found < 0:
            return None
        return int(found) if found.is_integer() and found < 2**53 else found
    return None


def _credentials(given: Any, report: Report) -> dict[str, Fields]:
    found: dict[str, Fields] = {}
    for entry in given if isinstance(given, list) else ():
        name = entry.get("credential_name") if isinstance(entry, dict) else None
        values = entry.get("credential_values") if isinstance(entry, dict) else None
        if isinstance(name, str) and isinstance(values, dict):
            found[name] = values
    if found:
        report.take("credential_list", f"{len(found)} credentials, where models name them")
    return found


def _add(made: Made, name: str, of_name: list[_Deployment], report: Report) -> None:
    groups: list[list[_Deployment]] = []
    for deployment in sorted(of_name, key=lambda one: one.order):
        same = (group for group in groups if _replicas(group, deployment))
        group = next(same, None)
        if group is None:
            groups.append([deployment])
        else:
            group.append(deployment)
    names = [_engine_for(made, name, place, group) for place, group in enumerate(groups)]
    chat = [twin for engine in names if (twin := _chat_twin(made, engine, report)) is not None]
    # The last is asked first.
    made.models[name] = [*reversed(chat), *reversed(list(dict.fromkeys(names)))]
    merged = sum(len(group) for group in groups if len(group) > 1)
    if merged:
        report.take(
            f"model {name[:60]}", f"{merged} equal deployments are base URLs of one engine, by their weights"
        )
    if len(groups) > 1:
        report.change(
            f"model {name[:60]}",
            f"its deployments differ, and do not share its requests: {names[0]!r} is asked, behind it {listed(names[1:])}",
        )


def _replicas(group: list[_Deployment], deployment: _Deployment) -> bool:
    """Whether a deployment differs from those of the group by its address, its key and its weight only."""
    same = (group[0].order, group[0].same) == (deployment.order, deployment.same)
    return same and all(one.engine["base_url"] != deployment.engine["base_url"] for one in group)


def _engine_for(made: Made, name: str, place: int, group: list[_Deployment]) -> str:
    engine = dict(group[0].engine)
    if len(group) > 1:
        weights = _weights(group)
        urls = []
        for deployment, weight in zip(group, weights, strict=True):
            one: dict[str, Any] = {"url": deployment.engine["base_url"], "weight": weight}
            if "api_key" in deployment.engine:
                one["api_key"] = deployment.engine["api_key"]
            urls.append(one)
        engine = {"kind": engine["kind"], "base_urls": urls} | {
            key: value for key, value in engine.items() if key not in ("kind", "base_url", "api_key")
        }
    for known, there in made.engines.items():
        if there == engine:
            return known
    wanted = re.sub(r"[^\w.@:+-]+", "-", name).strip("-") or "any-model"
    wanted = f"{wanted}-engine" if wanted in _TAKEN else wanted
    taken = wanted if place == 0 else f"{wanted}-{place + 1}"
    while taken in made.engines:
        place += 1
        taken = f"{wanted}-{place + 1}"
    made.engines[taken] = engine
    return taken


def _weights(group: list[_Deployment]) -> list[float]:
    given = [deployment.weight for deployment in group]
    if any(weight is None for weight in given) or not any(given):
        return [1] * len(group)
    most = max(weight for weight in given if weight is not None)
    factor = _MOST_WEIGHT / most if most > _MOST_WEIGHT else 1
    scaled = [float(f"{(weight or 0) * factor:.6g}") for weight in given]
    return [int(weight) if weight.is_integer() else weight for weight in scaled]


def _chat_twin(made: Made, name: str, report: Report) -> str | None:
    """An engine for chat completions beside one of kind anthropic, which speaks Messages only; its name."""
    engine = made.engines[name]
    if engine["kind"] != "anthropic":
        return None
    anthropic = PROVIDERS["anthropic"].base_url
    if engine.get("base_url", "").rstrip("/") not in (anthropic, str(anthropic).removesuffix("/v1")):
        report.change(
            f"engine {name}",
            "it is asked by the Messages API only, and requests of other APIs are translated to that: where its address "
            "takes chat completions, too, add an engine of kind openai",
        )
        return None
    twin = f"{name}-chat"
    report.change(
        f"engine {name}",
        f"Messages requests go to Anthropic's API, chat completions to its OpenAI-compatible endpoint, which is {twin}: two "
        "engines",
    )
    made.engines.setdefault(twin, engine | {"kind": "openai", "base_url": anthropic, "apis": ["chat"]})
    return twin


def listed(names: Iterable[str], most: int = 8) -> str:
    given = list(names)
    more = f" and {len(given) - most} more" if len(given) > most else ""
    return ", ".join(given[:most]) + more
