"""Requests of Azure OpenAI's clients, as OpenAI's clients would send them: other paths, and a model that the path names.

`/openai/deployments/{model}/chat/completions?api-version=V` becomes `/chat/completions` for that model, `/openai/responses`
and `/openai/v1/responses` become `/responses`. The version is not passed on: an upstream of kind azure has its own. Pure
functions.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import unquote

import orjson
from multidict import CIMultiDict

from engines.azure_http import DEPLOYMENT_NAME
from engines.errors import RequestError
from gateway.paths import canonical

_ROOT = "/openai/"
_V1 = "/openai/v1/"
_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)(?=/)")
"""What a deployment may be called: nothing that could be read as another path."""
_VERSION = "api-version"
_WITHIN = "/deployments/"


class FromAzure(NamedTuple):
    """A target as OpenAI's clients would send it below their prefix."""

    target: str
    deployment: str = ""
    """The model that the path named."""


def from_azure(target: str) -> FromAzure | None:
    """A target of an Azure client; None for any other. Raises RequestError (400) for a name that is none of a deployment,
    and for a deployment within a deployment."""
    if not target.startswith(_ROOT):
        return None
    path, _, query = target.partition("?")
    kept = "&".join(one for one in query.split("&") if one and one.partition("=")[0].lower() != _VERSION)
    asks = f"?{kept}" if kept else ""
    found = _DEPLOYMENT.match(path)
    if found is not None:
        deployment = unquote(found[1])
        if DEPLOYMENT_NAME.fullmatch(deployment) is None:
            raise RequestError("The path names no deployment that there could be.", code="invalid_path")
        rest = path[found.end() :]
        if canonical(rest).lower().startswith(_WITHIN):
            raise RequestError("The path names two deployments.", code="invalid_path")
        return FromAzure(rest + asks, deployment)
    rest = path[len(_V1) :] if path.startswith(_V1) else path[len(_ROOT) :]
    return FromAzure(f"/{rest}{asks}")


def for_deployment(
    deployment: str, body: bytes, fields: dict[str, Any], headers: CIMultiDict[str]
) -> tuple[bytes, dict[str, Any]]:
    """(body, its fields) as the path has it: what it names counts, whatever the body says. What no longer fits the body is
    taken out of `headers`."""
    if not deployment or fields.get("model") == deployment:
        return body, fields
    fields = {**fields, "model": deployment}
    headers.popall("Content-Length", None)
    headers.popall("Content-Encoding", None)
    return orjson.dumps(fields), fields
