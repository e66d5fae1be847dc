"""Which HTTP proxy an upstream is asked through: that of the configuration, else of the environment, as other clients do.

Knows no connection. A proxy's URL may hold a credential: it is never shown.
"""

from __future__ import annotations

from ipaddress import ip_address
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

from yarl import URL

ENVIRONMENT, NONE = "env", "none"
_PRIVATE = (".local", ".localhost", ".internal")


def proxy_for(url: str, said: str | None = None) -> URL | None:
    """The proxy for requests to `url`; None: it is asked directly.

    `said`: a proxy's URL, `env` (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, in capitals or not) or `none`; None stands
    for `none` where the host is private, else for `env`.
    """
    upstream = URL(url)
    said = said or (NONE if _is_private(upstream.host or "") else ENVIRONMENT)
    if said == ENVIRONMENT:
        proxies = getproxies_environment()
        if proxy_bypass_environment(f"{upstream.host}:{upstream.port}", proxies):
            return None
        said = proxies.get(upstream.scheme) or proxies.get("all") or NONE
    if said == NONE:
        return None
    proxy = URL(said if "://" in said else f"http://{said}")
    # A proxy of another kind (SOCKS) is not spoken.
    return proxy if proxy.scheme in ("http", "https") and proxy.host else None


def _is_private(host: str) -> bool:
    """Whether only this machine or its network is reached under this host."""
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host or host.lower().endswith(_PRIVATE)
