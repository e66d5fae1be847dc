from __future__ import annotations

import time

import numpy as np
import pytest

from store import Store
from store.examples.bank import ExampleBank
from store.examples.vectors import BadVector, from_blob, to_blob
from store.records import Restored
from tests.store.rows import new_example, unit_vector


@pytest.fixture
def bank(store: Store) -> ExampleBank:
    return store.examples


def test_an_example_comes_back_as_it_went_in(bank: ExampleBank) -> None:
    added = bank.add(new_example(1)).result(30)
    assert bank.by_ids("a1", [added.id]) == [added]
    assert (added.question, added.answer, added.scope, added.source_engine) == (
        "question 1",
        "answer 1",
        "scope",
        "large",
    )
    assert (added.prompt_tokens, added.completion_tokens) == (11, 22)
    (change,) = bank.tail(0)
    assert (change.seq, change.tenant, change.id, change.removed) == (added.seq, "a1", added.id, False)
    assert np.array_equal(change.vector, from_blob(to_blob(unit_vector(1))))


def test_the_same_request_is_never_kept_twice(bank: ExampleBank) -> None:
    first = bank.add(new_example(1)).result(30)
    again = bank.add(new_example(1, answer="another")).result(30)
    assert again == first
    assert bank.count() == 1
    assert bank.last_seq() == 1


def test_requests_without_an_id_and_of_other_tenants_are_never_the_same(bank: ExampleBank) -> None:
    for new in (
        new_example(1, request_id=""),
        new_example(1, request_id=""),
        new_example(1),
        new_example(1, tenant="b2"),
    ):
        bank.add(new).result(30)
    assert bank.count() == 4
    assert bank.tenants() == {"a1": 3, "b2": 1}


def test_nobody_reads_or_removes_another_tenant_s_example_by_its_id(bank: ExampleBank) -> None:
    mine = bank.add(new_example(1)).result(30)
    theirs = bank.add(new_example(1, tenant="b2")).result(30)
    assert bank.by_ids("a1", [theirs.id, mine.id]) == [mine]
    assert bank.remove("a1", [theirs.id, mine.id]).result(30) == 1
    assert bank.by_ids("b2", [theirs.id]) == [theirs]


def test_examples_come_in_the_order_asked_for(bank: ExampleBank) -> None:
    ids = [bank.add(new_example(number)).result(30).id for number in range(5)]
    wanted = [ids[3], ids[0], 999, ids[4], ids[0]]
    assert [example.id for example in bank.by_ids("a1", wanted)] == [ids[3], ids[0], ids[4], ids[0]]
    assert bank.by_ids("a1", []) == []


def test_adds_removes_and_late_vectors_take_places_in_one_order(bank: ExampleBank) -> None:
    one, two, three = (
        bank.add(new_example(number, vector=None if number == 2 else unit_vector(number))).result(30)
        for number in (1, 2, 3)
    )
    bank.remove("a1", [one.id]).result(30)
    bank.set_vector(two.id, unit_vector(9), "v2").result(30)

    log = bank.tail(0)
    assert [(change.seq, change.id, change.removed) for change in log] == [
        (3, three.id, False),
        (4, one.id, True),
        (5, two.id, False),
    ]
    assert log[2].embedding_version == "v2"
    assert bank.tail(3, 1) == [log[1]]
    assert bank.tail(5) == []
    assert bank.last_seq() == 5


def test_a_place_in_the_log_is_never_used_twice(bank: ExampleBank) -> None:
    seen = set()
    for number in range(10):
        added = bank.add(new_example(number)).result(30)
        assert added.seq not in seen
        seen.add(added.seq)
        bank.remove("a1", [added.id]).result(30)
        seen.add(bank.last_seq())
    assert len(seen) == 20
    assert len({change.id for change in bank.tail(0)}) == 10


def test_one_tenant_s_log_holds_nothing_of_another(bank: ExampleBank) -> None:
    for number in range(20):
        bank.add(new_example(number, tenant="a1" if number % 3 else "b2")).result(30)
    bank.remove_tenant("b2").result(30)
    assert {change.tenant for change in bank.tail(0, tenant="a1")} == {"a1"}
    assert [change.removed for change in bank.tail(0, tenant="b2")] == [True] * 7
    assert bank.count("b2") == 0
    assert bank.count("a1") == bank.count() == 13


def test_what_waits_for_an_embedding_is_found_page_by_page(bank: ExampleBank) -> None:
    for number in range(6):
        changes = {"vector": None} if number % 2 else {"embedding_version": "v0"}
        bank.add(new_example(number, **changes)).result(30)
    ready = bank.add(new_example(7)).result(30)

    first = bank.without_vector("v1", 4)
    rest = bank.without_vector("v1", 4, after_id=first[-1].id)
    assert [waiting.embedded_text for waiting in first + rest] == [
        f"embedded {number}" for number in range(6)
    ]
    for waiting in first + rest:
        assert bank.set_vector(waiting.id, unit_vector(waiting.id), "v1").result(30)
    assert bank.without_vector("v1") == []
    assert bank.set_vector(ready.id + 100, unit_vector(1), "v1").result(30) is False


def test_a_vector_that_is_none_is_refused_before_it_is_queued(bank: ExampleBank) -> None:
    with pytest.raises(BadVector):
        bank.add(new_example(1, vector=np.zeros(8, dtype=np.float32)))
    assert bank.count() == 0


def test_uses_are_counted_behind_and_written_together(bank: ExampleBank, store: Store) -> None:
    one, two = (bank.add(new_example(number)).result(30).id for number in (1, 2))
    assert bank.flush_uses() is None
    bank.note_use([one, two])
    bank.note_use([one])
    noted = bank.flush_uses()
    assert noted is not None
    noted.result(30)
    rows = [(e.uses, int((e.last_used_at_s or 0) > e.created_at_s)) for e in bank.by_ids("a1", [one, two])]
    assert rows == [(2, 1), (1, 1)]
    assert bank.flush_uses() is None


def test_listeners_hear_of_a_change_before_its_future_resolves(bank: ExampleBank) -> None:
    heard: list[int] = []
    bank.on_change(lambda: heard.append(bank.last_seq()))
    added = bank.add(new_example(1)).result(30)
    assert heard == [1]
    bank.remove("a1", [added.id]).result(30)
    assert heard == [1, 2]


def test_text_that_is_not_unicode_text_fails_alone(bank: ExampleBank) -> None:
    broken = bank.add(new_example(1, question="\ud800"))
    null = bank.add(new_example(3, answer="a\0b"))
    fine = bank.add(new_example(2, question="it's; -- 'quoted' 日本 🙂"))
    with pytest.raises(UnicodeEncodeError):
        broken.result(30)
    with pytest.raises(ValueError, match=r"U\+0000"):
        null.result(30)
    id = fine.result(30).id
    assert bank.by_ids("a1", [id])[0].question == "it's; -- 'quoted' 日本 🙂"
    with pytest.raises(ValueError, match=r"U\+0000"):
        bank.update("a1", id, answer="\0").result(30)
    assert bank.by_ids("a1", [id])[0].answer == "answer 2" and bank.count() == 1


def test_what_is_in_quarantine_is_not_served_before_its_time(bank: ExampleBank) -> None:
    waiting = bank.add(new_example(1, served_from_s=time.time() + 1e6)).result(30)
    over = bank.add(new_example(2, served_from_s=time.time() - 1)).result(30)
    assert bank.by_ids("a1", [waiting.id, over.id]) == [over]
    assert bank.by_ids("a1", [waiting.id, over.id], serving=False) == [waiting, over]
    assert bank.get("a1", waiting.id) == waiting
    bank.update("a1", waiting.id, served_from_s=0.0).result(30)
    assert len(bank.by_ids("a1", [waiting.id])) == 1


def test_what_is_given_with_a_pair_is_kept_with_it(bank: ExampleBank) -> None:
    added = bank.add(
        new_example(
            1, kind="demonstration", contributor="key-7", pinned=True, quality=0.75, served_from_s=5.0
        )
    ).result(30)
    assert bank.get("a1", added.id) == added
    assert (added.kind, added.contributor, added.pinned, added.served_from_s) == (
        "demonstration",
        "key-7",
        True,
        5.0,
    )
    assert (added.quality, added.quality_count, added.flagged, added.merged, added.uses) == (
        0.75,
        1,
        False,
        0,
        0,
    )
    assert added.size_bytes == 1024 + 16 + len("question 1" + "answer 1" + "embedded 1")


def test_an_update_changes_what_it_names_and_nothing_of_another_tenant(bank: ExampleBank) -> None:
    mine = bank.add(new_example(1, quality=1.0)).result(30)
    assert bank.update("b2", mine.id, answer="stolen", pinned=True).result(30) is None
    assert bank.get("a1", mine.id) == mine
    assert bank.update("a1", mine.id, pinned=True).result(30) == mine._replace(pinned=True)
    changed = bank.update("a1", mine.id, answer="réponse", flagged=True, contributor="ann").result(30)
    assert changed is not None
    assert (changed.answer, changed.flagged, changed.contributor, changed.pinned) == (
        "réponse",
        True,
        "ann",
        True,
    )
    assert changed.quality is None, "the judgement was of another answer"
    assert changed.size_bytes == mine.size_bytes
    assert bank.update("a1", 999, pinned=False).result(30) is None


def test_pages_meet_every_example_of_the_tenant_once_and_none_of_another(bank: ExampleBank) -> None:
    for number in range(30):
        kind = "demonstration" if number % 5 == 0 else "observed"
        bank.add(new_example(number, tenant="a1" if number % 3 else "b2", kind=kind)).result(30)
    seen: list[int] = []
    while page := bank.page("a1", after_id=seen[-1] if seen else 0, limit=7):
        assert {example.tenant for example in page} == {"a1"}
        seen += [example.id for example in page]
    assert len(seen) == len(set(seen)) == 20
    assert [example.kind for example in bank.page("a1", kind="demonstration")] == ["demonstration"] * 4
    assert len(bank.page("b2", kind="observed")) == 8


def test_removing_a_contributor_takes_all_of_theirs_and_nobody_else_s(bank: ExampleBank) -> None:
    for number in range(24):
        bank.add(
            new_example(number, tenant="ab"[number % 2] + "1", contributor=["ann", "bob", ""][number % 3])
        ).result(30)
    assert bank.remove_contributor("a1", "ann").result(30) == 4
    left = [(t, e.contributor) for t in ("a1", "b1") for e in bank.page(t)]
    assert (left.count(("a1", "ann")), left.count(("b1", "ann"))) == (0, 4)
    assert bank.count("a1") == 8
    assert [change.erase for change in bank.tail(24)] == [True] * 4
    with pytest.raises(ValueError, match="nobody"):
        bank.remove_contributor("a1", "")


def test_a_chunk_with_a_pair_that_cannot_be_kept_leaves_nothing_of_itself(bank: ExampleBank) -> None:
    chunk = [new_example(1), new_example(2, question="\ud800"), new_example(3)]
    with pytest.raises(UnicodeEncodeError):
        bank.restore_many([Restored(new) for new in chunk]).result(30)
    assert bank.count() == 0
