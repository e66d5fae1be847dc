"""What a request asks for, read once: the endpoint, the models that it names, and what its body says.

Whoever decides by a request decides by this value. What two servers could read differently is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from aiohttp import web

from engines.errors import RequestError
from engines.loose_json import listed, objects
from gateway.access.families import Endpoint, State, endpoint
from gateway.access.stored_ids import StoredId, stored_ids
from gateway.azure import from_azure
from gateway.forms import Form
from gateway.paths import origin_form
from gateway.wire import is_form, is_json, read_ahead, read_form_once, read_json_ahead

_MOST_QUOTED = 100
_COUNT = frozenset({"model", "models", "store"})
"""Fields that decide who is asked, or what is kept: some servers read any spelling of them."""
_SAID_BY_STEPS = frozenset({"/files", "/vector_stores", "/data_sources", "/kv_transfer", "/audio/voices"})
"""What an example may name: other names of it are the client's own."""
_CHAT = endpoint("POST", "/chat/completions")


class Wanted(NamedTuple):
    """See the module."""

    asked: Endpoint
    fields: Mapping[str, Any] = {}
    """Of its body, where that is JSON or a form; empty where its handler reads it, or where there is none."""
    form: Form | None = None
    query: str = ""

    @property
    def api(self) -> str:
        """Which API it belongs to: see router.asked.Arrival.api."""
        return self.asked.api

    @property
    def model(self) -> str:
        """The model that it asks for: what its path names counts, whatever its body says. Empty: none."""
        return self.asked.model or str(self.fields.get("model") or "")

    def models(self) -> list[str]:
        """Every model that may be asked for it. Raises RequestError (400) for what is no name, and for two models."""
        fields = self.fields
        named = [self.asked.model] if self.asked.model else []
        if one := fields.get("model"):
            named.append(one)
        # Some upstreams turn to them where the first fails.
        named += listed(fields.get("models"))
        if self.asked.api == "runs":
            named += _of_run(fields)
        if "model" in self.query:
            for name in parse_qs(self.query).get("model", ()):
                if named and name != named[0]:
                    raise RequestError("The request names two models.", code="two_models", param="model")
                named.append(name)
        for name in named:
            if not isinstance(name, str):
                raise RequestError("model must be a string.", code="invalid_type", param="model")
        return named

    def stored(self) -> list[StoredId]:
        """What it names that an upstream has stored."""
        asked, fields = self.asked, self.fields
        if asked.api == "runs":
            return [one for step in objects(fields.get("steps")) for one in stored_ids(step, chat=True)]
        if asked.state is State.OWN:
            # Its names are its own, but what it holds of chat completions is asked of an upstream later.
            return [one for one in stored_ids(fields) if one.family in _SAID_BY_STEPS]
        found = list(
            stored_ids(fields, chat=asked.path == "/chat/completions", items=asked.api == "responses")
        )
        if asked.model:
            found += stored_ids({"model": asked.model})
        if self.query and asked.state is State.NONE:
            found += stored_ids(parse_qs(self.query))
        return found


def step(fields: Mapping[str, Any]) -> Wanted:
    """What a step of a run asks for, which is a chat completion. Raises RequestError (400)."""
    if alike := _COUNT.intersection(map(str.lower, fields.keys() - _COUNT)):
        raise _ambiguous(min(alike))
    return Wanted(_CHAT, fields)


def head(request: web.BaseRequest, target: str) -> Endpoint:
    """The endpoint that a request's head names; `target`: below the prefix. Raises RequestError (400) for a path that cannot
    be read for certain, or names two models."""
    asked = endpoint(request.method, target)
    azure = from_azure(origin_form(request.raw_path))
    return asked if azure is None or not azure.deployment else asked._replace(model=azure.deployment)


async def read(request: web.BaseRequest, asked: Endpoint, target: str, limit_bytes: int) -> Wanted:
    """The request with what its body says. Raises RequestError: 400 and 413 for a body that cannot be read, 415 for one that
    is neither JSON nor a form, 400 for a field that two servers could read differently."""
    query = target.partition("?")[2]
    if not request.body_exists or asked.state is State.KEPT or request.method != "POST":
        return Wanted(asked, query=query)
    form = is_form(request)
    if not form and not is_json(request):
        if asked.state is State.OWN:
            # Its handler says what it takes.
            return Wanted(asked, query=query)
        raise _unreadable(request, "Content-Type")
    raw = await read_ahead(request, limit_bytes)
    if form and asked.state is not State.OWN:
        found = await read_form_once(request, raw, limit_bytes)
        if found is None:
            raise _unreadable(request, "Content-Encoding")
        return Wanted(asked, found.fields, found, query)
    if asked.state is not State.NONE and not raw.strip():
        return Wanted(asked, query=query)
    try:
        fields = await read_json_ahead(request, raw, limit_bytes)
    except RequestError:
        if asked.state is State.OWN:
            # Its handler reads it again, and says what is wrong.
            return Wanted(asked, query=query)
        raise
    if fields is None:
        raise _unreadable(request, "Content-Encoding")
    if asked.state is State.NONE and (alike := _COUNT.intersection(map(str.lower, fields.keys() - _COUNT))):
        raise _ambiguous(min(alike))
    return Wanted(asked, fields, None, query)


def _of_run(fields: Mapping[str, Any]) -> Iterator[Any]:
    """The models of a run's steps, or its workflow; what is wrong with them its handler says."""
    named = [fields.get("workflow"), *(each.get("model") for each in objects(fields.get("steps")))]
    return (name for name in named if isinstance(name, str))


def _ambiguous(name: str) -> RequestError:
    return RequestError(
        f"Some servers read a field of the body as {name!r}, which it is but for its capitals.",
        code="ambiguous_field",
        param=name,
    )


def _unreadable(request: web.BaseRequest, header: str) -> RequestError:
    value = request.headers.get(header, "")[:_MOST_QUOTED]
    return RequestError(
        f"With a key of this gateway a body has to be readable here, and one with {header} {value!r} is not: send JSON or a"
        " form, as it is or with gzip or deflate.",
        status=415,
        code="unsupported_media_type",
    )
