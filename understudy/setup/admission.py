"""From the settings to what decides who may reach what."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engines.engine import Engine
from gateway.admission import Admission
from router.model_names import ByModelName
from understudy.built import Built
from understudy.settings.config import Config
from understudy.setup.engines import UPSTREAM, own_keys
from workflows.names import OWN


def add_to(built: Built) -> None:
    """Make what stands before every handler, and before every step of a run."""
    config, memory = built.config, built.memory
    built.admission = Admission(
        built.end_users,
        built.owners if memory is not None else None,
        built.limiter,
        in_force=memory.store.keys.in_force if memory is not None else lambda key_id: None,
        users_required=config.users.required,
        own_accounts=own_keys(config, built.tenants),
        priced=_priced(config, built.engines),
        max_json_bytes=built.max_json_bytes,
        max_wait_s=config.workflows.max_wait_s,
    )


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
