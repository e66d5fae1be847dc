"""Finds the handler of a request: one line per URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from aiohttp import web

from engines.apis import AT_ROOT
from engines.errors import RequestError
from gateway.azure import FromAzure, from_azure
from gateway.endpoints.handler import Handler
from gateway.paths import canonical
from router.finished import Journey

_BELOW_ROOT = ("/v2", "/v1", "")
"""Where servers of models have engines.apis.AT_ROOT."""


class Routes(Protocol):
    """Finds the handler of a request."""

    def find(self, method: str, target: str) -> tuple[Handler, str, bool]:
        """(handler, target below the prefix as it came, whether a key is needed). Raises RequestError (400, 404, 405)."""
        ...


class RouteTable:
    """Exact paths first, then everything below a prefix to the pass-through, then 404.

    `own` are the gateway's own pages (health, metrics), reached without a key, by HEAD and with a slash at the end, too.
    `endpoints`, in lower case, live below the prefixes, or as Azure's clients write it below `/openai/`, or at the root,
    where servers of models have theirs (engines.apis.AT_ROOT). Whatever an upstream might take for one of them is one of
    them: `//`, a slash at the end, percent-encoded letters, capitals.
    """

    def __init__(
        self,
        *,
        prefixes: tuple[str, ...],
        own: Mapping[tuple[str, str], Handler],
        endpoints: Mapping[tuple[str, str], Handler],
        otherwise: Handler | None,
    ) -> None:
        self._prefixes = tuple(prefix.rstrip("/") for prefix in prefixes)
        self._own = with_their_kin(own)
        self._own_paths = {path for _, path in self._own}
        self._endpoints = dict(endpoints)
        self._otherwise = otherwise

    def find(self, method: str, target: str) -> tuple[Handler, str, bool]:
        """See Routes."""
        path, _, _ = target.partition("?")
        if (handler := self._own.get((method, path))) is not None:
            return handler, target, False
        if path in self._own_paths:
            raise RequestError(f"{path} does not take {method}.", status=405, code="method_not_allowed")
        for prefix in self._prefixes:
            if not prefix and from_azure(target) is not None:
                continue
            if path.startswith(prefix) and (len(path) == len(prefix) or path[len(prefix)] == "/"):
                rest = target[len(prefix) :]
                if (handler := self._endpoint(method, path[len(prefix) :])) is not None:
                    return handler, rest, True
                return self._otherwise_at(), rest, True
        if (azure := from_azure(target)) is not None:
            return (*self._find_azure(method, azure), True)
        for below in _BELOW_ROOT:
            rest = path[len(below) :] if path.startswith(below) else ""
            handler = self._endpoint(method, rest) if canonical(rest).lower() in AT_ROOT else None
            if handler is not None:
                return _noting(handler, below=below), target[len(below) :], True
        raise RequestError(
            f"Unknown path. Requests go below {' or '.join(self._prefixes) or '/'}: set your client's base_url to that.",
            status=404,
            code="unknown_url",
        )

    def _find_azure(self, method: str, azure: FromAzure) -> tuple[Handler, str]:
        handler = self._endpoint(method, azure.target.partition("?")[0]) or self._otherwise_at()
        if not azure.deployment:
            return handler, azure.target

        below_it = _noting(handler, deployment=azure.deployment, target=azure.target)
        return below_it, f"/deployments/{azure.deployment}{azure.target}"

    def _otherwise_at(self) -> Handler:
        if self._otherwise is None:
            raise RequestError(
                "No default upstream is configured, and this endpoint is not one of the gateway's own.",
                status=404,
                code="unknown_url",
            )
        return self._otherwise

    def _endpoint(self, method: str, path: str) -> Handler | None:
        exact = self._endpoints.get((method, path))
        return exact if exact is not None else self._endpoints.get((method, canonical(path).lower()))


def with_their_kin(own: Mapping[tuple[str, str], Handler]) -> dict[tuple[str, str], Handler]:
    """Pages by method and path, and those that are GET by HEAD, too; each with and without a slash at the end."""
    return {
        (each, path + end): handler
        for (method, path), handler in own.items()
        for each in {method, "HEAD" if method == "GET" else method}
        for end in ("", "/")
    }


def _noting(
    handler: Handler, *, deployment: str = "", below: str | None = None, target: str | None = None
) -> Handler:
    """The handler, which finds in its journey what the path says beside the endpoint."""

    async def noting(request: web.BaseRequest, rest: str, journey: Journey) -> web.StreamResponse:
        journey.deployment, journey.below = deployment, below
        return await handler(request, rest if target is None else target, journey)

    return noting
