"""A request to an endpoint that asks a model, read once for all who answer it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web
from multidict import CIMultiDict

from engines.chat import ChatRequest
from engines.engine import EngineRequest
from engines.placement import PLAIN, Placement, Rank
from gateway.forms import Form
from router.finished import Journey

_STORED = re.compile(
    rb'(?<!\\)"(?:previous_response_id|conversation|file_id|file_ids|vector_store_ids|container|container_id)"'
    rb'\s*:\s*(?!null\b)|(?<!\\)"item_reference"'
)
_HOLDERS = ("previous_response_id", "conversation")
"""Of these it may be known which replica stored what they name."""
_PROMPT_ID = re.compile(rb'(?<!\\)"prompt"\s*:\s*\{')
_TIERS = {"flex": Placement(Rank.THROUGHPUT), "priority": PLAIN}


@dataclass(slots=True)
class Incoming:
    """A request whose body was read: JSON, a form, or for nobody here to read."""

    request: web.BaseRequest
    target: str
    """As it came, below the prefix."""
    headers: CIMultiDict[str]
    """As they go on."""
    raw: bytes
    journey: Journey
    fields: dict[str, Any] | None = None
    form: Form | None = None
    model: str = ""
    """Empty where it names none."""
    chat: ChatRequest | None = None
    """The same as its codec reads it."""

    @property
    def streams(self) -> bool:
        """Whether the answer is to be a stream, or may be one."""
        return self.fields is None or bool(self.fields.get("stream"))

    @property
    def placement(self) -> Placement | None:
        """The class of a plain call that names its service tier (OpenAI's field, which is passed on); None: it waits."""
        tier = (self.fields or {}).get("service_tier")
        return _TIERS.get(tier) if isinstance(tier, str) else None

    @property
    def names_something_stored(self) -> bool:
        """Whether it names what only the upstream has that stored it."""
        if self.fields is None:
            return False
        plain = orjson.dumps(self.fields)
        return bool(_STORED.search(plain) or _PROMPT_ID.search(plain))

    @property
    def stored_id(self) -> str:
        """What it names that an engine stored; empty where that is something else than an answer."""
        for name in _HOLDERS:
            given = (self.fields or {}).get(name)
            given = given.get("id") if isinstance(given, dict) else given
            if isinstance(given, str):
                return given
        return ""

    def for_model(self, model: str | None) -> bytes:
        """Its body as an engine wants it that calls the model otherwise; None: as it is asked for."""
        if model is None or model == self.model:
            return self.raw
        if self.form is not None:
            return self.form.with_model(model)
        return orjson.dumps((self.fields or {}) | {"model": model})

    def outgoing(self, model: str | None = None, **more: Any) -> EngineRequest:
        """It as an engine gets it, or the default upstream. `more`: see EngineRequest."""
        raw, headers = self.for_model(model), self.headers
        if raw is not self.raw:
            headers = headers.copy()
            headers.popall("Content-Length", None)
            headers.popall("Content-Encoding", None)
        return EngineRequest(
            "POST", self.target, headers, raw, model=model or self.model, below=self.journey.below, **more
        )
