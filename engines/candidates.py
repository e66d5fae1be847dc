"""The engines of a plan are asked in turns: this says which one is next, and how often.

In the order of the plan, each engine that may be asked now; one that failed is asked again after all others, but for its
other replicas, which are asked before other engines. Some may be asked only once another is down, which slowness is not.
Only where none may be asked now, one is waited for. Refuses to know what answers look like, and which replica suits best.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from engines.engine import Engine, EngineRequest, admission
from engines.errors import Kind, Unavailable
from engines.too_long import surely_too_long
from engines.trail import Tried

MOST_TRIES = 6
"""For one request, at all engines together."""
MAX_WAIT_S = 5.0
"""A longer wait is better spent by the client."""
_SHORT_LIMIT_S = 2.0
"""A rate limit that the first request to meet it waits for, also beside a stand-in: it finds out for all others."""
_FIRST_PAUSE_S = 0.2
_AGAIN = frozenset({Kind.SERVER, Kind.BROKEN, Kind.CONNECT, Kind.DNS, Kind.LIMITED})
"""What may be over at the next try. A timeout would take as long again, and a refusal is meant."""
_NO_OUTAGE = frozenset({Kind.TIMEOUT_FIRST_DATA, Kind.TIMEOUT_GAP, Kind.TIMEOUT_ANSWER, Kind.TOO_LONG})
"""The engine is up: it is slow, or the request is at fault."""
_CLIENT_TIMEOUTS = ("x-stainless-read-timeout", "x-stainless-timeout")
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]*)?")


@dataclass(frozen=True, slots=True)
class Try:
    """One engine and what to ask it."""

    engine: Engine
    request: EngineRequest
    in_outage: bool = False
    """It is asked only once another engine is down, and never to carry on another's answer."""


@dataclass(slots=True, eq=False)
class Candidate:
    """One of them, and how it fared with this request."""

    index: int
    """Its place in the plan; that of the larger engine comes after the last."""
    engine: Engine
    request: EngineRequest
    in_outage: bool = False
    """See Try."""
    tried: int = 0
    over: bool = False
    """It is not asked (again)."""
    probes: bool = False
    """It was the first to meet a limit that ends soon: it waits, and finds out for all others."""
    refused: bool = False
    """It could not be asked when it was its turn."""
    instructed: bool = False
    """Whether the engine refused the partial answer as the last message (engines.seam)."""
    asked_at: set[str] = field(default_factory=set)
    """Those of its replicas that were asked."""
    left_alone: set[str] = field(default_factory=set)
    """Those of its replicas that are not asked again."""
    not_at: frozenset[str] = frozenset()
    """Where it is not asked next."""

    @property
    def name(self) -> str:
        """Its engine's name."""
        return self.engine.info.name

    @property
    def elsewhere(self) -> bool:
        """Tells whether it is to be asked at another replica than before."""
        return bool(self.asked_at) and self.asked_at <= self.not_at

    def turns(self) -> list[tuple[int, Candidate, frozenset[str]]]:
        """When its turns are, counted in tries, and where it is not asked then: at another replica as if it were new."""
        again = (self.tried, self, frozenset(self.left_alone))
        if not self.asked_at or not self.replicas_left:
            return [again]
        return [(0, self, frozenset(self.asked_at | self.left_alone)), again]

    @property
    def replicas_left(self) -> bool:
        """Tells whether it has replicas that were not asked."""
        return bool(frozenset(self.engine.info.replicas) - self.request.not_at - self.asked_at)

    def at(self, not_at: frozenset[str]) -> EngineRequest:
        """Makes the request for it, if some of its replicas are not to be asked."""
        return replace(self.request, not_at=self.request.not_at | not_at) if not_at else self.request


_Turn = tuple[Candidate | None, frozenset[str]]
"""One that is asked, and where it is not."""
_NOBODY: _Turn = None, frozenset()


class Candidates:
    """The engines of one plan. `larger` is asked only where a request is too long, and then first."""

    def __init__(self, tries: Sequence[Try], larger: Try | None = None) -> None:
        self._order = [
            Candidate(index, one.engine, one.request, one.in_outage) for index, one in enumerate(tries)
        ]
        self._larger = Candidate(len(tries), larger.engine, larger.request) if larger is not None else None
        self._replicated = any(one.engine.info.replicas for one in self._order)
        self._tries: dict[str, int] = {}
        """By each engine's name."""
        self._asked = 0
        self._ended = False
        self._outage = False
        """An engine is down that was to answer."""
        self._first_of_all: Candidate | None = None
        """It is asked next, whoever stands by."""
        self._waits_until: float | None = None
        """Set once nobody could be asked at once (time.monotonic)."""
        self.refusal: Unavailable | None = None
        """Why the first one could not be asked that was refused when it was its turn."""
        self.trail: list[Tried] = []
        self._pass_over_small_windows()
        self.planned = next(one for one in self._order if not one.over)
        """Who is to answer. All others stand in."""

    @property
    def for_longer(self) -> bool:
        """Tells whether there is an engine for what is too long for one."""
        return self.several or self._larger is not None

    @property
    def several(self) -> bool:
        """Tells whether another engine, or another replica, could do better than one."""
        return self._replicated or len(self._order) > 1

    def next(self) -> Candidate | None:
        """Chooses the one that is asked now; None if nobody can be."""
        if self._ended or self._asked >= MOST_TRIES:
            return None
        found, self._first_of_all = self._first_of_all, None
        if found is not None and self._may_be_asked(found):
            found.not_at = frozenset(found.left_alone)
            return found
        if not self.several:
            return next(filter(self._may_be_asked, self._order), None)
        found, not_at = self._best(self._left())
        if found is not None:
            found.not_at = not_at
        return found

    def _best(self, left: Sequence[tuple[Candidate, frozenset[str]]]) -> _Turn:
        """The first that may be asked; else one that is to be spared; else one to be waited for; else none."""
        spared: _Turn = _NOBODY
        waiting: list[tuple[float, Candidate, frozenset[str]]] = []
        for candidate, not_at in left:
            if candidate.in_outage and not self._outage:
                continue
            now = admission(candidate.engine, candidate.at(not_at))
            if now.refusal is not None:
                if not_at == candidate.left_alone:
                    self._refused(candidate, now.refusal)
                if now.opens_in_s is not None and now.opens_in_s <= self._wait_s:
                    waiting.append((now.opens_in_s, candidate, not_at))
            elif not now.spared:
                if spared[0] is not None and spared[0] is not candidate:
                    self._passed_over(spared[0], Kind.LIMITED, "Its rate limit is nearly used up.")
                return candidate, not_at
            elif spared is _NOBODY:
                spared = candidate, not_at
        if spared is _NOBODY and waiting:
            if self._waits_until is None:
                self._waits_until = time.monotonic() + MAX_WAIT_S
            spared = min(waiting, key=lambda one: one[0])[1:]
        return spared

    def asked(self, candidate: Candidate, *, continuable: bool) -> EngineRequest:
        """Makes its request, which is counted: by shorter limits where another could answer, else it may be waited for."""
        request = candidate.at(candidate.not_at)
        standing_by = self._standing_by(candidate) if self.several else []
        # Who stands by for an outage alone is none for whom a slow engine is left.
        beside = [one for one in standing_by if not one.in_outage]
        candidate.tried += 1
        self._asked += 1
        self._tries[candidate.name] = self._tries.get(candidate.name, 0) + 1
        return replace(
            request,
            beside_stand_in=bool(beside),
            continuable=continuable and any(one.engine.info.continues != "off" for one in beside),
            client_timeout_s=_client_timeout_s(request),
            wait_s=0.0 if standing_by and not candidate.probes else self._wait_s,
        )

    def pause_s(self, candidate: Candidate) -> float:
        """How long to wait before it is asked again."""
        if not candidate.tried or candidate.elsewhere:
            return 0.0
        # Full jitter: clients that failed together must not come back together.
        return random.uniform(0.0, min(MAX_WAIT_S, _FIRST_PAUSE_S * 2 ** (candidate.tried - 1)))

    def failed(
        self,
        candidate: Candidate,
        kind: Kind,
        limited_s: float | None = None,
        *,
        replica: str = "",
        alike: bool = False,
        once: bool = False,
    ) -> None:
        """It did not answer. `limited_s`: it is the first to say that it is limited, for so long.

        `replica`: which of its replicas it was; `alike`: the others would say the same. `once`: that is often over at the
        next try, so who is to answer is tried again before others.
        """
        self.left_off(candidate, replica)
        self._outage |= kind not in _NO_OUTAGE
        if kind not in _AGAIN:
            candidate.left_alone |= {replica}
            candidate.over = alike or kind is Kind.TOO_LONG or not self._has_replica_left(candidate)
        elif self._other_replica_admitted(candidate):
            pass
        elif limited_s is not None and limited_s <= _SHORT_LIMIT_S:
            candidate.probes = True
            self._first_of_all = candidate
        elif once and candidate is self.planned and candidate.tried == 1:
            admitted = admission(candidate.engine, candidate.at(frozenset(candidate.left_alone))).admitted
            self._first_of_all = candidate if admitted else None
        if kind is Kind.TOO_LONG:
            self._by_window()

    def left_off(self, candidate: Candidate, replica: str) -> None:
        """A replica of it failed, or broke off: the others come first."""
        if replica:
            candidate.asked_at.add(replica)

    def refused(self, candidate: Candidate, refusal: Unavailable) -> None:
        """Its guard did not let the request through."""
        candidate.over = True
        self._refused(candidate, refusal)

    def spare(self, candidate: Candidate) -> None:
        """A student or a cascade had nothing to say: what follows is as if it had not been planned."""
        self._order.remove(candidate)
        self._asked -= 1
        self.planned = self._order[0]

    def instruct(self, candidate: Candidate) -> None:
        """Note that an engine refused the partial answer; next it is asked to repeat the end. That was no try."""
        candidate.instructed = True
        self._tries[candidate.name] -= 1
        self._first_of_all = candidate

    def carry_on(self, began: Candidate, *, beginning: bool) -> None:
        """From here on there is a partial answer of `began`, which not every engine may go on with; nor can where there is
        a `beginning` to be given."""
        self._order = [
            one
            for one in self._order
            if (one is began or not one.in_outage) and not (beginning and one.engine.info.continues == "off")
        ]

    def end(self) -> None:
        """Nobody is to be asked any more."""
        self._ended = True

    @property
    def _wait_s(self) -> float:
        """How long it may still wait for engines, all together."""
        return MAX_WAIT_S if self._waits_until is None else max(0.0, self._waits_until - time.monotonic())

    def _refused(self, candidate: Candidate, refusal: Unavailable) -> None:
        self.refusal = self.refusal or refusal
        self._outage = True
        self._passed_over(candidate, refusal.kind, refusal.message)

    def _passed_over(self, candidate: Candidate, kind: Kind, why: str) -> None:
        if not candidate.refused:
            candidate.refused = True
            self.trail.append(Tried(candidate.name, "", kind, 0, 0.0, why))

    def _left(self) -> list[tuple[Candidate, frozenset[str]]]:
        turns = [turn for one in self._order if self._may_be_asked(one) for turn in one.turns()]
        turns.sort(key=lambda turn: turn[0])
        return [(candidate, not_at) for _, candidate, not_at in turns]

    @staticmethod
    def _has_replica_left(candidate: Candidate) -> bool:
        left = frozenset(candidate.engine.info.replicas) - candidate.request.not_at - candidate.left_alone
        return bool(left)

    def _other_replica_admitted(self, candidate: Candidate) -> bool:
        return (
            candidate.replicas_left
            and self._may_be_asked(candidate)
            and admission(candidate.engine, candidate.at(frozenset(candidate.asked_at))).admitted
        )

    def _may_be_asked(self, candidate: Candidate) -> bool:
        return not candidate.over and self._tries.get(candidate.name, 0) < candidate.engine.info.attempts

    def _standing_by(self, beside: Candidate) -> list[Candidate]:
        """Finds those that were not tried yet and could answer now: other engines, and itself for its other replicas."""
        found: list[Candidate] = []
        if beside.engine.info.replicas and self._tries.get(beside.name, 0) + 1 < beside.engine.info.attempts:
            not_yet = frozenset(beside.asked_at | beside.left_alone)
            if admission(beside.engine, beside.at(not_yet)).others:
                found.append(beside)
        found.extend(
            other
            for other in self._order
            if not other.tried
            and not other.over
            and other.name != beside.name
            and admission(other.engine, other.request).admitted
        )
        return found

    def _pass_over_small_windows(self) -> None:
        small = [one for one in self._order if _surely_too_long(one)]
        if not small:
            return
        for one in small:
            one.over = True
        if small[0] is self._order[0]:
            self._by_window()
        if all(one.over or one.in_outage for one in self._order):
            # It is for one of them to say so.
            for one in small:
                one.over = False
            return
        for one in small:
            self._passed_over(one, Kind.TOO_LONG, "The request is longer than its context.")

    def _by_window(self) -> None:
        """The largest window first; those that are not known last."""
        self._order.sort(key=lambda one: -(one.engine.info.context_tokens or 0))
        if self._larger is not None and not _surely_too_long(self._larger):
            self._order.insert(0, self._larger)
            self._larger = None


def _surely_too_long(candidate: Candidate) -> bool:
    chat = candidate.request.chat
    return chat is not None and surely_too_long(chat, candidate.engine.info.context_tokens)


def _client_timeout_s(request: EngineRequest) -> float | None:
    """How long the client waits, as OpenAI's SDKs tell; None where it does not, or it makes no sense."""
    told = [request.headers.get(name, "") for name in _CLIENT_TIMEOUTS]
    limits_s = [float(text) for text in told if _NUMBER.fullmatch(text)]
    return min((limit_s for limit_s in limits_s if limit_s > 0), default=None)
