"""The stage of a request that is being answered right now: who asks the same meanwhile gets the same answer."""

from __future__ import annotations

import time

from engines.codecs.table import codec_of
from engines.engine import EngineReply
from engines.errors import EngineError
from gateway.cache_status import COLLAPSED
from gateway.forward import Answer, forward
from gateway.in_flight import FOLLOWED_AT_MOST, Flight, InFlight, form_of, takes_part
from gateway.send import Send
from gateway.stages.exact import ExactStage
from gateway.stages.replaying import explain_remembered
from gateway.stages.stage import Next, UnderWay
from router.finished import Outcome


class SingleFlightStage:
    """See gateway.stages.stage.Stage. `exact` has the answers of those who led and have ended."""

    def __init__(self, in_flight: InFlight, exact: ExactStage) -> None:
        self._in_flight = in_flight
        self._exact = exact

    async def answer(self, request: UnderWay, next: Next) -> Next | None:
        """See Stage."""
        record, key = request.record, request.record.exact_key
        if key is None or not takes_part(record.asked):
            return next
        form = form_of(record.asked)
        for _ in range(FOLLOWED_AT_MOST):
            leader = self._in_flight.leader_of(key, form)
            if leader is None:
                break
            with leader.followed():
                if await _follow(leader, request):
                    return None
            # One in another form, and its answer is remembered by now.
            if await self._exact.replayed(request):
                return None
        flight = None if request.alone else self._in_flight.lead_in(key, form)
        if flight is None:
            return next

        async def led(shared: Send) -> None:
            request.shared = shared
            await request.to_its_end(next)

        request.detached = True
        await flight.led(request.send, led)
        return None


async def _follow(flight: Flight, request: UnderWay) -> bool:
    """Send what another request is being sent; False, and nothing is sent, where that cannot be."""
    record, began = request.record, time.perf_counter()
    headers = await flight.head_for(record.asked)
    record.waited_s += time.perf_counter() - began
    if headers is None:
        return False
    headers["Cache-Status"] = COLLAPSED
    record.decided("exact", reason="in_flight")
    # Not the body of one that is remembered: it is sent as it comes.
    record.hit, record.status = b"", 200
    explain_remembered(headers, record)
    reply = EngineReply(200, headers, flight.chunks())
    chat = record.asked.chat
    request.kept.begin(headers)
    answer = Answer(reply, record, [request.kept.feed], None, codec_of(chat).tail(headers, chat.choices))
    try:
        broken = await forward(answer, request.send)
    except EngineError:
        # It broke before anything was sent.
        record.hit = None
        return False
    record.outcome = Outcome.HIT
    if broken is not None:
        record.outcome, record.error = Outcome.FAILED, broken.message
    return True
