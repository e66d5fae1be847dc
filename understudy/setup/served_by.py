"""Who serves a model, told so that a remembered answer is never given for another configuration's."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from urllib.parse import urlsplit

from gateway.same_request import ONLY_KEPT_BY_OPENAI
from understudy.settings.config import AnyEngine
from understudy.settings.engines import HTTPEngine
from understudy.settings.upstream import Upstream

_TELLING = {"kind", "base_url", "model", "model_dir", "args", "role", "seed", "facts"}
"""Settings of an engine that can change what it answers, of whatever kind it is."""
_OPENAI = "api.openai.com"

Server = AnyEngine | Upstream


def digest(servers: Iterable[Server]) -> str:
    """One value for all that can change their answers. Added headers count with their values, which may be secret."""
    told = [
        (type(server).__name__, server.model_dump(mode="json", include=_TELLING), _added_headers(server))
        for server in servers
    ]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def ignored_fields(servers: Iterable[Server]) -> frozenset[str]:
    """Fields of a body that change no answer, whichever of them is asked."""
    return ONLY_KEPT_BY_OPENAI if all(map(_is_openai, servers)) else frozenset()


def _is_openai(server: Server) -> bool:
    return isinstance(server, HTTPEngine | Upstream) and urlsplit(server.base_url).hostname == _OPENAI


def _added_headers(server: Server) -> list[tuple[str, str]]:
    if not isinstance(server, HTTPEngine | Upstream):
        return []
    return sorted((name.lower(), value.get_secret_value()) for name, value in server.advanced.headers.items())
