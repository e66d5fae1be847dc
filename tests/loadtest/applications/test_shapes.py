"""The shapes of applications: who reads whom, lengths, and that a seed gives the same."""

from __future__ import annotations

import pytest

from engines.chat import estimated_tokens
from loadtest.applications.shapes import Application, chain, filled, map_reduce, roles, words

ALL = [chain("k", 5), map_reduce("k", 6), roles("k", 3, rounds=2)]


def test_words_are_a_token_each() -> None:
    assert estimated_tokens(words("x", 37)) == 37 and words("x", 5) != words("y", 5)


@pytest.mark.parametrize("application", ALL, ids=lambda one: one.kind)
def test_each_call_reads_only_what_comes_before_it(application: Application) -> None:
    before: set[str] = set()
    for call in application.calls:
        assert set(call.reads) <= before
        before.add(call.name)
    assert application.wanted == (application.calls[-1].name,)


def test_chains_go_one_by_one_and_maps_side_by_side() -> None:
    assert [call.reads for call in chain("k", 3).calls] == [(), ("s0",), ("s1",)]
    *maps, together = map_reduce("k", 3).calls
    assert [call.reads for call in maps] == [()] * 3 and together.reads == ("m0", "m1", "m2")


def test_roles_make_a_review_and_a_revision_of_each_file_and_round() -> None:
    calls = roles("k", 4, rounds=3).calls
    assert len(calls) == 1 + 4 + 3 * (4 + 4) + 1
    revision = next(call for call in calls if call.name == "c2f1")
    assert revision.reads == ("design", "c1f0", "c1f1", "c1f2", "c1f3", "r2f1")
    reviews = [call.content for call in calls if call.name.startswith("r1")]
    assert len({text[:-25] for text in reviews}) == 1, "reviews of a round have all but their ends in common"


def test_a_filled_call_has_answers_where_names_were() -> None:
    call = chain("k", 2).calls[1]
    body = filled(call, {"s0": "so far"}, "m")
    assert "Refine: so far by " in body["messages"][-1]["content"] and body["model"] == "m"
    assert "{{s0}}" in call.content


def test_a_run_has_every_call_with_its_output_and_wants_the_last() -> None:
    one = map_reduce("k", 2)
    body = one.run_body("m", user="me")
    assert [step["understudy"]["output"]["name"] for step in body["steps"]] == ["m0", "m1", "summary"]
    assert body["get"] == {"summary": "latency"} and body["steps"][0]["user"] == "me"


def test_the_same_seed_gives_the_same_application() -> None:
    assert roles("k", 3) == roles("k", 3) and chain("k", 3) != chain("l", 3)
