"""Who serves a model, told so that a remembered answer is never given for another configuration's."""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Iterable
from urllib.parse import urlsplit

from gateway.same_request import ONLY_KEPT_BY_OPENAI
from gateway.telemetry.providers import is_providers_own
from understudy.settings.config import AnyEngine
from understudy.settings.engines import HTTPEngine, VLLMEngine
from understudy.settings.upstream import Upstream

_TELLING = {"kind", "api_version", "model", "model_dir", "args", "role", "seed", "facts"}
"""Settings of an engine that can change what it answers, of whatever kind it is."""
_ONLY_KEEP_METADATA = ("api.openai.com", "api.anthropic.com")
_LOCAL = ("localhost", "host.docker.internal")

Server = AnyEngine | Upstream


def digest(servers: Iterable[Server]) -> str:
    """One value for all that can change their answers. Added headers count with their values, which may be secret."""
    told = [
        (
            type(server).__name__,
            _told(server) | _where(server),
            _added_headers(server),
        )
        for server in servers
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _told(server: Server) -> dict[str, object]:
    """Its settings that tell, without those that say what went without saying when they were made."""
    told = server.model_dump(mode="json", include=_TELLING)
    if told.get("api_version") is None:
        told.pop("api_version", None)
    if isinstance(server, Upstream) and server.kind == "openai":
        del told["kind"]
    return told


def ignored_fields(servers: Iterable[Server]) -> frozenset[str]:
    """Fields of a body that change no answer, whichever of them is asked."""
    return ONLY_KEPT_BY_OPENAI if all(map(_only_keeps_metadata, servers)) else frozenset()


def unknown_servers(servers: Iterable[Server]) -> bool:
    """Whether some of them may heed headers that nobody here knows, as gateways do.

    Those do not that are at a provider's own host or at an address of this network.
    """
    return any(
        not (isinstance(server, VLLMEngine) or _is_local(host) or is_providers_own(host))
        for server in servers
        for host in (urlsplit(url).hostname or "" for url in _base_urls(server))
    )


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host in _LOCAL or host.endswith(".localhost")


def _only_keeps_metadata(server: Server) -> bool:
    urls = _base_urls(server)
    return bool(urls) and all(urlsplit(url).hostname in _ONLY_KEEP_METADATA for url in urls)


def _where(server: Server) -> dict[str, object]:
    """Its base URLs: in which order they stand, and which share each has, changes no answer."""
    urls = sorted(_base_urls(server))
    if not urls:
        return {}
    return {"base_url": urls[0]} if len(urls) == 1 else {"base_urls": urls}


def _base_urls(server: Server) -> list[str]:
    if isinstance(server, Upstream):
        return [server.url]
    return [one.url for one in server.servers.values()] if isinstance(server, HTTPEngine) else []


def _added_headers(server: Server) -> list[tuple[str, str]]:
    if not isinstance(server, HTTPEngine | Upstream):
        return []
    return sorted((name.lower(), value.get_secret_value()) for name, value in server.advanced.headers.items())
