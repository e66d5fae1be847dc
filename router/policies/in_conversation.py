"""Tells a policy where a request stands in its conversation, and keeps a tool loop at the engine that it began at.

What a turn costs is weighed by the policy beneath (router.turns.turn). A policy that weighs no costs is held to the same
here: it does not leave an engine for a smaller one where that would cost more than it saves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from router.plan import STAYS, TOOL_LOOP, Ask, Attempt, Plan, Policy
from router.turns.conversations import Conversations
from router.turns.naming import named_by
from router.turns.turn import Turn
from store.decisions.sessions import LatestAnswer
from store.errors import StoreError

Elsewhere = Callable[[str, str, str], Awaitable[LatestAnswer | None]]
"""Finds the latest answer of a tenant's conversation, by its client's name for it and the model, whoever gave it."""
_LARGE_BYTES = 64 * 1024
"""A larger prompt is hashed on a thread."""


class InConversation:
    """Implements router.plan.Policy around another."""

    def __init__(
        self,
        inner: Policy,
        conversations: Conversations,
        engines: Sequence[str],
        elsewhere: Elsewhere | None = None,
        hold: Callable[[str], None] | None = None,
    ) -> None:
        """`engines`: of the model, from small to large; the last is the reference. `elsewhere`: None where no other worker
        answers requests. `hold`: told whose answer a small engine gives unproven (router.proving.gate.Gate.hold)."""
        self.inner = inner
        self.name = inner.name
        self._conversations = conversations
        self._engines = tuple(engines)
        self._elsewhere = elsewhere
        self._hold = hold

    async def decide(self, ask: Ask) -> Plan:
        """See router.plan.Policy."""
        if ask.anonymous:
            return await self.inner.decide(ask)
        if len(ask.chat.body) > _LARGE_BYTES:
            ask = await asyncio.to_thread(self._conversations.placed, ask, self._engines)
        else:
            ask = self._conversations.placed(ask, self._engines)
        if self._elsewhere is not None:
            ask = await self._joined(ask, self._elsewhere)
        assert ask.turn is not None
        plan = await self.inner.decide(ask)
        wanted = plan.attempts[0].engine != self._engines[-1] if plan.choice is None else plan.choice.wanted
        self._conversations.decided(ask.turn, wanted=wanted)
        kept = plan if ask.forced else self._kept(plan, ask, ask.turn)
        return replace(kept, turn=ask.turn)

    async def _joined(self, ask: Ask, elsewhere: Elsewhere) -> Ask:
        assert ask.turn is not None
        said = sum(message.get("role") == "assistant" for message in ask.chat.messages)
        name = named_by(ask.named_session, ask.chat.own_fields) if said > ask.turn.number else ""
        # With end users kept apart, a name is one of theirs.
        if not name or ask.end_user:
            return ask
        try:
            latest = await elsewhere(ask.tenant, name, ask.chat.model)
        except StoreError:
            # Late or broken: by what this worker knows.
            return ask
        if latest is None or latest.engine not in self._engines:
            return ask
        age_s = max(0.0, time.time() - latest.started_at_s)
        there = latest.engine, latest.prompt_tokens, age_s
        return self._conversations.joined(ask, self._engines, said, *there)

    def _kept(self, plan: Plan, ask: Ask, turn: Turn) -> Plan:
        """The plan, where it may be carried out; else one that stays with who answered before."""
        engine = plan.attempts[0].engine
        if turn.in_tool_loop and turn.engine and engine != turn.engine:
            if self._hold is not None:
                self._hold(ask.tenant)
            found = (plan.found,) if ask.examples and plan.found is not None else ()
            asked = (*found, *plan.attempts, Attempt(turn.engine))
            first = next(each for each in asked if each.engine == turn.engine)
            return replace(
                plan,
                attempts=(first, *(each for each in plan.attempts if each.engine != turn.engine)),
                reason=TOOL_LOOP,
                probability=1.0,
                choice=None,
                proof=None,
                shadow=(),
            )
        if engine in turn.kept_out:
            others = tuple(each for each in plan.attempts if each.engine not in turn.kept_out)
            stays = replace(plan.without_small(), reason=TOOL_LOOP if turn.in_tool_loop else STAYS)
            return replace(stays, attempts=others, probability=1.0)
        return plan
