"""From the settings to the engines: the only file that names their classes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypedDict

import structlog
from yarl import URL

from engines.anthropic_http import AnthropicHTTP
from engines.apis import Api
from engines.azure_http import AzureHTTP
from engines.cascade import Cascade
from engines.engine import Engine, EngineInfo, Price
from engines.openai_http import OpenAIHTTP
from engines.proxies import proxy_for
from engines.servers.breaker import Breaker
from engines.servers.limits import Credentials
from engines.servers.server import Limits, Server
from engines.servers.servers import Servers
from engines.student import STUDENT, StudentEngine
from engines.tells_usage import TellsUsage
from engines.timeouts import Timeouts
from engines.translating import Translating, native_to
from engines.vllm_dialect import Dialect, Priorities
from engines.vllm_server import VLLMServer
from learning.outcomes.equal import same
from router.model_names import ByModelName
from understudy.cannot_start import CannotStart
from understudy.settings.client_key import own_key, same_origin, takes_client_key
from understudy.settings.config import AnyEngine, Config
from understudy.settings.engines import (
    AnthropicEngine,
    AzureEngine,
    HTTPEngine,
    OpenAIEngine,
    PriceSettings,
    TenantSettings,
    VLLMEngine,
    VLLMLocalEngine,
)
from understudy.settings.knobs import knobs_of
from understudy.settings.upstream import Upstream

if TYPE_CHECKING:
    from simulation.world import World

log = structlog.get_logger(__name__)
_LEVELS = logging.getLevelNamesMapping()

_HOSTED_CACHE_TTL_S = 300.0
"""Of the caches of Anthropic, OpenAI and Azure: five minutes after their last use, or more."""
UPSTREAM = "upstream"
"""The default upstream's name among the engines."""


class OverHTTP(TypedDict):
    """How an upstream is asked, as the engines' constructors name it."""

    authorization: str | None
    forwards_credentials: bool
    credential_headers: tuple[str, ...]
    extra_headers: dict[str, str]
    timeouts: Timeouts
    proxy: URL | None


@dataclass(frozen=True, slots=True)
class Tenants:
    """What engines need to keep tenants apart."""

    secret: bytes
    """Their salts hang on it."""
    named: Callable[[str], str] = str
    """A tenant's id by its name."""

    def priorities(self, by_name: Mapping[str, int]) -> dict[str, int]:
        """The same by id; `id:HEX` is one already."""
        return {n[3:] if n.startswith("id:") else self.named(n): value for n, value in by_name.items()}


def engines(config: Config, tenants: Tenants) -> dict[str, Engine]:
    """Build every configured engine by name, each over its servers, and that of students. Raises EngineMissing."""
    found: dict[str, Engine] = {
        name: _servers(name, settings, tenants, config) for name, settings in config.engines.items()
    }
    if any(model.may_have_tasks for model in config.models.values()):
        # Over no server: that it has no prediction is no reason to ask it less.
        found.setdefault(STUDENT, StudentEngine())
    return found


def cascades(config: Config, engines: Mapping[str, Engine]) -> dict[str, Engine]:
    """Every model's cascade by its name, over the engines that it asks. Of the same engines the shorter wait counts."""
    models = sorted(
        (model for model in config.models.values() if model.cascade),
        key=lambda model: -model.advanced.cascade_wait_s,
    )
    return {
        model.agreement: Cascade(
            model.agreement,
            [engines[name] for name in model.cascade[:-1]],
            same,
            model.advanced.cascade_wait_s,
        )
        for model in models
    }


def own_keys(config: Config, tenants: Tenants) -> dict[str, str]:
    """Keys of their own that tenants have upstream, by the tenants' ids."""
    return {
        tenants.named(name): settings.upstream_key.get_secret_value()
        for name, settings in config.tenants.items()
        if settings.upstream_key is not None
    }


def headers_of_own_keys(config: Config, settings: HTTPEngine | Upstream, tenants: Tenants) -> dict[str, str]:
    """The same, each as the header has it that it is sent in."""
    return {tenant: _credential(settings, key) for tenant, key in own_keys(config, tenants).items()}


def keys_of(config: Config) -> tuple[str, ...]:
    """What engines are sent that nobody may read in their errors."""
    over_http = [engine for engine in config.engines.values() if isinstance(engine, HTTPEngine)]
    values = [value for engine in over_http for value in engine.advanced.headers.values()]
    servers = [server for engine in over_http for server in engine.servers.values()]
    keys = [key for server in servers if (key := own_key(server)) is not None]
    own = [
        tenant.upstream_key.get_secret_value() for tenant in config.tenants.values() if tenant.upstream_key
    ]
    return (*keys, *own, *(value.get_secret_value() for value in values))


def price_of(settings: PriceSettings) -> Price:
    """A price as it is configured."""
    rare = settings.advanced
    return Price(
        **settings.model_dump(exclude={"advanced"}),
        **rare.model_dump(exclude={"service_tiers"}),
        service_tiers=tuple(sorted(rare.service_tiers.items())),
    )


class EngineMissing(CannotStart):
    """What an engine stands on is not installed. The text says what to do about it."""


def tells_tenants_apart(config: Config) -> bool:
    """Whether some engine treats tenants differently."""
    return any(isinstance(engine, TenantSettings) for engine in config.engines.values())


def _servers(name: str, settings: AnyEngine, tenants: Tenants, config: Config) -> Servers:
    if not isinstance(settings, HTTPEngine) or settings.base_urls is None:
        return Servers([_server(name, settings, tenants, config)])
    servers: Mapping[str, OpenAIEngine | AnthropicEngine | AzureEngine | VLLMEngine] = settings.servers
    found = []
    for (replica, server), given in zip(servers.items(), settings.base_urls, strict=True):
        found.append(_server(name, server, tenants, config, replica, given.weight))
    return Servers(found)


def _server(
    name: str,
    settings: AnyEngine,
    tenants: Tenants,
    config: Config,
    replica: str = "",
    weight: float = 1.0,
) -> Server:
    engine = _engine(name, settings, tenants, config, replica)
    advanced = settings.advanced
    at = {"replica": replica} if replica else {}
    breaker = Breaker(
        failures=advanced.breaker_failures,
        open_s=advanced.breaker_open_s,
        alarm=lambda: log.error("engine_refuses", engine=name, **at),
    )
    credentials = None if engine.info.holds_key else Credentials(config.listen.tenant_headers)
    server = Server(
        engine,
        knobs_of(Limits, settings, advanced),
        breaker,
        credentials,
        weight,
        _translating(engine, settings),
    )
    if (
        isinstance(engine, OpenAIHTTP)
        and isinstance(settings, HTTPEngine)
        and same_origin(settings, config.upstream)
    ):
        engine.own_keys = headers_of_own_keys(config, settings, tenants)
        server.own_keys = frozenset(engine.own_keys)
    return server


def _translated(name: str, settings: AnyEngine, config: Config) -> frozenset[Api]:
    """The APIs that an engine is asked in and does not speak."""
    translated = settings.understood - settings.spoken
    beside = {one for model in config.models.values() if name in model.engines for one in model.engines}
    for other in map(config.engines.get, beside):
        # One server may be two engines of one model, each for APIs of its own.
        if not isinstance(settings, HTTPEngine) or not isinstance(other, HTTPEngine):
            continue
        if other.base_url and (other.url, other.model) == (settings.url, settings.model):
            translated -= other.spoken
    return translated


def _translating(engine: Engine, settings: AnyEngine) -> Translating | None:
    """Asks the engine in the APIs that it does not speak; None where there are none."""
    native = native_to(settings.spoken)
    if not isinstance(settings, HTTPEngine) or native is None or not engine.info.translated:
        return None
    return Translating(engine, native, frozenset(settings.drops))


def _engine(name: str, settings: AnyEngine, tenants: Tenants, config: Config, replica: str = "") -> Engine:
    price = price_of(settings.price)
    translated = _translated(name, settings, config)
    holds_key = not (isinstance(settings, HTTPEngine) and takes_client_key(settings, config.upstream))
    info = EngineInfo(
        name,
        settings.model,
        price,
        settings.context_tokens,
        continues=settings.advanced.continues if isinstance(settings, HTTPEngine) else "off",
        attempts=settings.advanced.attempts,
        apis=settings.spoken | translated,
        translated=translated,
        region=settings.region,
        cache_ttl_s=_cache_ttl_s(settings),
        holds_key=holds_key,
        replica=replica,
        tells_usage=TellsUsage(settings.tells_usage),
    )
    if isinstance(settings, VLLMEngine):
        return VLLMServer(
            info,
            settings.url,
            server_url=settings.advanced.server_url,
            dialect=_dialect(settings, tenants),
            poll_s=settings.advanced.poll_s,
            **_engine_over_http(settings, config),
        )
    if isinstance(settings, VLLMLocalEngine):
        return _local(info, settings, tenants)
    if isinstance(settings, OpenAIEngine):
        return OpenAIHTTP(info, settings.url, **_engine_over_http(settings, config))
    if isinstance(settings, AnthropicEngine):
        return AnthropicHTTP(info, settings.url, **_engine_over_http(settings, config))
    if isinstance(settings, AzureEngine):
        over_http = _engine_over_http(settings, config)
        return AzureHTTP(info, settings.url, api_version=settings.api_version, **over_http)
    # Only the demo and tests need a world; building one takes time and memory.
    from simulation.engine import SimulatedEngine

    return SimulatedEngine(
        info,
        role=settings.role,
        world=_world(settings.seed, settings.facts),
        ttft_ms=settings.ttft_ms,
        token_ms=settings.token_ms,
        capacity=settings.capacity,
        pace=settings.pace,
        turns_bad_at=settings.turns_bad_at,
    )


@lru_cache(maxsize=4)
def _world(seed: int, facts: int) -> World:
    """The lead and the understudy live in one world; it never changes, so they share the object."""
    from simulation.world import World

    return World(seed, facts)


def upstream(config: Config, tenants: Tenants) -> OpenAIHTTP | None:
    """Build the default upstream, if there is one. It has no list of servers: it is passed through, not managed."""
    settings = config.upstream
    if settings is None:
        return None
    made = _upstream(settings, config.listen.tenant_headers)
    made.own_keys = headers_of_own_keys(config, settings, tenants)
    return made


def _upstream(settings: Upstream, tenant_headers: tuple[str, ...]) -> OpenAIHTTP:
    # Beside a key of its own the query still stays as it came: nothing is managed here.
    over_http = _over_http(
        settings, settings.api_key is None or own_key(settings) is not None, tenant_headers
    )
    prices = {name: price_of(price) for name, price in settings.prices.items()}
    info = EngineInfo(UPSTREAM, region=settings.region, prices=ByModelName(prices) if prices else {})
    match settings.kind:
        case "anthropic":
            return AnthropicHTTP(info, settings.url, **over_http)
        case "azure":
            return AzureHTTP(info, settings.url, api_version=settings.api_version, **over_http)
    return OpenAIHTTP(info, settings.url, **over_http)


def _cache_ttl_s(settings: AnyEngine) -> float | None:
    hosted = isinstance(settings, OpenAIEngine | AnthropicEngine | AzureEngine)
    return _HOSTED_CACHE_TTL_S if settings.cache_ttl_s is None and hosted else settings.cache_ttl_s


def _local(info: EngineInfo, settings: VLLMLocalEngine, tenants: Tenants) -> Engine:
    from engines import vllm_core
    from engines.vllm_local import VLLMLocal

    if not vllm_core.installed():
        raise EngineMissing(
            f"engines.{info.name} is of kind vllm-local, but vLLM is not installed: {vllm_core.INSTALL}"
        )
    name = settings.served_name
    return VLLMLocal(
        replace(info, model=name, continues="prefill"),
        start=partial(vllm_core.start_blocking, settings.model_dir, settings.args, name),
        open_=vllm_core.opened,
        dialect=_dialect(settings, tenants),
        tell=lambda level, event, fields: log.log(_LEVELS[level.upper()], event, **fields),
    )


def _dialect(settings: VLLMEngine | VLLMLocalEngine, tenants: Tenants) -> Dialect:
    advanced = settings.advanced
    return Dialect(
        tenants.secret if settings.salted else None,
        Priorities(
            advanced.priority,
            tenants.priorities(advanced.tenant_priorities),
            advanced.background_priority,
            advanced.sends_order,
        ),
    )


def _engine_over_http(settings: HTTPEngine, config: Config) -> OverHTTP:
    return _over_http(settings, takes_client_key(settings, config.upstream), config.listen.tenant_headers)


def _credential(settings: HTTPEngine | Upstream, key: str) -> str:
    """The key as the header has it that it is sent in."""
    kind = getattr(settings, "kind", "openai")
    return key if kind in ("anthropic", "azure") else f"Bearer {key}"


def _over_http(
    settings: HTTPEngine | Upstream, forwards_credentials: bool, tenant_headers: tuple[str, ...]
) -> OverHTTP:
    key = own_key(settings)
    return {
        "authorization": _credential(settings, key) if key is not None else None,
        "forwards_credentials": forwards_credentials,
        "credential_headers": tenant_headers,
        "extra_headers": {
            name: value.get_secret_value() for name, value in settings.advanced.headers.items()
        },
        "timeouts": knobs_of(Timeouts, settings.advanced),
        "proxy": proxy_for(settings.url, settings.proxy.get_secret_value() if settings.proxy else None),
    }
