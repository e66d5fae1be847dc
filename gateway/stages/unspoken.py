"""The last stage of requests in an API that none of their model's engines speaks: they are refused."""

from __future__ import annotations

from engines.codecs.table import codec_of
from engines.errors import RequestError
from gateway.stages.stage import Next, UnderWay


class UnspokenStage:
    """See gateway.stages.stage.Stage."""

    async def answer(self, request: UnderWay, next: Next) -> Next | None:
        """See Stage. Raises RequestError (404)."""
        chat = request.record.asked.chat
        raise not_spoken(chat.model, codec_of(chat).path)


def not_spoken(model: str, path: str) -> RequestError:
    """The error for a request in an API that no engine speaks that serves its model."""
    return RequestError(
        f"No engine of '{model[:100]}' speaks the API at {path} (engines.*.apis).",
        status=404,
        code="api_not_spoken",
        param="model",
    )
