"""The outbox: each crossing once, over workers and restarts; one owner; nothing lost until it is delivered or given up."""

from __future__ import annotations

from store import Store
from store.jobs.webhooks import Crossing
from tests.store.contract.conftest import Opening

ALL = frozenset({"engine.down", "engine.up"})


def crossing(value: str, name: str = "engine:a", usual: str | None = "up") -> Crossing:
    return Crossing(name, value, usual, f"engine.{value}", "{}")


def notice(store: Store, *crossings: Crossing, now_s: float = 10.0) -> list[str]:
    return store.jobs.webhooks.notice(
        crossings, [("e1", ALL), ("e2", frozenset({"engine.up"}))], now_s
    ).result(30)


def told(store: Store) -> list[tuple[str, str]]:
    return sorted((one.endpoint, one.event) for one in store.jobs.webhooks.due(1e9))


def test_what_is_as_usual_is_noted_and_what_crosses_is_told_once(open_store: Opening) -> None:
    store = open_store()
    assert notice(store, crossing("up")) == [] and told(store) == []
    assert notice(store, crossing("down")) == ["engine:a"]
    assert notice(store, crossing("down")) == []
    other = open_store()
    assert notice(other, crossing("down")) == [] and other.jobs.webhooks.changed([crossing("down")]) == []
    assert told(store) == [("e1", "engine.down")], "and to nobody who does not want it"
    notice(store, crossing("up"))
    assert told(store) == [("e1", "engine.down"), ("e1", "engine.up"), ("e2", "engine.up")]
    assert notice(store, crossing("down")) == ["engine:a"], "it may happen again"


def test_what_was_never_noted_and_is_as_usual_is_not_asked_about_until_it_crosses(store: Store) -> None:
    outbox = store.jobs.webhooks
    assert outbox.changed([crossing("up"), crossing("down", "b", None)]) == [crossing("down", "b", None)]
    assert outbox.changed([crossing("down")]) == [crossing("down")]
    assert notice(store, crossing("down")) == ["engine:a"]
    assert outbox.changed([crossing("up")]) == [crossing("up")], "it has crossed back"


def test_what_has_no_usual_state_is_told_the_first_time(store: Store) -> None:
    assert notice(store, crossing("down", "budget:x", None)) == ["budget:x"]
    assert notice(store, crossing("down", "budget:x", None)) == []


def test_a_message_is_due_again_until_it_is_delivered_or_given_up(store: Store) -> None:
    notice(store, crossing("down"))
    outbox = store.jobs.webhooks
    (message,) = outbox.due(10.0)
    assert message.tries == 0 and message.id.startswith("msg_")
    outbox.tried(message.id, "due", 50.0, "timeout").result(30)
    assert outbox.due(49.0) == [] and outbox.due(50.0)[0].tries == 1
    outbox.tried(message.id, "delivered", 50.0, "204").result(30)
    assert outbox.due(1e9) == []
    (kept,) = outbox.recent()
    assert (kept.state, kept.tries, kept.result) == ("delivered", 2, "204")
    assert outbox.trim(31 * 86_400.0).result(30) == 1 and outbox.recent() == []
