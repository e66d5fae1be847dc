"""What each engine of a plan is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from engines.candidates import Try
from engines.chat import ChatRequest
from engines.codecs.table import codec_of
from engines.engine import Engine, EngineRequest
from engines.large_json import dumped
from gateway.limits.bounding import asking_for_usage, not_asking_for_usage
from router.asked import Asked
from router.plan import Attempt
from router.turns.naming import named_by


def asking_for_its_usage(
    chat: ChatRequest, ways: Sequence[Attempt], engines: Mapping[str, Engine], *, counted: bool
) -> ChatRequest:
    """The request that engines get: it asks for its usage, where there is something to count and its client did not.

    `counted`: against a limit, also of what has no price.
    """
    asks = asking_for_usage(chat.api, chat.own_fields)
    if not asks:
        return chat
    if not counted and not any(engines[way.engine].info.price_of(chat.model).known for way in ways):
        return chat
    if chat.raw is None:
        return chat.changed(asks)
    fields = {**chat.raw, **asks}
    return codec_of(chat).read(dumped(fields, like=chat.body), fields)


def try_of(engine: Engine, way: Attempt, asked: Asked, wanted: ChatRequest, in_outage: bool) -> Try:
    """One engine with what it is asked: `wanted`, which may be `asked` with a wish for its usage, as `way` has it."""
    # A step of a run asks for its usage by our own word, not its client's.
    of_a_run = asked.placement is not None and bool(asked.placement.run)
    plain = not_asking_for_usage(asked.chat) if of_a_run else asked.chat
    if not engine.info.tells_usage.asked:
        wanted = plain
    changed = partial(codec_of(wanted).changed, model=engine.info.model, messages=way.messages)
    chat, headers, without_usage = changed(wanted), asked.headers, None
    if wanted is not plain:
        without_usage = partial(_body, changed, plain)
        # Its usage is to be read on its way.
        headers = headers.copy()
        headers["Accept-Encoding"] = "identity"
    if chat is not asked.chat:
        headers = headers.copy()
        headers.popall("Content-Length", None)
        headers.popall("Content-Encoding", None)
    placement = asked.placement
    if placement is not None and way.messages is not None:
        placement = placement.among(way.messages, asked.chat.messages)
    request = EngineRequest(
        "POST",
        asked.target,
        headers,
        chat.body,
        chat,
        asked.arrival.tenant,
        prediction=way.prediction,
        call=way.call,
        placement=placement,
        as_asked=asked.chat,
        session=named_by(asked.controls.session, asked.chat.own_fields),
        without_usage=without_usage,
        not_at=asked.not_at,
    )
    return Try(engine, request, in_outage)


def _body(changed: Callable[[ChatRequest], ChatRequest], chat: ChatRequest) -> bytes:
    return changed(chat).body
