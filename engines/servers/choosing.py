"""Chooses for each request among an engine's servers that may be asked now.

A request goes where its client's session is, else where the most of its prompt is believed to be cached (prefixes.py),
unless that server is crowded; else where (in flight + 1) x recent answer time / weight is least. Those that wait share one
line. Where one fails, engines.candidates says who is asked instead, and where not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from engines.engine import Admission, EngineRequest
from engines.errors import Unavailable
from engines.servers.line import Line, Seat, prompt_tokens
from engines.servers.pace import AnswerTimes
from engines.servers.placing import Placing
from engines.servers.prefixes import Prefix
from engines.servers.server import Server
from engines.servers.sessions import home, named_key

_GIVES_WAY = 4
"""In flight above its share: then a session, or a prompt that is cached there as a whole, goes elsewhere."""


class Choosing:
    """One server or more, which are named apart; one that stands alone may have no name."""

    def __init__(self, servers: Sequence[Server], clock: Callable[[], float] = time.monotonic) -> None:
        self.servers = tuple(servers)
        first = self.servers[0]
        self.line = Line(first.limits.max_queued, first.limits.caps, clock)
        self.chooses = first.name != ""
        """Whether there is anything to choose among."""
        self._times = AnswerTimes(clock)
        for one in self.servers:
            one.stands_behind(self.line)
            one.answer_time = self._times.another() if self.chooses else None
        self.placing = Placing([one.name for one in self.servers], self.line)

    def admits(self, request: EngineRequest) -> Admission:
        """Tells whether `request` may be sent to one of them now. Changes nothing; `stream`, entered at once, agrees."""
        admitted, refused = self._admitted(request)
        if not admitted:
            return min(refused, key=_soonest) if refused else Admission(self._nobody())
        if self.line.full and not request.is_step:
            best = _best(admitted)
            if self.line.holds_back or not any(one.has_place for one in best):
                return Admission(best[0].full())
        if len(admitted) == 1:
            return admitted[0][1]
        return Admission(spared=all(now.spared for _, now in admitted), others=len(admitted) - 1)

    def place(
        self, request: EngineRequest, seat: Seat | None = None, prefixes: Sequence[Prefix] = ()
    ) -> Server | None:
        """A server that has a place, which is taken; None where one must be waited for. Raises Unavailable.

        Without a `seat` its tokens are not counted.
        """
        admitted, _ = self._admitted(request)
        if not admitted:
            raise self.refusal(request)
        eligible = _best(admitted)
        if seat is not None and request.is_step:
            return self.placing.place(seat, prefixes, eligible)
        free = [one for one in eligible if one.has_place and not self.line.keeps(one)]
        with_place = [one for one in free if one.fits(seat)]
        if not with_place:
            if free:
                self.line.keep(min(free, key=_held_tokens))
            return None
        chosen = self._chosen(request, seat, prefixes, eligible, with_place)
        self.placing.sent(chosen.name, prefixes, self.line.answer_tokens or 0.0)
        chosen.took_slot(seat)
        return chosen

    def opens_soon(self, request: EngineRequest) -> Server | None:
        """Finds the one that is worth waiting for, if none may be asked now; None if none is."""
        soon = [
            (now.opens_in_s, at, one)
            for at, one in enumerate(self.servers)
            if one.name not in request.not_at
            and (now := one.lets(request)).opens_in_s is not None
            and now.opens_in_s <= request.wait_s
        ]
        return min(soon)[2] if soon else None

    def refusal(self, request: EngineRequest) -> Unavailable:
        """Why none of them may be asked now."""
        return self.admits(request).refusal or self._nobody()

    def _admitted(self, request: EngineRequest) -> tuple[list[tuple[Server, Admission]], list[Admission]]:
        """Those that may be asked; and why the others may not."""
        admitted, refused = [], []
        for one in self.servers:
            if one.name in request.not_at:
                continue
            now = one.lets(request)
            if now.refusal is None:
                admitted.append((one, now))
            else:
                refused.append(now)
        return admitted, refused

    def _chosen(
        self,
        request: EngineRequest,
        seat: Seat | None,
        prefixes: Sequence[Prefix],
        eligible: Sequence[Server],
        with_place: Sequence[Server],
    ) -> Server:
        if len(with_place) == 1:
            return with_place[0]
        if request.session:
            key = named_key(request.tenant, request.session)
            wanted = home(key, {one.name: one.weight or 1.0 for one in eligible})
            room = float(_GIVES_WAY)
        else:
            wanted, found = self.placing.warmest(prefixes, eligible)
            # A server that would save a tenth of the prompt is worth a tenth of the wait.
            room = _GIVES_WAY * found
        for one in with_place:
            if one.name == wanted and not _crowded(one, eligible, room):
                return one
        capped = any(one.held.caps.latency_tokens is not None for one in with_place)
        if capped and seat is not None and request.chat is not None:
            return self.placing.least(seat, prompt_tokens(request.chat), with_place)
        return min(with_place, key=self._weighed)

    def _weighed(self, one: Server) -> tuple[float, int]:
        assert one.answer_time is not None
        expected_s = one.answer_time.seconds(self._times.mean_s, busy=one.busy)
        return (one.in_flight + 1) * expected_s / (one.weight or 1.0), one.asked

    def _nobody(self) -> Unavailable:
        name = self.servers[0].info.name
        return Unavailable(f"No other replica of the engine '{name}' may be asked.", engine=name)


def _best(admitted: Sequence[tuple[Server, Admission]]) -> list[Server]:
    """Those that are asked: who is to be spared, or stands by, is asked only where there is no other."""
    best = min((now.spared, one.weight == 0) for one, now in admitted)
    return [one for one, now in admitted if (now.spared, one.weight == 0) == best]


def _crowded(one: Server, eligible: Sequence[Server], room: float) -> bool:
    """Tells whether it has more than `room` requests under way above its share."""
    in_flight = sum(other.in_flight for other in eligible)
    weights = sum(other.weight for other in eligible)
    share = one.weight / weights if weights else 1 / len(eligible)
    return one.in_flight >= in_flight * share + room


def _held_tokens(one: Server) -> int:
    return one.held.tokens


def _soonest(refused: Admission) -> float:
    """Seconds until it may be asked again, as far as is known."""
    if refused.opens_in_s is not None:
        return refused.opens_in_s
    assert refused.refusal is not None
    return 1e6 + (refused.refusal.retry_after_s or 0.0)
