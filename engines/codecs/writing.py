"""Says a request of one API in another: it is read into the neutral request, and written from that.

See engines.codecs.neutral.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engines.apis import Api
from engines.chat import ChatRequest
from engines.codecs import neutral_chat, neutral_messages, neutral_responses
from engines.codecs.neutral import WRITTEN, Limits, Neutral, NotTranslatable
from engines.errors import RequestError

_READERS: Mapping[str, Callable[[Mapping[str, Any], Limits], Neutral]] = {
    "chat": neutral_chat.read,
    "responses": neutral_responses.read,
    "messages": neutral_messages.read,
}
_WRITERS: Mapping[str, Callable[[Neutral, Limits], dict[str, Any]]] = {
    "chat": neutral_chat.write,
    "responses": neutral_responses.write,
    "messages": neutral_messages.write,
}


def written(chat: ChatRequest, api: Api, *, drops: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The fields of a body that asks the same in another API, of the same model.

    `drops`: what may be left out where that API has no word for it, by the name of the client's field, of a part's or a
    tool's type, or of the neutral field. Raises NotTranslatable, a RequestError 400, for anything else that cannot be said.
    """
    if chat.api not in WRITTEN or api not in WRITTEN:
        raise NotTranslatable(chat.api, chat.api, chat.api, api)
    limits = Limits(chat.api, api, drops)
    try:
        return _WRITERS[api](_READERS[chat.api](chat.own_fields, limits), limits)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # Nobody checks every member of a body that only passes; whoever translates it meets what is no part of its API.
        raise RequestError(
            f"The request is not what the {chat.api} API describes, so that it cannot be said in the {api} API: {error!r}."
        ) from error
