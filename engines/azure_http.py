"""Azure OpenAI over HTTP: openai_http with its key in `api-key`, and OpenAI's paths as Azure writes them.

With a version of the API: `/openai/deployments/{model}/chat/completions?api-version=V` for what a deployment answers, and
`/openai/responses?api-version=V` for all else. Without: `/openai/v1/chat/completions`, where the body names the deployment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack
from urllib.parse import quote

from engines.engine import EngineInfo, EngineRequest
from engines.loose_json import member, parsed, text
from engines.openai_http import Exchange, HTTPOptions, OpenAIHTTP

DEPLOYED = frozenset(
    {
        *("/chat/completions", "/completions", "/embeddings", "/images/generations", "/images/edits"),
        *("/audio/transcriptions", "/audio/translations", "/audio/speech"),
    }
)
"""What is asked of a deployment, which the path names."""
DEPLOYMENT_NAME = re.compile(r"[\w.:@-]*[\w:@-][\w.:@-]*")
"""What a deployment may be called: a client's word must not lead to another path."""
API_VERSION = "api-version"
"""The parameter of a query that names the version."""


class AzureHTTP(OpenAIHTTP):
    """One resource of Azure OpenAI. `info.model` is the name of a deployment; None: what the request calls its model."""

    key_header = "api-key"

    def __init__(
        self,
        info: EngineInfo,
        base_url: str,
        *,
        api_version: str | None = None,
        **options: Unpack[HTTPOptions],
    ) -> None:
        super().__init__(info, base_url, **options)
        self._api_version = api_version
        if options.get("key") is not None:
            # A token of Entra.
            self.key_header = "Authorization"

    def stream(self, request: EngineRequest) -> Exchange:
        """See engines.engine.Engine.stream."""
        return super().stream(replace(request, target=self._as_azure_has_it(request)))

    def _as_azure_has_it(self, request: EngineRequest) -> str:
        path, _, query = request.target.partition("?")
        kept = [one for one in query.split("&") if one and one.partition("=")[0].lower() != API_VERSION]
        if self._api_version is None:
            return _with_query(f"/openai/v1{path}", kept)
        deployment = self._deployment(request) if path in DEPLOYED else ""
        where = f"/openai/deployments/{quote(deployment, safe='')}" if deployment else "/openai"
        return _with_query(where + path, [f"{API_VERSION}={self._api_version}", *kept])

    def _deployment(self, request: EngineRequest) -> str:
        if self.info.model is not None:
            return self.info.model
        named = request.chat.model if request.chat is not None else request.model or _model_in(request.body)
        return named if DEPLOYMENT_NAME.fullmatch(named) else ""


def _with_query(path: str, parameters: Sequence[str]) -> str:
    return f"{path}?{'&'.join(parameters)}" if parameters else path


def _model_in(body: object) -> str:
    """The model that a JSON body asks for; empty where it is none."""
    return text(member(parsed(body), "model")) if isinstance(body, bytes) else ""
