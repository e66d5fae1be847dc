"""A LiteLLM proxy's configuration (`litellm --config config.yaml`) as one of ours.

Field names are those of LiteLLM's documentation (docs.litellm.ai/docs/proxy/config_settings). What has no counterpart is
left out and said so; no secret that stands in the file is copied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from understudy.importing import bifrost, portkey
from understudy.importing.bounded_yaml import read_bounded
from understudy.importing.litellm_deployments import (
    Made,
    attempts,
    deployments,
    listed,
    number,
    secret_variable,
    variable_of,
)
from understudy.importing.report import Report, shown

Fields = Mapping[str, Any]

KEY_NAME = "litellm-master"
_PORT = 4000
"""LiteLLM's own, so that clients find the same port."""
_LEAST_SECRET = 16
_DAY_S = 86_400
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SPAN = re.compile(r"(\d+)\s*(s|m|h|d|w|mo)")
_SPAN_S = {"s": 1, "m": 60, "h": 3600, "d": _DAY_S, "w": 7 * _DAY_S, "mo": 30 * _DAY_S}
_PERIODS = {_DAY_S: "day", 7 * _DAY_S: "week", 30 * _DAY_S: "month"}

_SECTIONS = ("model_list", "credential_list", "router_settings", "litellm_settings", "general_settings")
_WHY_NOT = {
    "environment_variables": "its values are not copied: export them where the gateway runs",
    "include": "import the files that it names one by one, or put them into one file",
    "guardrails": "a server that allows, blocks or replaces is a guardrail here, too: `guardrails`",
    "mcp_servers": "tools of workflows are `components`; MCP servers are not run here",
    "vector_store_registry": "collections of texts belong to workflows here",
    "search_tools": "a search is a component here",
    "callback_settings": "where telemetry goes is `otel`",
    "router_settings.routing_strategy_args": "there is nothing to set about how a base URL is chosen",
    "router_settings.redis_host": "counters are kept in memory.data_dir, which all workers of a machine share",
    "router_settings.redis_port": "counters are kept in memory.data_dir",
    "router_settings.redis_password": "counters are kept in memory.data_dir",
    "router_settings.redis_url": "counters are kept in memory.data_dir",
    "router_settings.retry_policy": "what is tried again is decided by the kind of failure: docs/explanation/engines.md",
    "router_settings.allowed_fails_policy": "the circuit breaker counts failures of every kind",
    "router_settings.enable_pre_call_checks": "a request that is too long goes to models.*.larger_context",
    "router_settings.optional_pre_call_checks": "prefix caches and sessions are followed by themselves",
    "router_settings.enable_tag_filtering": "requests are not told apart by tags: give each a model name of its own",
    "router_settings.tag_filtering_match_any": "requests are not told apart by tags",
    "router_settings.content_policy_fallbacks": "a refusal is an answer here, and is passed on",
    "router_settings.retry_after": "Retry-After of the engine is heeded, else the pause grows by itself",
    "router_settings.disable_cooldowns": "engines.*.advanced.breaker_failures sets how late the breaker opens",
    "router_settings.provider_budget_config": "dollars are limited for keys, tenants and end users, not for engines",
    "litellm_settings.drop_params": "requests go out as they came; an engine that refuses one says so",
    "litellm_settings.modify_params": "requests go out as they came",
    "litellm_settings.content_policy_fallbacks": "a refusal is an answer here, and is passed on",
    "litellm_settings.default_team_settings": "`understudy tenants create` makes each tenant with its own limits",
    "litellm_settings.default_internal_user_params": "users of a UI have no keys of their own: `understudy keys create`",
    "litellm_settings.upperbound_key_generate_params": "keys are made by operators: `understudy keys create`",
    "litellm_settings.key_generation_settings": "keys are made by operators: `understudy keys create`",
    "litellm_settings.service_callback": "the gateway's own series are on /metrics",
    "litellm_settings.service_callbacks": "the gateway's own series are on /metrics",
    "litellm_settings.json_logs": "the log is lines of JSON by itself",
    "litellm_settings.force_ipv4": "names are resolved by the system",
    "litellm_settings.ssl_verify": "certificates are always checked",
    "litellm_settings.guardrails": "a server that allows, blocks or replaces is a guardrail here, too: `guardrails`",
    "general_settings.database_url": "everything is in memory.data_dir, or where memory.database_url says. Keys of "
    "LiteLLM's database: `understudy keys create --secret-stdin` keeps what clients send",
    "general_settings.database_connection_pool_limit": "LiteLLM's database is not used",
    "general_settings.database_connection_timeout": "LiteLLM's database is not used",
    "general_settings.allow_requests_on_db_unavailable": "keys are known in memory; limits.when_blind says what holds then",
    "general_settings.store_model_in_db": "the configuration is this file; `understudy reload` takes a changed one",
    "general_settings.proxy_batch_write_at": "rows are written as requests end",
    "general_settings.disable_spend_logs": "memory.log_requests",
    "general_settings.alerting": (
        "`webhooks` tell of budgets, engines, disk and keys: each has a url, and shape slack, teams or pagerduty"
    ),
    "general_settings.alerting_threshold": "`webhooks` tell of engines that are down; Prometheus of slow ones",
    "general_settings.alert_types": "`webhooks.events` names them",
    "general_settings.alert_to_webhook_url": "`webhooks` have a URL each",
    "general_settings.custom_auth": "clients are known by the gateway's own keys",
    "general_settings.enable_jwt_auth": "clients are known by the gateway's own keys; admins may sign in by OpenID Connect",
    "general_settings.litellm_jwtauth": "clients are known by the gateway's own keys",
    "general_settings.allowed_routes": "limits.endpoints of a key says what it may use",
    "general_settings.pass_through_endpoints": "what no model names goes to `upstream`, and to nobody else",
    "general_settings.key_management_system": "secrets are read from the environment",
    "general_settings.key_management_settings": "secrets are read from the environment",
    "general_settings.global_max_parallel_requests": "limits.concurrency of a key or tenant",
    "general_settings.completion_model": "a request names its model",
    "general_settings.infer_model_from_keys": "models are what model_list names",
    "general_settings.ui_access_mode": "the admin pages have accounts and roles of their own",
    "general_settings.background_health_checks": "engines are probed while they are silent: health.every_s",
}
_DEFAULT_WHY = "nothing here does that, or it is not known"
_SEMANTIC = "semantic"
_EVERY = "*"
"""What fallbacks call every model that has none of its own."""


_OTHERS = ((bifrost.is_bifrost, bifrost.imported), (portkey.is_portkey, portkey.imported))
"""Gateways whose configuration is read as LiteLLM's, by what tells it."""


class NotLiteLLM(Exception):
    """The text is no LiteLLM configuration. Says why, for a person."""


def imported(text: str, prices: Fields = MappingProxyType({})) -> tuple[dict[str, Any], Report]:
    """Returns our settings, and what became of theirs; `prices` is LiteLLM's price table, by model.

    Raises NotLiteLLM, bounded_yaml.TooMuch and yaml.YAMLError.
    """
    data = read_bounded(text)
    of_another = next((each for is_its, each in _OTHERS if is_its(data)), None)
    if of_another is not None:
        report = Report()
        config, made = of_another(data, prices, report)
        if not made.models:
            raise NotLiteLLM(_nothing_served(report))
        return config, _with_variables(config, report)
    if not isinstance(data, dict) or not isinstance(data.get("model_list"), list):
        raise NotLiteLLM(
            "it has no model_list, which every LiteLLM configuration has, no providers, which every one of Bifrost has, and "
            "neither targets nor a provider, of which Portkey's have one"
        )
    return _Import(data, prices).done()


def _nothing_served(report: Report) -> str:
    why = "; ".join(dict.fromkeys(note.text for note in report.left_out))
    return f"none of its models can be served here: {why}"


def _with_variables(config: dict[str, Any], report: Report) -> Report:
    """Keeps the variables that the configuration reads."""
    read = set(_REFERENCE.findall(str(config)))
    report.variables = {name: said for name, said in report.variables.items() if name in read}
    return report


class _Import:
    def __init__(self, data: Fields, prices: Fields) -> None:
        self.data = data
        self.prices = prices
        self.report = Report()
        self.config: dict[str, Any] = {}
        self.key: dict[str, Any] | None = None
        self.made = Made()

    def done(self) -> tuple[dict[str, Any], Report]:
        report = self.report
        self.made = deployments(
            self.data["model_list"], self.data.get("credential_list"), report, self.prices
        )
        if not self.made.models:
            raise NotLiteLLM(_nothing_served(report))
        counted = len(self.data["model_list"])
        report.take(
            "model_list",
            f"{counted} entries are {len(self.made.engines)} engines and {len(self.made.models)} models",
        )
        self._listen()
        self.config["memory"] = {
            "data_dir": "./data",
            "exact": {"enabled": False},
            "examples": {"enabled": False},
        }
        for section in ("router_settings", "litellm_settings", "general_settings"):
            given = self.data.get(section)
            for name, value in given.items() if isinstance(given, dict) else ():
                self._setting(section, str(name)[:80], value)
            if given is not None and not isinstance(given, dict):
                report.leave(section, f"it is {shown(given)}; a mapping is right")
        for section in self.data:
            # Those with x- hold anchors for others.
            if section not in _SECTIONS and not str(section).startswith("x-"):
                report.leave(str(section)[:80], _WHY_NOT.get(str(section), _DEFAULT_WHY))
        config = self._config()
        return config, _with_variables(config, report)

    def _config(self) -> dict[str, Any]:
        made, config = self.made, self.config
        larger = config.pop("_larger", {})
        models = {
            name: {"engines": engines} | ({"larger_context": larger[name]} if name in larger else {})
            for name, engines in made.models.items()
        }
        self._allow_unpriced()
        if self.key is not None:
            config["keys"] = {KEY_NAME: self.key}
        if not config["memory"]["exact"]["enabled"]:
            self.report.leave(
                "memory",
                "nothing is repeated and no examples are used, as with LiteLLM: memory.exact and "
                "memory.examples turn both on",
            )
        return {"listen": config.pop("listen"), "engines": made.engines, "models": models, **config}

    def _allow_unpriced(self) -> None:
        """Let budgets pass what has no price, which counts nothing, as with LiteLLM: they would refuse it."""
        tenant = self.config.get("tenants", {}).get("default", {})
        if not tenant or not self.made.unpriced:
            return
        for limits in tenant.values():
            limits["allow_unpriced"] = True
        self.report.change(
            "budgets",
            f"allow_unpriced is true, so that {listed(self.made.unpriced)} can be asked; without a price their answers "
            "count nothing against a budget: import again with --prices, or set engines.*.price and take it away",
        )

    def _listen(self) -> None:
        self.config["listen"] = {"port": _PORT, "advanced": {"prefixes": ["/v1", "/"]}}
        self.report.change(
            "listen",
            f"port {_PORT} and paths without /v1, as with LiteLLM, but on this machine's own address: set listen.host to "
            "let others in",
        )
        self.report.change(
            "health probes",
            "/healthz in place of /health/liveliness and /health/liveness, /readyz in place of /health/readiness",
        )

    # ---- settings, one by one

    def _setting(self, section: str, name: str, value: Any) -> None:
        where = f"{section}.{name}"
        read = getattr(self, f"_read_{name}", None) if name.isidentifier() else None
        if value is None or value == {} or value == []:
            return
        if read is not None:
            read(where, value)
        else:
            self.report.leave(where, _WHY_NOT.get(where, _DEFAULT_WHY))

    def _number(self, where: str, value: Any) -> float | None:
        found = number(value)
        if found is None:
            self.report.leave(where, f"{shown(value)} is no number of at least 0")
        return found

    def _is_true(self, where: str, value: Any) -> bool:
        """Whether it is turned on. What is neither true nor false is named; LiteLLM does not take it for true, either."""
        if not isinstance(value, bool):
            self.report.leave(where, f"it is {shown(value)}; true or false, without quotes, is right")
        return value is True

    def _every_engine(self, where: str, name: str, value: Any) -> None:
        for engine in self.made.engines.values():
            engine.setdefault("advanced", {}).setdefault(name, value)
        self.report.take(where, f"engines.*.advanced.{name} is {value:g}")

    def _read_num_retries(self, where: str, value: Any) -> None:
        if (retries := self._number(where, value)) is not None:
            self._every_engine(where, "attempts", attempts(retries))

    def _read_timeout(self, where: str, value: Any) -> None:
        if seconds := self._number(where, value):
            self._every_engine(where, "answer_s", seconds)

    _read_request_timeout = _read_timeout

    def _read_stream_timeout(self, where: str, value: Any) -> None:
        if seconds := self._number(where, value):
            self._every_engine(where, "first_data_s", seconds)

    def _read_allowed_fails(self, where: str, value: Any) -> None:
        if (failures := self._number(where, value)) is not None:
            self._every_engine(where, "breaker_failures", int(failures) + 1)

    def _read_cooldown_time(self, where: str, value: Any) -> None:
        if seconds := self._number(where, value):
            self._every_engine(where, "breaker_open_s", seconds)

    def _read_routing_strategy(self, where: str, value: Any) -> None:
        if value in ("simple-shuffle", "simple_shuffle"):
            self.report.take(where, "base URLs of one engine share its requests by their weights")
        else:
            self.report.change(
                where,
                "base URLs of one engine share its requests by weight, load and what their prefix caches hold",
            )

    def _read_fallbacks(self, where: str, value: Any) -> None:
        for said, others in self._lists(where, value):
            behind = [engine for other in others for engine in reversed(self.made.models.get(other, ()))]
            unknown = [other for other in others if other not in self.made.models]
            if unknown:
                self.report.leave(f"{where}.{said}", f"{', '.join(unknown)[:200]}: no such model was taken")
            names = list(self.made.models) if said == _EVERY else [said]
            for name in names if behind else ():
                self._put_behind(f"{where}.{said}", name, behind)

    def _read_default_fallbacks(self, where: str, value: Any) -> None:
        self._read_fallbacks(where, [{_EVERY: value}])

    def _put_behind(self, where: str, name: str, behind: list[str]) -> None:
        if name not in self.made.models:
            self.report.leave(where, "no such model was taken")
            return
        own = self.made.models[name]
        added = [engine for engine in dict.fromkeys(behind) if engine not in own]
        self.made.models[name] = [*reversed(added), *own]
        self.report.take(
            where, f"behind the engines of {name}, in this order: {', '.join(added) or 'nobody else'}"
        )

    def _read_context_window_fallbacks(self, where: str, value: Any) -> None:
        for name, others in self._lists(where, value):
            larger = next(
                (self.made.models[other][-1] for other in others if other in self.made.models), None
            )
            if name in self.made.models and larger is not None:
                self.config.setdefault("_larger", {})[name] = larger
                self.report.take(f"{where}.{name}", f"models.*.larger_context is {larger}")
            else:
                self.report.leave(f"{where}.{name}", "no such model was taken")

    def _lists(self, where: str, value: Any) -> list[tuple[str, list[str]]]:
        found = []
        for entry in value if isinstance(value, list) else ():
            for name, others in entry.items() if isinstance(entry, dict) else ():
                if isinstance(name, str) and isinstance(others, list):
                    found.append((name, [other for other in others if isinstance(other, str)]))
        if not found:
            self.report.leave(where, "a list such as [{gpt-4o: [gpt-4o-mini]}] is right")
        return found

    def _read_model_group_alias(self, where: str, value: Any) -> None:
        for alias, meant in value.items() if isinstance(value, dict) else ():
            name = meant.get("model") if isinstance(meant, dict) else meant
            if isinstance(alias, str) and isinstance(name, str) and name in self.made.models:
                self.made.models.setdefault(alias, list(self.made.models[name]))
                self.report.take(f"{where}.{alias[:60]}", f"a model with the engines of {name}")
            else:
                self.report.leave(f"{where}.{str(alias)[:60]}", "no such model was taken")

    def _read_cache(self, where: str, value: Any) -> None:
        if not self._is_true(where, value):
            return
        params = self.data["litellm_settings"].get("cache_params")
        if isinstance(params, dict) and params.get("mode") == "default_off":
            self.report.leave(
                where, "it is off unless a request asks for it, which none can here: memory.exact.enabled"
            )
            return
        # LiteLLM repeats answers whatever their temperature.
        self.config["memory"]["exact"] |= {"enabled": True, "sampled": True}
        self.report.take(
            where, "memory.exact, on disk, shared by the workers; sampled answers are repeated, too, as there"
        )

    def _read_cache_params(self, where: str, value: Any) -> None:
        if not isinstance(value, dict):
            self.report.leave(where, f"it is {shown(value)}; a mapping is right")
            return
        if (ttl_s := number(value.get("ttl"))) and self.data["litellm_settings"].get("cache") is True:
            self.config["memory"]["exact"]["ttl_s"] = ttl_s
            self.report.take(f"{where}.ttl", f"memory.exact.ttl_s is {ttl_s:g}")
        if _SEMANTIC in str(value.get("type")):
            self.report.change(
                f"{where}.type",
                "only the very same request is answered from the cache; similar questions are opt-in for each key, within a "
                "bound on wrong ones: memory.semantic_reuse",
            )
        left = [str(name)[:60] for name in value if name not in ("ttl", "type", "mode")]
        if left:
            self.report.leave(where, f"{', '.join(left[:12])}: answers are kept in memory.data_dir")

    def _read_success_callback(self, where: str, value: Any) -> None:
        for name in value if isinstance(value, list) else [value]:
            if name == "prometheus":
                self.report.take(
                    where, "prometheus: /metrics, with a dashboard for Grafana in deploy/grafana"
                )
            elif name == "otel":
                variable = "OTEL_EXPORTER_OTLP_ENDPOINT"
                self.config["otel"] = {"endpoint": "${" + variable + ":-http://127.0.0.1:4318}"}
                self.report.change(
                    where,
                    f"otel: otel.endpoint is ${{{variable}}}, a base URL without /v1/traces (OTLP over HTTP)",
                )
            elif name == "langfuse":
                self.report.leave(
                    where,
                    "langfuse: it takes OpenTelemetry: set otel.endpoint to https://HOST/api/public/otel, and otel.headers",
                )
            else:
                self.report.leave(
                    where,
                    f"{str(name)[:60]}: metrics, spans, webhooks and `understudy export requests` tell others",
                )

    _read_failure_callback = _read_callbacks = _read_success_callback

    def _read_set_verbose(self, where: str, value: Any) -> None:
        if self._is_true(where, value):
            self.config["log"] = {"level": "debug"}
            self.report.take(where, "log.level is debug")

    def _read_turn_off_message_logging(self, where: str, value: Any) -> None:
        if self._is_true(where, value):
            self.config["memory"]["request_texts"] = {"enabled": False}
            self.report.take(
                where, "memory.request_texts.enabled is false, and otel.content is off by itself"
            )

    def _read_max_budget(self, where: str, value: Any) -> None:
        settings = self.data["litellm_settings"]
        usd = self._number(where, value)
        span_s = _seconds(settings.get("budget_duration", "30d"))
        per = _PERIODS.get(span_s or 0)
        if not usd or per is None:
            self.report.leave(
                where, "budgets are per day, week, month or in total: limits.budgets of keys and tenants"
            )
            return
        self.config.setdefault("tenants", {})["default"] = {"limits": {"budgets": [{"usd": usd, "per": per}]}}
        self.report.change(
            where,
            f"{usd:g} dollars per calendar {per}, of tenant 'default', whose key is the former master key",
        )

    def _read_budget_duration(self, where: str, value: Any) -> None:
        if "max_budget" not in self.data["litellm_settings"]:
            self.report.leave(where, "there is no max_budget")

    def _read_max_end_user_budget(self, where: str, value: Any) -> None:
        if usd := self._number(where, value):
            tenant = self.config.setdefault("tenants", {}).setdefault("default", {})
            tenant["each_user"] = {"budgets": [{"usd": usd, "per": "total"}]}
            self.report.take(where, "each_user.budgets of tenant 'default', in total")

    def _read_master_key(self, where: str, value: Any) -> None:
        variable = variable_of(value)
        if variable:
            self.report.variables.setdefault(variable, f"as before; at least {_LEAST_SECRET} characters")
            reference = "${" + variable + "}"
        elif isinstance(value, str) and len(value) >= _LEAST_SECRET:
            reference = secret_variable(where, value, "LITELLM_MASTER_KEY", self.report)
        else:
            self.report.leave(
                where, f"a key has at least {_LEAST_SECRET} characters: `understudy keys create` makes one"
            )
            return
        self.key = {"secret": reference, "tenant": "default"}
        self.report.change(
            where,
            f"keys.{KEY_NAME}: clients may go on sending it, but it administers nothing: `understudy keys create` makes keys"
            ", `understudy admin token create` opens the admin API",
        )

    def _read_max_parallel_requests(self, where: str, value: Any) -> None:
        if most := self._number(where, value):
            for engine in self.made.engines.values():
                engine.setdefault("max_in_flight", max(1, int(most)))
            self.report.take(where, f"engines.*.max_in_flight is {int(most)}")

    def _read_health_check_interval(self, where: str, value: Any) -> None:
        if seconds := self._number(where, value):
            self.config["health"] = {"every_s": max(1, seconds)}
            self.report.take(where, f"health.every_s is {max(1, seconds):g}")

    def _read_max_request_size_mb(self, where: str, value: Any) -> None:
        if megabytes := self._number(where, value):
            self.config["listen"]["advanced"]["max_body_mib"] = megabytes
            self.report.take(where, f"listen.advanced.max_body_mib is {megabytes:g}")

    def _read_enforce_user_param(self, where: str, value: Any) -> None:
        if self._is_true(where, value):
            self.config.setdefault("users", {})["required"] = True
            self.report.take(where, "users.required")

    def _read_user_header_name(self, where: str, value: Any) -> None:
        if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)+", value):
            self.config.setdefault("users", {})["from"] = [value.lower(), "safety_identifier", "user"]
            self.report.take(where, f"users.from begins with {value.lower()}")
        else:
            self.report.leave(where, "a header with a hyphen in its name is right")

    def _read_store_prompts_in_spend_logs(self, where: str, value: Any) -> None:
        self.config["memory"]["request_texts"] = {"enabled": self._is_true(where, value)}
        self.report.take(where, f"memory.request_texts.enabled is {shown(value is True)}")

    def _read_maximum_spend_logs_retention_period(self, where: str, value: Any) -> None:
        seconds = _seconds(value)
        if seconds:
            self.config["retention"] = {"rows_days": seconds / _DAY_S}
            self.report.take(where, f"retention.rows_days is {seconds / _DAY_S:g}")
        else:
            self.report.leave(where, "a span such as 30d is right")


def _seconds(value: Any) -> int | None:
    """A span such as `30d`; a number alone is seconds."""
    match = _SPAN.fullmatch(str(value).strip()) if not isinstance(value, bool) else None
    if match is not None:
        return int(match[1][:9]) * _SPAN_S[match[2]]
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
