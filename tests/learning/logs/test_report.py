"""What a replayed log comes to: sums, intervals, and the words around them."""

from __future__ import annotations

from learning.logs.reasons import REASONS, told
from learning.logs.report import Replayed, cautions, report, table


def request(scope: str = "a", **values: object) -> Replayed:
    return Replayed(
        **{"model": "m", "scope": scope, "way": "reference", "reason": "novel", "reference_usd": 1.0} | values
    )  # type: ignore[arg-type]


def test_a_repeat_saves_all_and_an_offloaded_answer_the_difference_less_its_comparison() -> None:
    total = report(
        [
            request(way="exact", reason="cache_hit"),
            request(
                way="offloaded",
                reason="familiar",
                cost_usd=0.25,
                quality=1.0,
                comparisons=1,
                comparisons_usd=0.5,
            ),
            request(cost_usd=1.0),
        ],
        priced=True,
    )["total"]
    assert total["saved_usd"] == 1.0 + 0.25
    assert total["saved_low_usd"] < total["saved_usd"] < total["saved_high_usd"]
    assert (total["exact"], total["offloaded"], total["comparisons"]) == (1, 1, 1)


def test_a_failed_request_saves_nothing() -> None:
    assert report([request(way="failed", reason="failed")], priced=True)["total"]["saved_usd"] == 0


def test_few_right_answers_are_not_said_to_be_surely_right() -> None:
    offloaded = [request(way="offloaded", reason="familiar", quality=1.0) for _ in range(5)]
    total = report(offloaded, priced=True)["total"]
    assert total["quality"] == 1.0 and total["quality_low"] < 0.8


def test_what_was_only_compared_says_how_good_offloading_would_be() -> None:
    result = report(
        [request(shadow=((False, 1.0), (True, 0.0))), request(shadow=((False, 0.0),))], priced=True
    )
    without, with_them = result["total"]["in_shadow"]
    assert (without["quality"], without["compared"]) == (0.5, 2)
    assert (with_them["quality"], with_them["compared"]) == (0.0, 1)
    assert without["quality_low"] < 0.5 < without["quality_high"]
    assert "small engine, direct, in shadow: quality 0.500" in table(result, {})


def test_the_dearest_scopes_come_first_and_the_others_are_summed_up() -> None:
    requests = [request(scope=f"s{n}", reference_usd=float(n)) for n in range(30)]
    told = report(requests, priced=True)
    assert told["scopes"][0]["scope"] == "s29" and told["other_scopes"] == 10
    assert told["others"]["requests"] == 10
    assert "10 other scopes" in table(told, {}) and "in all" in table(told, {})


def test_without_prices_nothing_is_said_of_money() -> None:
    result = report([request()], priced=False) | {"left_out": {}, "older": 0, "budget_usd": 0, "not_asked": 0}
    assert "saved USD" not in table(result, {}) and "name prices" in "\n".join(cautions(result))


def test_every_reason_says_why_and_a_strange_code_stands_for_itself() -> None:
    assert all(reason.says and reason.takes for reason in REASONS.values())
    assert told("novel+failover") == REASONS["novel"]
    assert told("some_new_code").says == "some new code"
