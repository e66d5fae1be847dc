"""The door that steps of runs are asked by: each is let in, limited, answered and booked as a request of its client."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from multidict import CIMultiDict

from engines.chat import ChatRequest, prompt_tokens
from engines.engine import Price
from engines.errors import EngineError
from engines.placement import Placement
from gateway.admission import Admission
from gateway.runs.caller import Caller
from gateway.runs.step_send import StepSend
from gateway.send import ClientGone, Send, Watched
from router.asked import Admitted, Asked
from router.finished import Finished, Outcome
from store.decisions.usage import Amounts, Used
from store.errors import StoreBusy
from workflows.running import door
from workflows.running.door import Answered, Begun

Answer = Callable[[Asked, Send], Awaitable[Finished]]
LetIn = Callable[[Mapping[str, Any]], Awaitable[Admitted]]
"""Of a step's chat completion: see Admission.carried_out."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client whose own request carries a step out."""

    send: Send
    let_in: LetIn
    """Admits the request once its inputs are there."""


@dataclass(frozen=True)
class StepDoor:
    """See workflows.running.door.Door. `answer` is Pipeline.answer; `admission` lets each step in, with what its client may
    do when it is asked."""

    answer: Answer
    admission: Admission
    may_ask: Callable[[str], bool] = lambda model: True
    prices: Callable[[str], Mapping[str, Price]] = lambda model: {}
    most: Callable[[ChatRequest], tuple[float, int]] = lambda chat: (0.0, 0)
    """Features.most at the prices of the model."""
    began: Callable[[], object] = lambda: None
    """Called for each step that goes to the pipeline by itself."""
    booked: Callable[[Used], object] | None = None
    """Takes what a component has charged; None: nobody sums it up."""

    async def ask(
        self,
        caller: door.Caller,
        chat: ChatRequest,
        placement: Placement,
        said: Callable[[str], object],
        max_text_bytes: int,
        begun: Begun,
    ) -> Answered | None:
        """See Door."""
        assert isinstance(caller, Caller)
        send = StepSend(said, max_text_bytes=max_text_bytes)

        async def ask(admitted: Admitted) -> Answered | None:
            if not await begun(admitted.id):
                return None
            self.began()
            asked = caller.asked(admitted, chat, placement)
            return _answered(asked, send, await self.answer(asked, send))

        try:
            return await self.admission.step(caller.arrival, chat.own_fields, ask)
        except ClientGone:
            # It was broken off here.
            return Answered(too_large=True)

    async def call(
        self,
        caller: door.Caller,
        chat: ChatRequest,
        placement: Placement,
        said: Callable[[str], object],
        max_text_bytes: int,
        client: Client,
        run_id: str,
        noted: Callable[[str], object],
    ) -> Answered:
        """See Door. Raises as `client.let_in` and Pipeline.answer do."""
        assert isinstance(caller, Caller)
        own = StepSend(said, max_text_bytes=max_text_bytes)
        asked = caller.asked(await client.let_in(chat.own_fields), chat, placement)
        noted(asked.arrival.id)
        return _answered(asked, own, await self.answer(asked, Watched(client.send, _Reading(own, run_id))))

    def component(self, caller: door.Caller, name: str) -> Admitted:
        """See Door."""
        assert isinstance(caller, Caller)
        return self.admission.component(caller.arrival(), name)

    async def reserve(self, admitted: Admitted, name: str, usd: float) -> door.Bill | None:
        """See Door."""
        return await self.admission.reserve(admitted, name, usd)

    def book(self, admitted: Admitted, name: str, items: int, usd: float) -> None:
        """See Door."""
        if self.booked is not None:
            amounts = Amounts(requests=items, cost_usd=usd)
            with suppress(StoreBusy):
                self.booked(
                    Used(
                        time.time(), admitted.tenant, amounts, "component", admitted.key_id or "", engine=name
                    )
                )

    def caller(self, tenant: str, kept: Mapping[str, Any]) -> Caller:
        """See Door."""
        return Caller.read(tenant, kept)


def _answered(asked: Asked, send: StepSend, finished: Finished) -> Answered:
    usage = send.used(prompt_tokens(asked.chat.messages))
    hit = finished.outcome is Outcome.HIT
    return Answered(
        send.status,
        send.text,
        send.refusal,
        send.broken,
        send.too_large,
        bool(send.calls) and not send.text,
        send.finish_reason,
        finished.engine,
        next((tried.replica for tried in finished.trail if tried.kind is None), ""),
        max(0.0, finished.asked_at - asked.arrival.began) if finished.asked_at else None,
        usage,
        0.0 if hit or usage is None else finished.price.cost_usd(usage) or 0.0,
        hit,
        not (finished.by_stand_in or finished.by_student or finished.replay_forbidden),
        send.calls,
    )


class _Reading:
    """Lets a run read the answer to its client along. See gateway.send.Watcher."""

    def __init__(self, run: StepSend, run_id: str) -> None:
        self._run = run
        self._run_id = run_id

    def begins(self, status: int, headers: CIMultiDict[str]) -> None:
        """See Watcher."""
        headers["x-understudy-run"] = self._run_id
        self._run.begins(status, headers)

    def feed(self, chunk: bytes) -> None:
        """See Watcher."""
        if not self._run.too_large:
            # Too large for a variable: the client gets its answer all the same.
            with suppress(ClientGone):
                self._run.feed(chunk)

    def ends(self, error: EngineError | None = None) -> None:
        """See Watcher."""
        self._run.ends(error)

    def goes_on(self) -> bool:
        """See Watcher."""
        return False
