"""The experiment with the tiny models, as far as it needs no engine: what is asked, what is counted, what is drawn."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from typing import Any

import pytest

from benchmarks.understudy_effect.asking import (
    WORLD,
    Answered,
    Question,
    answered,
    summary,
    traffic,
    win_rate,
    with_examples_of,
)
from benchmarks.understudy_effect.frozen import LARGE, Measured, Plan, in_order, tabled
from benchmarks.understudy_effect.report import chart, lines
from benchmarks.understudy_effect.stream import BANDIT, BIN, curves, policies
from tests.vllm.guide import Said

FACT = WORLD.facts[0]


def row(right: bool, engine: str = "small", examples: int = 0, fact: int = 0) -> Answered:
    return Answered(Question(WORLD.facts[fact], 0), engine, examples, right, 100, 10, 0.05)


def said(text: str, engine: str = "small") -> Said:
    body = f'{{"choices":[{{"message":{{"content":"{text}"}}}}],"usage":{{"prompt_tokens":20,"completion_tokens":8}}}}'
    return Said(200, {"x-understudy-engine": engine, "x-understudy-examples": "0"}, body.encode())


def test_traffic_is_the_same_for_a_seed_and_asks_some_facts_more_than_others() -> None:
    stream = traffic(2000, 1)
    assert stream == traffic(2000, 1) != traffic(2000, 2)
    assert stream[:500] == traffic(500, 1), "a longer stream begins like a shorter one"
    asked = Counter(question.fact for question in stream).most_common()
    assert len(asked) > 180 and asked[0][1] > 3 * asked[-1][1]


def test_the_frozen_bank_never_holds_a_question_that_is_asked() -> None:
    plan = Plan.drawn(1)
    assert len(plan.kept) == 160 and len(plan.questions) == len(set(plan.questions)) == 400
    assert all(question.phrasing not in plan.kept.get(question.fact, ()) for question in plan.questions)
    assert sum(question.fact not in plan.kept for question in plan.questions) == 80
    dense = Plan.drawn(1, phrasings_kept=3)
    assert dense.questions == plan.questions and dense.kept.keys() == plan.kept.keys()
    assert all(len(dense.kept[fact]) == 3 and dense.kept[fact][:1] == plan.kept[fact] for fact in plan.kept)
    assert all(question.phrasing not in dense.kept.get(question.fact, ()) for question in dense.questions)


def test_a_wrong_answer_counts_as_wrong_and_no_answer_counts_as_nothing() -> None:
    assert answered(Question(FACT, 0), lambda _: said(FACT.answer)).right
    assert not answered(Question(FACT, 0), lambda _: said("The town of Nowhere.")).right
    with pytest.raises(AssertionError, match="busy"):
        answered(Question(FACT, 0), lambda _: Said(503, {}, b"busy"))


def test_examples_stand_as_turns_before_the_question() -> None:
    asked: list[list[dict[str, Any]]] = []

    class Guide:
        def ask(self, messages: list[dict[str, Any]], **_: Any) -> Said:
            asked.append(messages)
            return said(FACT.answer)

    way = with_examples_of(Guide(), "small-only", lambda _: [("q1", "a1"), ("q2", "a2")])  # type: ignore[arg-type]
    assert answered(Question(FACT, 0), way).examples == 2
    assert [m["content"] for m in asked[0]] == ["q1", "a1", "q2", "a2", FACT.question(0)]
    assert [m["role"] for m in asked[0]] == ["user", "assistant"] * 2 + ["user"]


@pytest.mark.parametrize(
    "ours,theirs,rate",
    [
        ([True, True], [True, True], 0.5),
        ([True, True], [True, False], 0.75),
        ([False, False], [True, False], 0.25),
    ],
)
def test_the_win_rate_counts_a_tie_half(ours: list[bool], theirs: list[bool], rate: float) -> None:
    assert win_rate([row(one) for one in ours], [row(one) for one in theirs]) == rate


def test_the_large_model_costs_ten_times_the_small_one() -> None:
    assert row(True, "large").cost_usd == pytest.approx(10 * row(True, "small").cost_usd)
    found = summary([row(True, "large"), row(False, "small", examples=2)])
    assert found["right"] == found["to_small"] == found["none_sent"] == 0.5 and found["examples"] == 1


def test_questions_the_bank_cannot_help_with_are_counted_apart() -> None:
    plan = Plan({WORLD.facts[0]: (1,)}, [])
    rows = {0: row(True, examples=1), 1: row(False, fact=1), 2: row(True, fact=2)}
    measured = Measured(rows, 2.0, [0.01, 0.03])
    table = tabled({"other": measured}, plan, in_order(measured), [row(False)] * 3)["other"]
    assert table["where_sent"]["questions"] == table["where_sent"]["right"] == 1
    assert table["where_sent"]["right_alone"] == 0
    assert table["bank_can_help"]["right"] == 1 and table["bank_cannot_help"]["right"] == 0.5
    assert table["bank_cannot_help"]["none_sent"] == 1 and table["requests_per_s"] == 1.5
    assert table["p50_one_at_a_time_ms"] == pytest.approx(20)


def test_the_bandit_comes_last_so_that_what_it_learnt_can_be_gone_on_with() -> None:
    assert list(policies())[-1] == BANDIT


def test_a_curve_has_a_point_per_bin() -> None:
    points = curves([row(i < BIN) for i in range(2 * BIN)])
    assert [point["right"] for point in points] == [1.0, 0.0]


def test_a_chart_is_xml_with_a_line_and_a_name_per_series() -> None:
    drawn = ElementTree.fromstring(chart("Right & wrong", {"a < b": [0, 50, 100], "c": [100, 100, 100]}))
    tags = Counter(element.tag.rpartition("}")[2] for element in drawn.iter())
    assert tags["polyline"] == 2 and "a < b" in [element.text for element in drawn.iter()]


def test_the_report_names_every_way_and_policy() -> None:
    measured = Measured({0: row(True, "large"), 1: row(True, "large", fact=1)}, 1.0, [0.01])
    rows = in_order(measured)
    ways = tabled({LARGE: measured, "way two": measured}, Plan({WORLD.facts[0]: (1,)}, []), rows, rows)
    one = {"all": summary([row(True, "large")]), "after_warm_up": summary([row(True, "large")]), "curve": []}
    found = {
        "frozen": {"bank": 1, "questions": 2, "ways": ways, "dense_bank": 3, "dense_ways": ways},
        "stream": {
            "requests": 4,
            "warm_up": 3,
            "feedback_share": 0.5,
            "settled_requests": 2,
            "policies": {"always large": one, BANDIT: one, "later": {"after_warm_up": one["all"]}},
        },
        "scorer": {"requests": 9, "said": ["accepted"], "log": one["all"]},
    }
    text = "\n".join(lines(found))
    assert all(name in text for name in (LARGE, "way two", "always large", BANDIT, "later", "accepted"))
