"""Each API has its codec: one line for each."""

from __future__ import annotations

from collections.abc import Mapping

from engines.chat import ChatRequest
from engines.codecs.chat import CHAT
from engines.codecs.codec import Codec
from engines.codecs.completions import COMPLETIONS
from engines.codecs.messages import MESSAGES
from engines.codecs.responses import RESPONSES

_CODECS: tuple[Codec, ...] = (CHAT, RESPONSES, MESSAGES, COMPLETIONS)
CODECS: Mapping[str, Codec] = {codec.api: codec for codec in _CODECS}
"""By the API's name."""


def codec_named(api: str) -> Codec:
    """The codec of an API by its name; that of chat completions for those that have none."""
    return CODECS.get(api, CHAT)


def request_id_header(api: str) -> str:
    """Names the header in which clients of an API look for the id of their request."""
    return "request-id" if api == "messages" else "x-request-id"


def codec_of(chat: ChatRequest | None) -> Codec:
    """The codec that read this request; that of chat completions where nothing is known of it."""
    return CHAT if chat is None else CODECS[chat.api]
