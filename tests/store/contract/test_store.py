"""The store as a whole: what lasts, what another process sees, what is forgotten, and how it fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from store import Store
from store.decisions.outcomes import FeedbackRecord
from store.decisions.texts import RequestTexts
from store.errors import BadSecretFile, StoreBusy, StoreClosed, StoreError, StoreFailed, ValueRefused
from store.jobs.kv_plans import KvPlanExample
from store.jobs.operator_asks import OperatorAsk
from store.jobs.replay_records import NewStep, ReplayBudget
from store.learned.dials import TurnedDials
from store.learned.quality_floors import FloorRow
from tests.patience import eventually
from tests.store.behind import forget_contributor
from tests.store.contract.conftest import Opening
from tests.store.rows import (
    answer,
    choice_record,
    new_example,
    outcome_record,
    request_record,
    unit_vector,
)

INDEXED = {"dimensions": 8, "embedding_version": "v1"}


def fill(store: Store, tenant: str, number: int, who: str = "k/ann") -> None:
    """Something of each kind that hangs on a tenant, which the other functions here look for."""
    request = f"req-{number}"
    store.examples.add(new_example(number, tenant, contributor=who, instructions="[]")).result(30)
    store.answers.exact.put(tenant.encode(), tenant, answer())
    store.answers.entries.add(
        tenant, request, b"k" * 32, f"question {number}", answer(stored_at_s=time.time()), f"answer {number}"
    )
    store.decisions.requests.record(request_record(number, tenant=tenant))
    store.decisions.choices.record(choice_record(number, tenant=tenant, contributor=who))
    store.decisions.texts.keep(
        RequestTexts(
            tenant, request, who, 1.0, "words asked", "words said", ({"role": "user", "content": "w"},)
        )
    )
    said = FeedbackRecord(tenant, f"key {number}", "", request, who, 1.0, comment="good")
    store.outcomes.feedback.give(said, [outcome_record(number, tenant=tenant)])
    store.artifacts.publish("bandit", tenant, "gpt-4o", b"weights", metrics={})
    store.quality_floors.put(FloorRow(tenant, "gpt-4o", 1.0, 0.5, "holds", 1, 1, "{}"))
    store.examples.imports.advance("f" * 64, tenant, 5)
    store.jobs.operator_asks.note(OperatorAsk(1.0, "op", tenant, request, "large", False, 0.5, 1, 1, 1.0))
    run = store.jobs.replay.want(tenant, ReplayBudget(), asked_by="command").result(30)
    step = NewStep(tenant, "distil", 1, 0.5, 0.125, 0.01, 100, 2.0)
    store.jobs.replay.plan(run, [step]).result(30)


LOOKS: dict[str, Callable[[Store, str, int], object]] = {
    "examples": lambda s, t, n: s.examples.page(t),
    "totals": lambda s, t, n: s.examples.totals(t).examples,
    "by request": lambda s, t, n: s.examples.by_request(t, f"req-{n}"),
    "instructions": lambda s, t, n: s.examples.instructions(t, "scope"),
    "example search": lambda s, t, n: s.examples.search.with_words(t, "question").rows,
    "contributors": lambda s, t, n: s.examples.contributors.names(t),
    "exact": lambda s, t, n: s.answers.exact.get(t.encode(), 1001.0),
    "entries": lambda s, t, n: s.answers.entries.among(
        t, b"k" * 32, [e.id for e in s.examples.page(t)], time.time()
    ),
    "requests": lambda s, t, n: s.decisions.requests.recent(tenant=t),
    "choices": lambda s, t, n: s.decisions.choices.get(t, f"req-{n}"),
    "texts": lambda s, t, n: s.decisions.texts.get(t, f"req-{n}"),
    "outcomes": lambda s, t, n: s.outcomes.of(t, f"req-{n}"),
    "feedback": lambda s, t, n: s.outcomes.feedback.of(t, f"req-{n}"),
    "experiences": lambda s, t, n: s.outcomes.experiences(t),
    "artifacts": lambda s, t, n: s.artifacts.active("bandit", t, "gpt-4o"),
    "floors": lambda s, t, n: s.quality_floors.get(t, "gpt-4o"),
    "imports": lambda s, t, n: s.examples.imports.lines_done("f" * 64, t),
    "operator asks": lambda s, t, n: s.jobs.operator_asks.spent_usd(0.0, t),
    "runs": lambda s, t, n: s.jobs.replay.runs(tenant=t),
}
"""What `fill` left of a tenant, seen by each noun; nothing is falsy."""


def seen(store: Store, tenant: str, number: int) -> dict[str, object]:
    return {name: look(store, tenant, number) for name, look in LOOKS.items()}


def test_a_restart_forgets_nothing(open_store: Opening) -> None:
    before = open_store(**INDEXED)
    assert before.follower is not None and before.indexes is not None
    key, secret_text = before.keys.create("acme", "laptop")
    for number in range(2, 40):
        before.examples.add(new_example(number))
    fill(before, "a1", 1)
    before.operators.put("ann", "viewer", "hash")
    before.dials.turn(TurnedDials("gpt-4o", 1.0, "ann", theta=0.5)).result(30)
    before.jobs.engine_states.drain("large", "ann", "maintenance").result(30)
    last = before.examples.last_seq()
    assert before.follower.wait_for(last, 30)
    near = before.indexes.nearest("a1", unit_vector(3), 5)
    there = seen(before, "a1", 1)
    assert all(there.values()), there
    assert before.close() and before.close()

    after = open_store(**INDEXED)
    assert after.follower is not None and after.indexes is not None
    assert after.follower.wait_for(last, 30)
    assert after.secret == before.secret
    assert after.keys.lookup(secret_text) == key
    assert after.indexes.nearest("a1", unit_vector(3), 5) == near
    again = seen(after, "a1", 1)
    choices = [there.pop("choices"), again.pop("choices"), there.pop("experiences"), again.pop("experiences")]
    assert all(choices), "arrays do not compare as one"
    assert again == there
    assert after.artifacts.read(again["artifacts"]) == b"weights"  # type: ignore[arg-type]
    assert [user.name for user in after.operators.list()] == ["ann"]
    assert after.dials.in_force("gpt-4o").theta == 0.5  # type: ignore[union-attr]
    assert [drained.engine for drained in after.jobs.engine_states.drained()] == ["large"]


def test_what_is_one_tenants_is_seen_under_no_other(store: Store) -> None:
    fill(store, "a1", 1)
    assert all(seen(store, "a1", 1).values())
    assert not any(seen(store, "b2", 1).values()), seen(store, "b2", 1)
    (mine,) = store.examples.page("a1")
    assert store.examples.by_ids("b2", [mine.id]) == [] and store.examples.get("b2", mine.id) is None
    assert store.examples.vectors_of("b2", [mine.id], "v1") == {}
    assert store.examples.remove("b2", [mine.id]).result(30) == 0
    assert store.examples.update("b2", mine.id, answer="theirs").result(30) is None
    assert store.tenants() == ["a1"]


def test_a_forgotten_tenant_is_seen_by_no_noun_and_the_others_are_as_before(store: Store, kind: str) -> None:
    fill(store, "a1", 1)
    fill(store, "b2", 2)
    done = store.forget_tenant("a1")
    assert (done.examples, done.answers, done.requests, done.choices, done.versions) == (1, 1, 1, 1, 1)
    assert done.erased == (kind == "sqlite")
    gone = seen(store, "a1", 1)
    assert not any(gone.values()), gone
    assert all(seen(store, "b2", 2).values())
    assert store.tenants() == ["b2"]


def test_a_forgotten_contributor_leaves_what_others_of_the_tenant_gave(store: Store) -> None:
    fill(store, "a1", 1, "k/ann")
    fill(store, "a1", 2, "k/bob")
    done = forget_contributor(store, "a1", "k/ann")
    assert (done.examples, done.choices) == (1, 1)
    assert store.examples.contributors.names("a1") == ["k/bob"]
    assert [example.request_id for example in store.examples.page("a1")] == ["req-2"]
    assert store.outcomes.feedback.of("a1", "req-1") == [] != store.outcomes.feedback.of("a1", "req-2")
    assert store.decisions.texts.get("a1", "req-1") is None is not store.decisions.texts.get("a1", "req-2")
    with pytest.raises(ValueError, match="nobody"):
        forget_contributor(store, "a1", "")


def test_an_example_of_one_store_is_found_by_another(open_store: Opening) -> None:
    ours, theirs = open_store(**INDEXED), open_store(**INDEXED, poll_s=0.01)
    assert theirs.indexes is not None
    added = ours.examples.add(new_example(1)).result(30)
    assert eventually(lambda: [id for id, _ in theirs.indexes.nearest("a1", unit_vector(1), 1)] == [added.id])
    ours.examples.remove("a1", [added.id]).result(30)
    assert eventually(lambda: theirs.indexes.nearest("a1", unit_vector(1), 1) == [])


@pytest.mark.slow
def test_what_one_store_changes_another_hears_of(open_store: Opening) -> None:
    ours, theirs = open_store(), open_store()
    example = ours.examples.add(new_example(1)).result(30)
    plan = KvPlanExample(example.id, "a1", 10, 1.0)
    news: list[tuple[Callable[[], int], Callable[[], object]]] = [
        (theirs.dials.generation, lambda: ours.dials.turn(TurnedDials("m", 1.0, "ann", m=3)).result(30)),
        (
            theirs.jobs.engine_states.drained_generation,
            lambda: ours.jobs.engine_states.drain("large", "ann", "").result(30),
        ),
        (
            theirs.jobs.kv_plans.generation,
            lambda: ours.jobs.kv_plans.put("small", [plan], {}, 1.0).result(30),
        ),
    ]
    for counter, change in news:
        before = counter()
        version, generation = theirs.version(), theirs.artifacts.generation()
        change()
        assert eventually(lambda counter=counter, before=before: counter() != before)
        assert theirs.version() != version and theirs.artifacts.generation() == generation
    assert theirs.dials.in_force("m") == ours.dials.in_force("m") is not None
    assert theirs.jobs.kv_plans.examples("small") == [plan]


def test_two_stores_that_write_at_once_lose_nothing(open_store: Opening) -> None:
    stores = [open_store(), open_store()]

    def write(which: int) -> list[int]:
        added = [stores[which].examples.add(new_example(100 * which + n)) for n in range(50)]
        return [example.result(60).id for example in added]

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(write, range(2))
    assert len({*first, *second}) == 100
    assert stores[0].examples.count("a1") == stores[1].examples.count("a1") == 100
    changes = stores[0].examples.tail(0)
    assert [change.seq for change in changes] == sorted({change.seq for change in changes})
    assert len(changes) == 100


def test_a_closed_store_neither_reads_nor_writes(store: Store) -> None:
    assert not store.closed and store.close() and store.closed
    for use in (
        lambda: store.examples.page("a1"),
        lambda: store.examples.add(new_example(1)),
        lambda: store.decisions.requests.record(request_record(1)),
        lambda: store.operators.list(),
        store.version,
    ):
        with pytest.raises(StoreClosed):
            use()


def test_a_store_that_has_enough_to_write_says_so_at_once(open_store: Opening) -> None:
    open_store()
    store = open_store(max_pending=0)
    with pytest.raises(StoreBusy):
        store.decisions.requests.record(request_record(1))
    assert store.pending == 0


def test_a_value_that_the_schema_forbids_is_the_future_s_error_with_its_cause(store: Store) -> None:
    with pytest.raises(ValueRefused) as raised:
        store.dials.turn(TurnedDials("m", 1.0, "ann", preference=2.0)).result(30)
    assert raised.value.__cause__ is not None
    assert issubclass(ValueRefused, StoreFailed) and issubclass(StoreFailed, StoreError)
    assert store.dials.in_force("m") is None
    store.decisions.requests.record(request_record(1)).result(30)


def test_a_damaged_secret_is_refused_and_left_as_it_is(open_store: Opening) -> None:
    store = open_store()
    store.close()
    file = store.folder / "secret"
    file.write_bytes(b"half")
    with pytest.raises(BadSecretFile):
        open_store()
    assert file.read_bytes() == b"half"


def test_what_was_handed_over_is_written_when_drained_and_can_be_erased(store: Store, kind: str) -> None:
    assert Store.is_in(store.folder) == (kind == "sqlite") and not Store.is_in(store.folder / "elsewhere")
    before = store.version()
    for number in range(50):
        store.decisions.requests.record(request_record(number))
    assert store.drain(30) and store.pending == 0
    assert len(store.decisions.requests.recent()) == 50 and store.version() != before
    store.sync()
    # PostgreSQL keeps what was deleted in its write-ahead log and in dead rows, and says so.
    assert store.scrub() == store.erase() == (kind == "sqlite")
