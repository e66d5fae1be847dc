"""A conversation is found by what was asked before or by its name, and what engines hold is believed until they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from engines.chat import ChatRequest, Usage
from engines.engine import EngineInfo, EngineLoad, Price
from router.plan import Ask, Candidate
from router.turns.conversations import Conversations
from router.turns.turn import Turn
from store.records import Example

LONG = "Read this. " * 10_000
TOKENS = 27_500
PRICES = {
    "small": Price(1.0, 5.0, cached_input_usd_per_mtok=0.1, cache_write_usd_per_mtok=1.25),
    "large": Price(5.0, 25.0, cached_input_usd_per_mtok=0.5, cache_write_usd_per_mtok=6.25),
    "told": Price(2.0, 10.0, cached_input_usd_per_mtok=0.2),
}
WAYS = ("small", "large")


@dataclass
class Engine:
    name: str
    ttl_s: float | None = 300.0

    @property
    def info(self) -> EngineInfo:
        return EngineInfo(self.name, price=PRICES[self.name], cache_ttl_s=self.ttl_s)

    def load(self) -> EngineLoad:
        return EngineLoad()


@dataclass
class Site:
    """Conversations whose clock a test turns."""

    engines: Sequence[Engine] = (Engine("small"), Engine("large"), Engine("told"))
    now: float = 0.0
    known: Conversations = field(init=False)

    def __post_init__(self) -> None:
        by_name = {one.name: one for one in self.engines}
        self.known = Conversations(by_name, clock=lambda: self.now)  # type: ignore[arg-type]

    def asks(self, *messages: dict[str, Any] | str, ways: Sequence[str] = WAYS, **more: Any) -> Ask:
        ask = Ask(chat(*messages, **more.pop("fields", {})), "t", **more)
        placed = self.known.placed(ask, ways)
        assert placed.turn is not None
        return placed

    def turn(self, *messages: dict[str, Any] | str, **more: Any) -> Turn:
        turn = self.asks(*messages, **more).turn
        assert turn is not None
        return turn

    def answer(self, ask: Ask, engine: str, usage: Usage | None = None, **more: Any) -> None:
        assert ask.turn is not None
        self.known.answered(ask.turn, engine, ask.chat, "t", usage, **more)


def chat(*messages: dict[str, Any] | str, **fields: Any) -> ChatRequest:
    roles = ("user", "assistant")
    said = [
        {"role": roles[place % 2], "content": one} if isinstance(one, str) else one
        for place, one in enumerate(messages)
    ]
    return ChatRequest(b"", fields, "m", said, stream=False, include_usage=False)


def all_written(tokens: int = TOKENS) -> Usage:
    return Usage(tokens, 10, cache_write_tokens=tokens)


def test_a_prompt_that_begins_as_an_earlier_one_goes_on_with_its_conversation() -> None:
    site = Site()
    first = site.asks(LONG)
    site.answer(first, "large", all_written())
    then = site.turn(LONG, "Done.", "And now?")
    assert first.turn is not None
    assert (then.key, then.number, then.engine) == (first.turn.key, 1, "large")
    assert then.held["large"] == pytest.approx(TOKENS, rel=0.01) and then.held["small"] == 0.0


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [({"end_user": "a"}, {"end_user": "b"}), ({}, {"end_user": "b"})],
)
def test_nobody_goes_on_with_another_users_conversation(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    site = Site()
    site.answer(site.asks(LONG, named_session="s", **mine), "large", all_written())
    assert site.turn(LONG, "Done.", "And now?", named_session="s", **theirs).engine == ""


def test_the_same_question_again_begins_another_conversation() -> None:
    site = Site()
    site.answer(site.asks(LONG), "small", all_written())
    assert site.turn(LONG).number == 0


def test_a_name_tells_where_the_history_was_rewritten() -> None:
    site = Site()
    named = {"metadata": {"user_id": "user_x_account_y_session_9"}}
    site.answer(site.asks(LONG, fields=named), "large", all_written())
    assert site.turn("In short: ...", "Yes.", "And now?", fields=named).engine == "large"
    assert site.turn("In short: ...", "Yes.", "And then?").engine == ""
    assert site.turn("Name this conversation.", fields=named).engine == "", "a task of its own"


def test_a_conversation_that_was_silent_for_long_has_ended() -> None:
    site = Site()
    site.answer(site.asks(LONG), "large", all_written())
    site.now = 601.0
    assert site.turn(LONG, "Done.", "And now?").number == 0


def test_a_providers_cache_forgets_after_its_time_to_live() -> None:
    site = Site()
    site.answer(site.asks(LONG), "large", all_written())
    site.now = 301.0
    turn = site.turn(LONG, "Done.", "And now?")
    assert turn.engine == "large" and turn.held.get("large", 0.0) == 0.0 and turn.held_at_home == 0.0


def test_what_an_engine_tells_corrects_what_is_believed_of_it() -> None:
    site, ways = Site(), ("small", "told")
    site.answer(site.asks(LONG, ways=ways), "told", Usage(TOKENS, 10))
    assert site.turn(LONG, "Done.", "And now?", ways=ways).held["told"] > 0.0
    # It was to hold nearly all, and read nothing from its cache.
    second = site.asks(LONG, "Done.", "And now?", ways=ways)
    site.answer(second, "told", Usage(TOKENS + 10, 10, cached_tokens=0))
    third = (LONG, "Done.", "And now?", "Now.", "And then?")
    assert site.turn(*third, ways=ways).held.get("told", 0.0) == 0.0
    site.answer(site.asks(*third, ways=ways), "told", Usage(TOKENS + 20, 10, cached_tokens=TOKENS))
    assert site.turn(*third, "Then.", "So?", ways=ways).held["told"] > 0.9 * TOKENS


def test_who_charges_for_writing_and_wrote_nothing_caches_nothing() -> None:
    site = Site()
    site.answer(site.asks(LONG), "large", Usage(TOKENS, 10))
    turn = site.turn(LONG, "Done.", "And now?")
    assert turn.held.get("large", 0.0) == 0.0 and turn.caching.get("large", 0.0) == 0.0


def test_a_short_prompt_is_not_cached() -> None:
    site = Site()
    turn = site.turn("Hi.")
    assert turn.caching == {}


def test_a_short_conversation_is_not_moved_and_a_long_one_is() -> None:
    site = Site()
    for _ in range(300):
        site.answer(site.asks("A single question."), "large", Usage(10, 10))
    site.answer(site.asks(LONG), "large", all_written())
    assert site.turn(LONG, "Done.", "And now?").kept_out == {"small"}

    talks = Site()
    said: list[str] = [LONG]
    for number in range(40):
        ask = talks.asks(*said)
        assert ask.turn is not None
        talks.known.decided(ask.turn, wanted=True)
        talks.answer(ask, "large", all_written())
        said += [f"Answer {number}.", f"Question {number}?"]
    again = [LONG + "!"]
    for number in range(3):
        talks.answer(talks.asks(*again), "large", all_written())
        again += [f"Answer {number}.", f"Question {number}?"]
    assert talks.turn(*again).kept_out == frozenset()


def test_a_tool_loop_is_not_left() -> None:
    site = Site()
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
    result = {"role": "tool", "content": "42", "tool_call_id": "c"}
    asked = {"role": "user", "content": LONG}
    site.answer(site.asks(asked), "small", all_written())
    in_it = site.turn(asked, called, result)
    assert (in_it.in_tool_loop, in_it.engine, in_it.kept_out) == (True, "small", frozenset())
    other = Site()
    other.answer(other.asks(asked), "large", all_written())
    assert other.turn(asked, called, result).kept_out == {"small"}
    assert Site().turn(asked, called, result).kept_out == {"small"}, "nobody knows who began it"
    after = other.turn(asked, called, result, {"role": "assistant", "content": "42."}, asked)
    assert not after.in_tool_loop


def test_a_conversation_keeps_its_examples_and_what_is_cached_with_them() -> None:
    site = Site()
    example = Candidate(Example(1, 1, "t", "s", "question?", LONG, "large", 0.0), 0.9)
    first = site.asks({"role": "user", "content": "Q?"})
    sent = chat("question?", LONG, "Q?")
    assert first.turn is not None
    site.known.answered(first.turn, "small", sent, "t", all_written(), (example,))
    then = site.asks("Q?", "A.", "R?")
    assert then.examples == (example,) and then.turn is not None
    assert then.turn.held.get("small", 0.0) == 0.0


def test_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.turns.conversations._MOST", 3)
    site = Site()
    for number in range(10):
        site.answer(site.asks(f"{LONG}{number}"), "large", all_written())
    assert len(site.known._known) <= 3
    assert site.turn(f"{LONG}0", "A.", "Q?").engine == ""
