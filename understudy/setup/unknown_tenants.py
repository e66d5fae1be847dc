"""Tells of tenants that the settings name and nobody is: most likely a slip, and then the setting does nothing."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import structlog

from understudy.settings.config import Config

if TYPE_CHECKING:
    from store.people.keys import KeyStore

log = structlog.get_logger(__name__)

_SHOWN = 20


class Unknown(NamedTuple):
    """A tenant that a setting names and nobody is."""

    setting: str
    name: str
    known: list[str]
    remedy: str

    @property
    def told(self) -> str:
        """In one sentence."""
        return f"{self.setting} names the tenant {self.name!r}, whom nobody is: {self.remedy}"


def tell_unknown_tenants(config: Config, keys: KeyStore) -> None:
    """Logs each, as a warning."""
    for setting, name, known, remedy in unknown_tenants(config, keys):
        log.warning("tenant_unknown", setting=setting, tenant=name, known=known, remedy=remedy)


def unknown_tenants(config: Config, keys: KeyStore) -> list[Unknown]:
    """Each: a tenant may be named before its first key is made. `id:HEX` is not judged. Blocks for a read."""
    named = [(setting, name) for setting, name in tenants_named(config) if not name.startswith("id:")]
    if not named:
        return []
    listed = {*config.tenants, *(key.tenant for key in config.keys.values())}
    known = sorted({key.tenant_name for key in keys.list()} | listed)
    found = []
    for setting, name in named:
        if name not in known:
            meant = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean {meant[0]}?" if meant else "`understudy keys create --tenant` makes one"
            found.append(Unknown(setting, name, known[:_SHOWN], remedy))
    return found


def tenants_named(config: Config) -> Iterator[tuple[str, str]]:
    """(setting, name) of every tenant that the settings name."""
    for name in config.private.tenants:
        yield "private.tenants", name
    for grant in config.sharing.grants:
        yield "sharing.grants.from", grant.source
        for name in grant.to:
            yield "sharing.grants.to", name
    for engine, settings in config.engines.items():
        for name in getattr(settings.advanced, "tenant_priorities", ()):
            yield f"engines.{engine}.advanced.tenant_priorities", name
