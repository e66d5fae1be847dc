"""A component at work: what waits for it, what is under way, and how many texts go into one request.

Several steps, also of several runs, may share a request. A step that leaves takes its texts out of the line; a request that
nobody waits for any more is cancelled, which closes its connection.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, TypeVar

from engines.components.batch import EffectiveBatch
from engines.components.component import ComponentError, Shared, Work
from engines.components.counting import UNCOUNTED, Uncounted
from engines.components.line import DepthLine, Node, Part
from engines.errors import Kind

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741


@dataclass(frozen=True, slots=True)
class Portion(Generic[I]):
    """What one step has in a request."""

    question: Any
    """What all its items share: the query they are reranked by, how many hits are wanted."""
    items: Sequence[I]


ABOUT_CONTENT = frozenset({Kind.INVALID, Kind.TOO_LONG})
"""Failures that may be of one text in a request, or of how many there are, and not of the component."""

Answers = Sequence[O] | ComponentError
"""An answer for each item of a portion, or why there is none."""
Ask = Callable[[Sequence[Portion[I]]], Awaitable[Sequence[Answers[O]]]]
"""Carries out one request: answers in the portions' order. Raises ComponentError where all of it failed."""


@dataclass(slots=True, eq=False)
class _Asked(Generic[I, O]):
    """One call, until all its items are answered."""

    portion: Portion[I]
    work: Work
    done: asyncio.Future[list[O]]
    answers: list[Any]
    left: int
    requests: set[_Request[I, O]] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class _Request(Generic[I, O]):
    """One request under way."""

    parts: list[Part[_Asked[I, O]]]
    name: str
    task: asyncio.Task[None] | None = None

    @property
    def wanted(self) -> bool:
        """Whether somebody still waits for it."""
        return any(not part.node.what.done.done() for part in self.parts)


class Running(Generic[I, O]):
    """One ability of one component. Owns the tasks of its requests until `aclose`."""

    def __init__(
        self,
        name: str,
        ask: Ask[I, O],
        *,
        max_in_flight: int,
        max_queued: int,
        batch: EffectiveBatch,
        told: Uncounted = UNCOUNTED,
        label: str = "",
    ) -> None:
        """`label`: how its requests are called, with a number, where steps tell that they shared one; else its name."""
        self.name = name
        # Steps of one run may be carried out by several processes.
        self._label = f"{label or name}#{secrets.token_hex(4)}"
        self.batch = batch
        self._ask = ask
        self._max_in_flight = max_in_flight
        self._max_queued = max_queued
        self._told = told
        self._line: DepthLine[_Asked[I, O]] = DepthLine()
        self._under_way: set[_Request[I, O]] = set()
        self._numbers = count(1)
        self._due = False
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many items wait."""
        return self._line.items

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return len(self._under_way)

    async def of(self, portion: Portion[I], work: Work) -> list[O]:
        """An answer for each item, in their order. Raises ComponentError."""
        if not portion.items:
            return []
        if self._closed:
            raise self._error("is being closed", Kind.OPEN)
        if len(self._line) >= self._max_queued:
            raise self._error(f"has {len(self._line)} parts of steps in its queue, which is full", Kind.FULL)
        many = len(portion.items)
        asked = _Asked(portion, work, asyncio.get_running_loop().create_future(), [None] * many, many)
        node = Node(work.run, work.depth, work.arrived_s, many, asked)
        self._line.put(node)
        self._told.queued(many)
        self._look_soon()
        try:
            return await asked.done
        finally:
            self._leave(node)

    async def aclose(self) -> None:
        """Cancel what is under way; whoever waits gets a ComponentError."""
        self._closed = True
        for part in self._line.take(self._line.items, time.monotonic()):
            self._told.queued(-part.count)
            self._fail(part.node.what, self._error("was closed", Kind.OPEN))
        tasks = [request.task for request in self._under_way if request.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # ---- what is asked next

    def _look_soon(self) -> None:
        """After what else is ready now: steps that become due together can share a request."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._due = False
        free = self._max_in_flight - len(self._under_way)
        if self._closed or free <= 0 or not self._line.items:
            return
        size = self.batch.to_send
        parts = self._line.take(free * size, time.monotonic())
        self._told.queued(-sum(part.count for part in parts))
        # Whoever has left is about to notice.
        wanted = [part for part in parts if not part.node.what.done.done()]
        for packed in _packed(wanted, size):
            self._begin(packed)
        if len(wanted) < len(parts):
            self._look_soon()

    def _begin(self, parts: list[Part[_Asked[I, O]]]) -> None:
        request = _Request(parts, f"{self._label}-{next(self._numbers)}")
        self._under_way.add(request)
        for part in parts:
            part.node.what.requests.add(request)
        request.task = asyncio.get_running_loop().create_task(self._carry_out(request), name=request.name)

    async def _carry_out(self, request: _Request[I, O]) -> None:
        parts, began = request.parts, time.monotonic()
        portions = [_cut_out(part) for part in parts]
        size = sum(part.count for part in parts)
        self._told.begun()
        try:
            found = await self._found(portions, size)
            took_s = time.monotonic() - began
            if not any(isinstance(answers, ComponentError) for answers in found):
                self.batch.took(size, took_s)
                self._told.answered(size, took_s)
            for part, portion, answers in zip(parts, portions, found, strict=True):
                self._answered(request, part, portion, answers, began, took_s, size)
        except asyncio.CancelledError:
            for part in parts:
                self._fail(part.node.what, self._error("was closed", Kind.OPEN))
            raise
        except Exception as error:
            # A fault of ours must not leave anybody waiting for ever.
            self._told.failed(Kind.BROKEN)
            for part in parts:
                self._fail(
                    part.node.what, self._error(f"failed here ({type(error).__name__})", Kind.BROKEN, error)
                )
        finally:
            self._told.ended()
            self._under_way.discard(request)
            for part in parts:
                part.node.what.requests.discard(request)
            self._look_soon()

    async def _found(self, portions: Sequence[Portion[I]], size: int) -> Sequence[Answers[O]]:
        """The answers, or why there are none. What is refused in a request of several steps, or in one larger than is known
        to be taken, is asked again by itself: one step's text must not fail another's."""
        found = await self._asked(portions)
        if len(portions) == 1 and size <= self.batch.size:
            return found
        again = [
            place
            for place, answers in enumerate(found)
            if isinstance(answers, ComponentError) and answers.kind in ABOUT_CONTENT
        ]
        for place in again:
            found[place] = await self._alone(portions[place])
        if again and size > self.batch.size and not any(isinstance(one, ComponentError) for one in found):
            self.batch.refused()
        return found

    async def _asked(self, portions: Sequence[Portion[I]]) -> list[Answers[O]]:
        try:
            return list(await self._ask(portions))
        except ComponentError as error:
            return [error] * len(portions)

    async def _alone(self, portion: Portion[I]) -> Answers[O]:
        found: list[O] = []
        for start in range(0, len(portion.items), self.batch.size):
            items = portion.items[start : start + self.batch.size]
            answers = (await self._asked([Portion(portion.question, items)]))[0]
            if isinstance(answers, ComponentError):
                return answers
            found.extend(answers)
        return found

    def _answered(
        self,
        request: _Request[I, O],
        part: Part[_Asked[I, O]],
        portion: Portion[I],
        answers: Answers[O],
        began: float,
        took_s: float,
        size: int,
    ) -> None:
        asked = part.node.what
        if isinstance(answers, ComponentError):
            self._told.failed(answers.kind)
            self._fail(asked, answers)
            return
        if len(answers) != len(portion.items):
            text = f"answered {len(answers)} of {len(portion.items)} items"
            self._fail(asked, self._error(text, Kind.INVALID))
            return
        waited_s = max(0.0, began - asked.work.arrived_s)
        self._told.waited(waited_s)
        asked.work.shared.append(Shared(request.name, part.count, size, waited_s, took_s))
        asked.answers[part.start : part.start + part.count] = answers
        asked.left -= part.count
        if asked.left == 0 and not asked.done.done():
            asked.done.set_result(asked.answers)

    def _fail(self, asked: _Asked[I, O], error: ComponentError) -> None:
        if not asked.done.done():
            asked.done.set_exception(error)

    def _leave(self, node: Node[_Asked[I, O]]) -> None:
        """Its call has ended: nothing more is asked for it."""
        left = node.left
        if self._line.remove(node):
            self._told.queued(-left)
        for request in list(node.what.requests):
            if not request.wanted and request.task is not None:
                request.task.cancel()

    def _error(self, what: str, kind: Kind, cause: Exception | None = None) -> ComponentError:
        error = ComponentError(f"The component '{self.name}' {what}.", component=self.name, kind=kind)
        error.__cause__ = cause
        return error


def _cut_out(part: Part[_Asked[I, O]]) -> Portion[I]:
    portion = part.node.what.portion
    if part.count == len(portion.items):
        return portion
    return Portion(portion.question, portion.items[part.start : part.start + part.count])


def _packed(parts: Sequence[Part[_Asked[I, O]]], size: int) -> list[list[Part[_Asked[I, O]]]]:
    """The same in requests of at most `size` items."""
    packed: list[list[Part[_Asked[I, O]]]] = []
    room = 0
    for part in parts:
        start, left = part.start, part.count
        while left:
            if room == 0:
                packed.append([])
                room = size
            many = min(room, left)
            packed[-1].append(Part(part.node, start, many))
            start, left, room = start + many, left - many, room - many
    return packed
