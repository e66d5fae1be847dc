"""The paths of OpenAI's, Anthropic's and Azure's APIs: which keep nothing between two requests, and which do.

What is not in the table is taken to keep something. Paths are canonical (gateway.paths), in lower case, below the prefix.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from engines.apis import AT_ROOT
from engines.errors import RequestError
from gateway.paths import canonical


class State(Enum):
    """What an endpoint keeps."""

    NONE = "none"
    """Nothing: whoever asks next cannot tell that it was asked."""
    OWN = "own"
    """It is this gateway's own, which keeps tenants apart by itself."""
    NOTED = "noted"
    """What its path names, whose owner is noted (store.people.owned)."""
    KEPT = "kept"
    """In the account of the key that the upstream is asked with."""
    ADMIN = "admin"
    """It is that account: its keys, users, projects and bills."""


class Endpoint(NamedTuple):
    """An endpoint as a request names it."""

    path: str
    """Canonical, without an Azure deployment."""
    api: str
    """Which API it belongs to: see router.asked.Arrival.api."""
    state: State
    model: str = ""
    """The model that the path itself names (Azure's deployments, `/models/NAME`)."""
    named_id: str = ""
    """The id in the path, of what is NOTED."""


_STATELESS_POST = frozenset(
    {
        *(
            "/chat/completions",
            "/completions",
            "/embeddings",
            "/moderations",
            "/messages",
            "/messages/count_tokens",
        ),
        *("/responses", "/responses/input_tokens", "/responses/compact"),
        *("/images/generations", "/images/edits", "/images/variations"),
        *("/audio/speech", "/audio/transcriptions", "/audio/translations"),
        *AT_ROOT,
    }
)
_OWN = frozenset({"feedback", "examples", "runs", "variables", "workflows", "collections", "apps"})
_ADMIN = frozenset({"organization", "organizations", "dashboard"})
_READS = frozenset({"GET", "HEAD"})
_APIS = {
    "chat": "chat",
    "responses": "responses",
    "messages": "messages",
    "completions": "completions",
    "embeddings": "embeddings",
    "images": "images",
    "audio": "audio",
    "moderations": "moderations",
    "models": "models",
    "files": "files",
    "uploads": "files",
    "batches": "batches",
    "vector_stores": "vector_stores",
    "fine_tuning": "fine_tuning",
    "assistants": "assistants",
    "threads": "assistants",
    "conversations": "conversations",
    "containers": "containers",
    "evals": "evals",
    "realtime": "realtime",
    "videos": "videos",
    "usage": "usage",
}
_LONGEST_KNOWN = 128
"""What is longer is looked at anew each time: a client must not fill the memory."""
OWN_APIS = frozenset({*_OWN, "usage"})
"""Of this gateway: never the upstream's."""


def endpoint(method: str, target: str) -> Endpoint:
    """Which endpoint a request's target below the prefix means. Raises RequestError (400) for a path with dot segments, and
    for one that names two models."""
    return _of_target(method, target.partition("?")[0])


def api_of(target: str) -> str:
    """Which API a request's target below the prefix belongs to."""
    return _of_target("POST", target.partition("?")[0]).api


def _of_target(method: str, path: str) -> Endpoint:
    if len(method) + len(path) > _LONGEST_KNOWN:
        return _endpoint(method, canonical(path))
    return _known(method, path)


@lru_cache(maxsize=256)
def _known(method: str, path: str) -> Endpoint:
    return _endpoint(method, canonical(path))


def _endpoint(method: str, spelled: str) -> Endpoint:
    path = spelled.lower()
    if path in _STATELESS_POST and method == "POST":
        return Endpoint(path, _APIS.get(path.split("/", 2)[1], "other"), State.NONE)
    segments = path.split("/")[1:]
    first = segments[0]
    if first == "projects" or not _ADMIN.isdisjoint(segments):
        return Endpoint(path, "other", State.ADMIN)
    if first == "deployments" and len(segments) > 2:
        named = spelled.split("/", 3)
        below = _endpoint(method, "/" + named[3])
        if below.model:
            raise RequestError("The path names two models.", code="invalid_path")
        return below._replace(model=named[2])
    api = _APIS.get(first, first if first in _OWN else "other")
    if first in _OWN or (first == "usage" and len(segments) == 2 and method in _READS):
        return Endpoint(path, api, State.OWN)
    if first == "models" and method in _READS:
        return Endpoint(path, api, State.NONE, model=spelled[len("/models/") :])
    if first == "responses" and len(segments) > 1 and path not in _STATELESS_POST:
        return Endpoint(path, api, State.NOTED, named_id=spelled.split("/")[2])
    return Endpoint(path, api, State.KEPT)
