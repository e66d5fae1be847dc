"""Requests that wait for a place at an engine, in their order: one line before all replicas of it.

Each that waits brings what takes a place for it: whoever has one first, of those that it may go to. The order is that of
engines.servers.order. Refuses to know who may be asked, and why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from engines.chat import CHARACTERS_PER_TOKEN, ChatRequest
from engines.engine import EngineRequest
from engines.errors import EngineError
from engines.placement import BACKGROUND, PLAIN, Placement, Rank
from engines.servers.caps import Caps, Held
from engines.servers.order import Order, Verdict, Waiting

_ANSWER_TOKENS = 512
"""Of an answer before any was seen."""
_PART_TOKENS = 500
"""Of a part of a message that is no text: an image takes 85 to 1,500."""


class Place(Protocol):
    """A place answers requests: so many at a time, and so many tokens."""

    held: Held

    @property
    def has_place(self) -> bool:
        """Tells whether one more could be taken in, its tokens aside."""
        ...


@dataclass(slots=True, eq=False)
class _Turn:
    take: Callable[[], bool]
    place: asyncio.Future[None]


Seat: TypeAlias = Waiting[Any]
"""A request as the line and the places count it."""


class Line:
    """At most `most` plain calls wait. Who is first in the order is first given a place that it can take.

    Steps of runs are not counted: what a run may hold is bounded where it is accepted, and what was accepted is not refused.
    """

    __slots__ = (
        "_clock",
        "_order",
        "_places",
        "_plain",
        "_reserved",
        "answer_tokens",
        "counts",
        "most",
        "on_change",
    )

    def __init__(
        self, most: int, caps: Caps | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`caps`: of each place."""
        self.most = most
        self.answer_tokens: float | None = None
        """How long answers lately were; None before the first."""
        self.counts = caps is not None and caps.any
        """Whether requests take tokens of a place, and not only the place: then each needs a seat. Without caps they do once
        there are steps, which are placed by what the places hold."""
        self.on_change: Callable[[Rank, int], None] = _nobody
        """Told by how many more or fewer of a class wait."""
        self._clock = clock
        self._order: Order[_Turn] = Order()
        self._plain = 0
        self._places: list[Place] = []
        self._reserved: set[Place] = set()

    def serves(self, place: Place) -> None:
        """Requests in this line may be given a place there."""
        self._places.append(place)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._order)

    @property
    def queued(self) -> Mapping[str, int]:
        """How many wait, by class."""
        return {rank.label: waiting for rank, waiting in self._order.waiting.items()}

    @property
    def full(self) -> bool:
        """Tells whether no other plain call may wait."""
        return self._plain >= self.most

    @property
    def shared(self) -> bool:
        """Tells whether several replicas serve it."""
        return len(self._places) > 1

    def is_first(self, place: Place) -> bool:
        """Tells whether it is the first that serves this line: for what is to be told of a line once."""
        return self._places[0] is place

    # ---- places that are kept free

    @property
    def holds_back(self) -> bool:
        """Tells whether a place is kept free for somebody who waits: then who comes waits for a turn."""
        return bool(self._reserved)

    def keep(self, place: Place) -> None:
        """Nobody whose turn comes later is given this place, until `look` begins anew: what waits for it would starve."""
        self._reserved.add(place)

    def keeps(self, place: Place) -> bool:
        """Tells whether it is kept free for somebody else."""
        return place in self._reserved

    # ---- waiting

    def seat(self, request: EngineRequest) -> Seat:
        """Tells the tokens that a request takes."""
        placement = request.placement or (BACKGROUND if request.background else PLAIN)
        tokens = placement.expected_tokens or expected_tokens(request, self.answer_tokens)
        return Waiting(None, placement, request.tenant, tokens, self._clock())

    def is_overdue(self, seat: Seat) -> bool:
        """Tells whether it has waited so long that any place is better than a good one."""
        return self._clock() - seat.since_s >= self._order.promote_s

    async def wait(self, seat: Seat, take: Callable[[], bool], give_back: Callable[[], None]) -> None:
        """Return once `take` took a place, which says whether it did. Who waits again waits by the order it came with.

        Raises the EngineError that it raises: then none is to be had. `give_back`: its place, where it left at the very
        moment it was given one.
        """
        turn = seat.what = _Turn(take, asyncio.get_running_loop().create_future())
        plain = not seat.placement.run
        self._order.put(seat)
        self._plain += plain
        self.on_change(seat.placement.rank, 1)
        try:
            self.look()
            await turn.place
        except BaseException:
            if turn.place.done() and not turn.place.cancelled() and turn.place.exception() is None:
                give_back()
            elif self._order.remove(seat):
                # What was kept free for it may suit another.
                self.look()
            raise
        finally:
            self._plain -= plain
            self.on_change(seat.placement.rank, -1)

    def look(self) -> None:
        """A place may be free: whoever can take one is given it."""
        self._reserved.clear()
        if not len(self._order):
            return
        now = self._clock()
        while self._order.take(now, self._judge) is not None:
            self._reserved.clear()

    def move(self, placement_of: Callable[[Placement], Placement]) -> None:
        """More is known of runs: each that waits is given the placement that this makes of its own."""
        for one in self._order:
            before = one.placement.rank
            self._order.change(one, placement_of(one.placement))
            if one.placement.rank is not before:
                self.on_change(before, -1)
                self.on_change(one.placement.rank, 1)
        self.look()

    def _judge(self, one: Waiting[_Turn]) -> Verdict:
        if not any(place.has_place and place not in self._reserved for place in self._places):
            return Verdict.FULL
        turn = one.what
        if turn.place.done():
            # Its client has left, and its task is about to notice.
            self._order.remove(one)
            return Verdict.WAITS
        try:
            if not turn.take():
                return Verdict.WAITS
        except EngineError as error:
            self._order.remove(one)
            turn.place.set_exception(error)
            return Verdict.WAITS
        turn.place.set_result(None)
        return Verdict.STARTS


def _nobody(rank: Rank, more: int) -> None:
    pass


def expected_tokens(request: EngineRequest, answer_tokens: float | None = None) -> int:
    """Estimates the tokens that a request holds at its end: its prompt, and an answer as they lately were."""
    chat = request.chat
    if chat is None:
        return 1 + (len(request.body) // CHARACTERS_PER_TOKEN if isinstance(request.body, bytes) else 0)
    answer = _ANSWER_TOKENS if answer_tokens is None else int(answer_tokens)
    limit = chat.fields.get("max_completion_tokens") or chat.fields.get("max_tokens")
    if isinstance(limit, int) and limit > 0:
        answer = min(answer, limit)
    return 1 + prompt_tokens(chat) + answer * chat.choices


def prompt_tokens(chat: ChatRequest) -> int:
    """Looks at no character: its time grows with the number of messages alone."""
    characters = others = 0
    for message in chat.messages:
        content = message.get("content")
        if isinstance(content, str):
            characters += len(content)
        elif isinstance(content, list):
            for part in content:
                text = part.get("text") if isinstance(part, dict) else None
                characters += len(text) if isinstance(text, str) else 0
                others += not isinstance(text, str)
    return characters // CHARACTERS_PER_TOKEN + others * _PART_TOKENS + 4 * len(chat.messages)
