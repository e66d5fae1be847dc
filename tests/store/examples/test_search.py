"""Orders are right page by page, likeness is exact, and nothing reads a whole bank to show a page of it."""

from __future__ import annotations

import pytest

from store.database import Database
from store.examples.bank import ExampleBank
from store.examples.search import ExampleSearch, FoundExamples, Sort, page_query
from store.postgres import words as postgres_words
from store.sqlite import words
from tests.store.rows import new_example


def ids(found: FoundExamples) -> list[int]:
    return [example.id for example in found.rows]


def fill(db: Database, count: int, **changes: object) -> list[int]:
    bank = ExampleBank(db)
    return [bank.add(new_example(number, **changes)).result(30).id for number in range(count)]


def test_gain_is_compared_as_of_now_and_not_as_of_its_last_use(db: Database) -> None:
    made = fill(db, 3)
    now_s, hour = 2_000_000_000.0, 3600.0
    for id, gain, at_s in ((made[0], 1.0, now_s - 30 * hour), (made[1], 0.5, now_s), (made[2], 0.0, now_s)):
        db.write(
            lambda c, row=(gain, at_s, id): c.execute(  # type: ignore[misc]
                "UPDATE example_accounts SET gain = ?, gain_at_s = ? WHERE id = ?", row
            )
        ).result(30)
    assert 0.9**30 < 0.5
    assert ids(ExampleSearch(db).page("a1", sort="gain")) == [made[1], made[0]]


@pytest.mark.sqlite
@pytest.mark.parametrize("sort", ["uses", "newest", "oldest"])
def test_a_page_walks_an_index_and_sorts_only_itself(db: Database, sort: Sort) -> None:
    query, values = page_query("a1", sort=sort, which="pinned", skip=0, limit=50)
    plan = [row[3] for row in db.read().execute("EXPLAIN QUERY PLAN " + query, values).fetchall()]
    assert any("SEARCH example_accounts USING INDEX accounts_by_" in step for step in plan), plan
    inner = plan[: plan.index("SCAN f")]
    assert not any("TEMP B-TREE" in step for step in inner), plan


def by_words(db: Database, *questions: str, tenant: str = "a1", scope: str = "s") -> list[int]:
    bank = ExampleBank(db)
    return [
        bank.add(new_example(n, tenant, question=question, scope=scope, request_id=f"{tenant}{scope}{n}"))
        .result(30)
        .id
        for n, question in enumerate(questions)
    ]


def matched(db: Database, *said: str, tenant: str = "a1", scope: str = "s", **more: float) -> list[int]:
    return [
        id
        for id, _ in ExampleSearch(db).matching(tenant, scope, list(said), 10, **({"within_s": 30.0} | more))
    ]


def test_questions_are_found_by_their_words_the_best_match_first(db: Database) -> None:
    population, both, _ = by_words(db, "population of Westwick", "population of Eastwick", "sort pears")
    assert matched(db, "population", "eastwick") == [both, population]
    assert matched(db, "harbour") == matched(db) == []
    scores = [
        score for _, score in ExampleSearch(db).matching("a1", "s", ["population", "eastwick"], 10, 30.0)
    ]
    assert scores == sorted(scores, reverse=True) and min(scores) > 0


def test_only_the_tenants_own_examples_of_the_scope_are_found(db: Database) -> None:
    (mine,) = by_words(db, "population of Eastwick")
    for tenant, scope in (("b2", "s"), ("a1", "other"), ("a1 b", "s"), ("a1", "s/ann")):
        by_words(db, "population of Eastwick", tenant=tenant, scope=scope)
    assert mine in matched(db, "eastwick")
    assert matched(db, "eastwick", tenant='a1" OR "b2') == matched(db, "eastwick", scope="nobody's") == []
    assert len(matched(db, "eastwick", scope="s/ann")) == 1, "an end user's scope is not the shared one"


def test_accents_make_no_other_word_and_syntax_is_no_query(db: Database) -> None:
    (cafe,) = by_words(db, "Où est le Café Zoë?")
    assert matched(db, "cafe") == matched(db, "zoe") == [cafe]
    assert matched(db, '"', "NEAR(", "*", "question:") == []


def test_a_question_that_was_changed_or_deleted_is_found_no_more(db: Database) -> None:
    kept, gone = by_words(db, "population of Eastwick", "population of Westwick")
    bank = ExampleBank(db)
    bank.rewrite(
        "a1", kept, question="sort pears", answer="a", embedded_text="x", vector=None, embedding_version=""
    ).result(30)
    bank.remove("a1", [gone]).result(30)
    assert matched(db, "population") == [] and matched(db, "pears") == [kept]


def test_common_words_are_not_looked_for_where_rare_ones_are(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (words, postgres_words):
        monkeypatch.setattr(each, "_MOST_READ", 3)
    common = by_words(db, *(f"population of town{n}" for n in range(5)))
    assert matched(db, "population", "town3") == [common[3]]
    assert len(matched(db, "population")) == 5, "the rarest is always looked for"


def test_a_search_that_takes_too_long_finds_nothing_and_leaves_the_next_one_alone(db: Database) -> None:
    by_words(db, *(f"population of town{n} and more" for n in range(300)))
    assert matched(db, "population", "more", "and", "of", within_s=-1.0) == []
    assert len(matched(db, "population")) == 10
