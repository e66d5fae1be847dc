"""`/v1/responses`: OpenAI's second API for answers, whose streams end without `[DONE]` and number their events."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from engines.answers.answer import Assembled
from engines.answers.response import Response
from engines.answers.tail import Ends
from engines.chat import IN_BODY, ChatRequest
from engines.codecs.codec import Codec
from engines.codecs.hearing_response import HearingResponse
from engines.codecs.response_answer import as_events, only_messages
from engines.codecs.response_request import read_request, with_items, with_messages
from engines.codecs.saying_response import SayingResponse
from engines.errors import RequestError
from engines.large_json import dumped
from engines.sse import encode_typed

_ECHOED = ("user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "metadata", "store")
"""What an answer repeats of its request though it changes nothing of what is answered."""
_UNSAID: Mapping[str, Any] = {"metadata": {}, "store": True}
_NUMBER = re.compile(rb'(?<!\\)"sequence_number": ?([0-9]{1,15})')


def _broken_off(last: bytes, message: str, code: str) -> bytes:
    """Makes the event that tells a client that its stream broke off here, numbered as the next of its events."""
    numbers = _NUMBER.findall(last)
    number = int(numbers[-1]) + 1 if numbers else 0
    return b"\n\n" + _error_event(number, code, message, None)


def _error_event(number: int, code: str, message: str, param: str | None) -> bytes:
    return encode_typed(
        {"type": "error", "sequence_number": number, "code": code, "message": message, "param": param}
    )


class Responses(Codec):
    """See Codec."""

    __slots__ = ()
    api = "responses"
    path = "/responses"
    merged = Response
    hearing = HearingResponse
    saying = SayingResponse
    ends = Ends(by_done=False, error_event=_broken_off)

    def read(self, body: bytes, fields: dict[str, Any]) -> ChatRequest:
        """See Codec."""
        return read_request(body, fields)

    def with_messages(self, chat: ChatRequest, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """See Codec."""
        return with_messages(chat, messages)

    def alone(self, max_tokens: int) -> dict[str, Any]:
        """See Codec."""
        return {"store": False, "stream": False, "max_output_tokens": max_tokens}

    def said_here(
        self, chat: ChatRequest, before: Sequence[Any] | None, items: Mapping[str, Any]
    ) -> ChatRequest:
        """The request with what it names said in it: a conversation `before` its input, instead of the answer's id, and
        `items` by their ids."""
        fields = dict(chat.own_fields)
        own = with_items(fields, items)
        if before is not None:
            del fields["previous_response_id"]
        fields["input"] = [*(before or ()), *own]
        read = read_request(dumped(fields, large=True), fields)
        return replace(read, state=read.state or IN_BODY)

    def refusal(self, chat: ChatRequest, assembled: Assembled) -> str | None:
        """See Codec."""
        if chat.state:
            return "stateful"
        return None if assembled.own is not None and only_messages(assembled.own) else "not_only_messages"

    def replayed(self, stored: bytes, chat: ChatRequest) -> bytes:
        """See Codec."""
        response = orjson.loads(stored)
        return orjson.dumps(response) if _echo(response, chat) else stored

    def events(self, stored: bytes, chat: ChatRequest) -> bytes:
        """See Codec."""
        response = orjson.loads(stored)
        _echo(response, chat)
        return as_events(response)

    def failed(self, error: RequestError, *, number: int) -> bytes:
        """See Codec."""
        return _error_event(number, error.code, error.message, error.param)


def _echo(response: dict[str, Any], chat: ChatRequest) -> bool:
    """Let an answer that another request got repeat this one's fields. Returns whether that changed anything."""
    asked, changed = chat.own_fields, False
    for name in _ECHOED:
        if name not in response:
            continue
        given = asked.get(name)
        own = _UNSAID.get(name) if given is None else given
        if response[name] != own:
            response[name], changed = own, True
    return changed


RESPONSES = Responses()
