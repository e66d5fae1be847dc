"""From the settings to what decides who may reach what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from engines.engine import Engine
from gateway.admission import Admission, Owners
from learning.bank.contributor import EndUsers, UserSources
from router.model_names import ByModelName
from understudy.settings.config import Config
from understudy.setup.engines import UPSTREAM, Tenants, own_keys
from workflows.names import OWN

if TYPE_CHECKING:
    from gateway.limits.limiter import Limiter
    from understudy.memory import Memory


def admission(
    config: Config,
    memory: Memory | None,
    engines: Mapping[str, Engine],
    tenants: Tenants,
    limiter: Limiter | None,
    *,
    owners: Owners | None,
    max_json_bytes: int,
) -> Admission:
    """What stands before every handler, and before every step of a run."""
    return Admission(
        end_users(config, memory),
        owners,
        limiter,
        in_force=memory.store.keys.in_force if memory is not None else lambda key_id: None,
        users_required=config.users.required,
        own_accounts=own_keys(config, tenants),
        priced=_priced(config, engines),
        max_json_bytes=max_json_bytes,
        max_wait_s=config.workflows.max_wait_s,
    )


def end_users(config: Config, memory: Memory | None) -> EndUsers | None:
    """Who tells end users apart; None where nothing is remembered."""
    if memory is None or config.memory is None:
        return None
    sources = UserSources(config.users.sources)
    return EndUsers(memory.store.secret, config.memory.partition == "user", sources)


def _priced(config: Config, engines: Mapping[str, Engine]) -> Callable[[str, str], bool]:
    served, workflows = ByModelName(config.models), frozenset(config.workflows.definitions)

    def priced(model: str, path: str) -> bool:
        if model in workflows or model.startswith(OWN):
            # Each of its steps is looked at when it is asked.
            return True
        settings = served.get(model)
        if settings is None:
            upstream = engines.get(UPSTREAM)
            # Without one nobody is asked, which its handler says.
            return upstream is None or upstream.info.price_of(model, path).known
        larger = (settings.larger_context,) if settings.larger_context else ()
        return all(engines[name].info.price.known for name in (*settings.engines, *larger))

    return priced
