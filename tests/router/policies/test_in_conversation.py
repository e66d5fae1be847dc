"""A policy knows where a request stands in its conversation, and no tool loop is left."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from engines.chat import ChatRequest, Usage
from engines.engine import EngineInfo, EngineLoad, Price
from router.plan import STAYS, TOOL_LOOP, Ask, Attempt, Plan
from router.policies.in_conversation import InConversation
from router.proving.gate import Gate
from router.turns.conversations import Conversations
from store.decisions.sessions import LatestAnswer
from store.reading import ReadLate

LONG = "Read this. " * 20_000
CALLS = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
RESULT = {"role": "tool", "content": "42", "tool_call_id": "c"}


@dataclass
class Engine:
    name: str
    price: Price
    info: EngineInfo = field(init=False)

    def __post_init__(self) -> None:
        self.info = EngineInfo(self.name, price=self.price, cache_ttl_s=300.0)

    def load(self) -> EngineLoad:
        return EngineLoad()


@dataclass
class Given:
    """A policy that says what a test wants."""

    engine: str = "small"
    name: str = "given"
    asked: list[Ask] = field(default_factory=list)

    async def decide(self, ask: Ask) -> Plan:
        self.asked.append(ask)
        other = "large" if self.engine == "small" else "small"
        return Plan((Attempt(self.engine), Attempt(other)), self.name, "1", "given")


@dataclass
class Site:
    inner: Given = field(default_factory=Given)

    def __post_init__(self) -> None:
        engines = {
            "small": Engine("small", Price(1.0, 5.0, 0.1, 1.25)),
            "large": Engine("large", Price(5.0, 25.0, 0.5, 6.25)),
        }
        self.known = Conversations(engines)  # type: ignore[arg-type]
        self.policy = InConversation(self.inner, self.known, ("small", "large"))

    async def turn(self, engine: str, *messages: Any, **more: Any) -> Plan:
        """Asked, decided for `engine` by the policy beneath, and answered by who was planned."""
        self.inner.engine = engine
        roles = ("user", "assistant")
        said = [
            {"role": roles[at % 2], "content": one} if isinstance(one, str) else one
            for at, one in enumerate(messages)
        ]
        chat = ChatRequest(b"", {}, "m", said, stream=False, include_usage=False)
        plan = await self.policy.decide(Ask(chat, "t", **more))
        if plan.turn is not None:
            tokens = plan.turn.prompt_tokens
            usage = Usage(tokens, 10, cache_write_tokens=tokens)
            self.known.answered(plan.turn, plan.attempts[0].engine, chat, "t", usage)
        return plan


@pytest.mark.parametrize(("began", "then"), [("small", "large"), ("large", "small")])
async def test_a_tool_loop_stays_where_it_began(began: str, then: str) -> None:
    site = Site()
    await site.turn(began, LONG)
    plan = await site.turn(then, LONG, CALLS, RESULT)
    assert (plan.attempts[0].engine, plan.reason, plan.probability) == (began, TOOL_LOOP, 1.0)
    assert plan.choice is None and plan.shadow == ()


async def test_who_stays_in_a_tool_loop_without_proof_is_counted_as_lost() -> None:
    site, gate = Site(), Gate(("small",), 0.05)
    site.policy = InConversation(site.inner, site.known, ("small", "large"), hold=gate.hold)
    await site.turn("small", LONG)
    assert gate.account("t").lost == 0.0
    await site.turn("large", LONG, CALLS, RESULT)
    assert gate.account("t").lost == 1.0


async def test_an_engine_is_not_left_for_a_smaller_one_where_that_costs_more() -> None:
    site = Site()
    for number in range(30):
        await site.turn("large", f"A single question {number}.")
    await site.turn("large", LONG)
    plan = await site.turn("small", LONG, "Done.", "And now?")
    assert (plan.attempts[0].engine, plan.reason) == ("large", STAYS)


async def test_the_reference_may_always_be_gone_back_to() -> None:
    site = Site()
    await site.turn("small", LONG)
    plan = await site.turn("large", LONG, "Done.", "And now?")
    assert (plan.attempts[0].engine, plan.reason) == ("large", "given")


async def test_a_client_that_names_its_engine_gets_it() -> None:
    site = Site()
    await site.turn("large", LONG)
    plan = await site.turn("small", LONG, CALLS, RESULT, forced=True)
    assert plan.attempts[0].engine == "small"


async def test_nothing_is_known_of_who_has_no_credential() -> None:
    site = Site()
    plan = await site.turn("small", LONG, anonymous=True)
    assert plan.turn is None and site.inner.asked[0].turn is None


async def test_a_large_prompt_is_read_on_a_thread_and_is_the_same_conversation() -> None:
    site = Site()
    await site.turn("small", LONG)
    said = [
        {"role": "user", "content": LONG},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "And?"},
    ]
    chat = ChatRequest(b"x" * 100_000, {}, "m", said, stream=False, include_usage=False)
    ask = replace(site.inner.asked[0], chat=chat, turn=None)
    plan = await site.policy.decide(ask)
    assert plan.turn is not None and plan.turn.number == 1


@pytest.mark.parametrize(("age_s", "expected"), [(0.0, "small"), (60.0, "large")])
async def test_what_another_worker_answered_is_looked_up(age_s: float, expected: str) -> None:
    asked: list[tuple[str, str, str]] = []

    async def elsewhere(tenant: str, name: str, model: str) -> LatestAnswer | None:
        asked.append((tenant, name, model))
        return LatestAnswer("small", 50_000, time.time() - age_s)

    site = Site()
    site.policy = InConversation(site.inner, site.known, ("small", "large"), elsewhere)
    await site.turn("large", LONG, named_session="s")
    assert asked == [], "it begins here"
    plan = await site.turn("large", LONG, CALLS, RESULT, named_session="s")
    assert asked == [] and plan.attempts[0].engine == "large", "all of it was answered here"
    more = (LONG, CALLS, RESULT, CALLS, RESULT, CALLS, RESULT)
    plan = await site.turn("large", *more, named_session="s")
    assert asked == [("t", "s", "m")] and plan.attempts[0].engine == expected
    if expected == "small":
        assert plan.turn is not None and plan.turn.held["small"] > 49_000


async def test_a_lookup_that_is_late_is_gone_without() -> None:
    async def elsewhere(tenant: str, name: str, model: str) -> LatestAnswer | None:
        raise ReadLate("late")

    site = Site()
    site.policy = InConversation(site.inner, site.known, ("small", "large"), elsewhere)
    plan = await site.turn("small", LONG, "Done.", "And?", named_session="s")
    assert plan.attempts[0].engine == "small"
