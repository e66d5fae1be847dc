"""From the settings to what tells who asks."""

from __future__ import annotations

from functools import partial

from gateway.keys import Authenticator, CredentialTenants, KeyAuthentication, NoAuthentication
from learning.bank.contributor import EndUsers, UserSources
from store.people.secret import tenant_id
from understudy.built import Built
from understudy.cannot_start import CannotStart
from understudy.setup.engines import Tenants, tells_tenants_apart
from understudy.setup.exposure import exposure


def add_to(built: Built) -> None:
    """Raises CannotStart where strangers could use the operator's keys."""
    config, memory = built.config, built.memory
    has_keys = memory is not None and (bool(config.keys) or memory.store.keys.any_configured())
    if (why := exposure(config, has_keys=has_keys)) is not None:
        raise CannotStart(why)
    if memory is None:
        built.tenants = Tenants(built.secret)
    else:
        built.tenants = Tenants(built.secret, memory.store.keys.tenant_named)
    built.keys = _authenticator(built)
    if memory is not None and config.memory is not None:
        sources = UserSources(config.users.sources)
        built.end_users = EndUsers(memory.store.secret, config.memory.partition == "user", sources)


def _authenticator(built: Built) -> Authenticator:
    config, memory = built.config, built.memory
    if memory is None and not tells_tenants_apart(config):
        return NoAuthentication()
    keyless = CredentialTenants(
        partial(tenant_id, built.secret),
        headers=config.listen.tenant_headers,
        anonymous=config.memory is not None and config.memory.anonymous,
    )
    return keyless if memory is None else KeyAuthentication(memory.store.keys, keyless)
