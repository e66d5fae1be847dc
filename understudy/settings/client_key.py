"""Who gets the client's own key: the origin it was meant for, and engines that say so. Nobody else, ever."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from engines.headers import holds_credential
from understudy.settings.engines import HTTPAdvanced, HTTPEngine, host_and_port
from understudy.settings.upstream import Upstream

_NO_KEY = "none"
"""What `api_key` says where an engine needs none."""


def own_key(settings: HTTPEngine | Upstream) -> str | None:
    """The operator's key for it."""
    key = settings.api_key.get_secret_value() if settings.api_key is not None else _NO_KEY
    return None if key == _NO_KEY else key


def has_credential(settings: HTTPEngine | Upstream) -> bool:
    """Whether requests to it carry a credential of the operator's: its key, or a header that is one."""
    servers = settings.servers.values() if isinstance(settings, HTTPEngine) else (settings,)
    if isinstance(settings, HTTPEngine) and settings.api_key_command is not None:
        return True
    return has_credential_header(settings.advanced) or any(own_key(one) is not None for one in servers)


def has_credential_header(advanced: HTTPAdvanced) -> bool:
    """Whether one of the added headers is a credential."""
    return any(map(holds_credential, advanced.headers))


def takes_client_key(engine: HTTPEngine, upstream: Upstream | None) -> bool:
    """Whether it is sent the client's own key: one server, of HTTPEngine.servers."""
    if engine.brings_key:
        return False
    return engine.advanced.forwards_client_key or same_origin(engine, upstream)


def check_client_key(engines: Mapping[str, object], upstream: Upstream | None) -> None:
    """Raises ValueError for an engine elsewhere that has no key, and would be sent one that was meant for somebody else."""
    for name, engine in engines.items():
        if not isinstance(engine, HTTPEngine):
            continue
        for server in engine.servers.values():
            _check_server(name, server, upstream)


def _check_server(name: str, server: HTTPEngine, upstream: Upstream | None) -> None:
    if server.brings_key or takes_client_key(server, upstream):
        return
    host = urlsplit(server.url).hostname or ""
    if not has_credential_header(server.advanced) and not is_loopback(host):
        meant = f"meant for {upstream.base_url}" if upstream is not None else "not known to be meant for it"
        raise ValueError(
            f"engines.{name} has no api_key, and the clients' own key is {meant}: set engines.{name}.api_key (`none` if "
            f"{host} needs none), or engines.{name}.advanced.forwards_client_key: true to send it the clients' keys"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine is reached, or can reach, under this host."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def same_origin(engine: HTTPEngine, upstream: Upstream | None) -> bool:
    """Whether one server of an engine is where the default upstream is."""
    return upstream is not None and _origin(engine.url) == _origin(upstream.base_url)


def _origin(base_url: str) -> tuple[str, str]:
    return urlsplit(base_url).scheme, host_and_port(base_url)
