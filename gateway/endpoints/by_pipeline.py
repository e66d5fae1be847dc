"""Answers of the pipeline, for the APIs that a codec reads: chat completions, responses, messages, completions."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from engines.chat import ChatRequest
from gateway.controls import read_controls, refuse_unsuited
from gateway.encodings import accept_only_readable
from gateway.endpoints.incoming import Incoming
from gateway.pipeline import Pipeline
from gateway.send import Send
from router.asked import Admitted, Asked

if TYPE_CHECKING:
    from learning.bank.contributor import EndUsers
    from router.finished import Finished


class Stored(Protocol):
    """What an API stores between two requests (gateway.endpoints.responses)."""

    async def found(self, chat: ChatRequest, arrival: Admitted, end_user: str) -> Held:
        """Where what a request names is. Raises RequestError (404) for what is others' only."""
        ...

    def noting(self, send: Send, asked: Asked) -> Send:
        """A `send` that notes what is stored of the answer."""
        ...

    def ended(self, finished: Finished) -> None:
        """Note what is stored, now that the answer was sent."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """Where what a request names is."""

    chat: ChatRequest
    """The request, with the conversation before its input if that was kept here."""
    engine: str = ""
    not_at: frozenset[str] = frozenset()


class ByPipeline:
    """See gateway.endpoints.model_endpoint.Serving. `end_users`: None if nothing is remembered.

    `path`: the one spelling of the endpoint's. `stored`: for an API that stores something between two requests.
    """

    def __init__(
        self,
        path: str,
        pipeline: Pipeline,
        end_users: EndUsers | None = None,
        *,
        max_kept_bytes: int,
        stored: Stored | None = None,
    ) -> None:
        self.serves = pipeline.model
        self.serves_models = pipeline.serves_models
        self.names = pipeline.model_names
        self._path = path
        self._pipeline = pipeline
        self._max_kept_bytes = max_kept_bytes
        self._end_users = end_users
        self._stored = stored

    def answer(self, incoming: Incoming, send: Send) -> Awaitable[Finished]:
        """See Serving."""
        if self._stored is not None:
            return self._answer_stored(self._stored, incoming, send)
        asked = self._asked(incoming)
        incoming.journey.in_pipeline = True
        return self._pipeline.answer(asked, send)

    async def _answer_stored(self, stored: Stored, incoming: Incoming, send: Send) -> Finished:
        asked = self._asked(incoming)
        held = await stored.found(asked.chat, asked.arrival, asked.end_user)
        if held.chat is not asked.chat:
            asked.headers.popall("Content-Length", None)
            asked.headers.popall("Content-Encoding", None)
        asked = replace(asked, chat=held.chat, holder=held.engine, not_at=held.not_at)
        incoming.journey.in_pipeline = True
        finished = await self._pipeline.answer(asked, stored.noting(send, asked))
        stored.ended(finished)
        return finished

    def _asked(self, incoming: Incoming) -> Asked:
        """What the pipeline is to answer. Raises RequestError."""
        chat, arrival, headers = incoming.chat, incoming.journey.admitted, incoming.headers
        given, fields = incoming.request.headers, incoming.fields or {}
        assert chat is not None
        controls = read_controls(given, fields)
        refuse_unsuited(controls, chat)
        if arrival.anonymous:
            controls = replace(controls, no_store=True, no_cache=True)
        accept_only_readable(headers)
        contributor = end_user = user = ""
        if self._end_users is not None:
            contributor, end_user = self._end_users.behind(arrival, given, fields)
            user = self._end_users.sources.user(given, fields)
        _, separator, query = incoming.target.partition("?")
        return Asked(
            arrival,
            self._path + separator + query,
            headers,
            chat,
            controls,
            self._max_kept_bytes,
            contributor,
            end_user,
            incoming.placement,
            user=user,
        )
