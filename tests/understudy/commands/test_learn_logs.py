"""`understudy learn --from logs` over the real command line: what a log would have saved, and how well that is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flow.process import ran
from tests.understudy.commands.chat_server import chat_server

PRICES = ("--large-price", "2.5,10", "--small-price", "0.15,0.6")
KINDS = ("refund", "parcel", "password")


def line(question: str, answer: str, *, at_s: float | None = None, **request: Any) -> dict[str, Any]:
    """One request and its answer, as a proxy logs them."""
    asked = {
        "model": "gpt-4o",
        "temperature": 0,
        "messages": [
            {"role": "system", "content": "You label tickets."},
            {"role": "user", "content": question},
        ],
        **request,
    }
    choice = {"message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    created = {} if at_s is None else {"created": at_s}
    return {"request": asked, "response": {"model": "gpt-4o", "choices": [choice], "usage": usage, **created}}


def ticket(number: int) -> dict[str, Any]:
    kind = KINDS[number % len(KINDS)]
    return line(f"Which kind of ticket is this: my {kind} number {number} is late", kind)


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    return path


def replayed(folder: Path, lines: list[dict[str, Any]], *options: str) -> tuple[dict[str, Any], str]:
    """The JSON of a replay, and what it printed."""
    log, told = written(folder / "log.jsonl", lines), folder / "told.json"
    status, said, errors = ran("learn", "--from", "logs", str(log), "--json", str(told), *options)
    assert status == 0, errors
    return json.loads(told.read_text(encoding="utf-8")), said


@pytest.mark.slow
def test_without_a_budget_nobody_is_asked_and_exact_repeats_are_counted(tmp_path: Path) -> None:
    lines = [ticket(number) for number in range(12)] + [ticket(3), ticket(4), ticket(3)]
    with chat_server(lambda _: "parcel") as (url, asked):
        told, said = replayed(tmp_path, lines, "--small", f"{url}=s", *PRICES)
    assert asked == [] and told["spent_usd"] == 0
    total = told["total"]
    assert (total["requests"], total["exact"], total["offloaded"]) == (15, 3, 0)
    # 1,000 tokens at 2.5 and 100 at 10 dollars per million.
    assert round(total["saved_usd"], 6) == round(3 * 0.0035, 6)
    assert total["saved_low_usd"] <= total["saved_usd"] <= total["saved_high_usd"]
    assert total["familiar"] > 0 and total["familiar_would_cost_usd"] > 0
    assert "no engine was asked (--budget-usd is 0)" in said and "quality is not known" in said


@pytest.mark.slow
def test_a_request_is_decided_only_by_those_before_it(tmp_path: Path) -> None:
    told, _ = replayed(tmp_path, [ticket(1), ticket(1)], *PRICES)
    assert told["total"]["exact"] == 1, "the first of two can repeat nothing"


@pytest.mark.slow
def test_an_answer_that_was_too_old_at_the_time_is_no_repeat(tmp_path: Path) -> None:
    day_s = 86_400
    times = [1_700_000_000, 1_700_000_100, 1_700_000_100 + 2 * day_s]
    lines = [line("Is the shop open on Sundays?", "No.", at_s=at_s) for at_s in times]
    told, _ = replayed(tmp_path, lines, *PRICES)
    assert told["total"]["exact"] == 1


@pytest.mark.slow
def test_a_log_that_has_the_newest_first_is_replayed_from_its_oldest(tmp_path: Path) -> None:
    first, later = 1_700_000_000, 1_700_000_500
    lines = [line(f"What is {n} plus {n}?", str(2 * n), at_s=later - n) for n in range(20)]
    lines.append(line("What is the oldest?", "This.", at_s=first))
    told, _ = replayed(tmp_path, lines, "--limit", "20", *PRICES)
    assert told["older"] == 1 and told["total"]["requests"] == 20


@pytest.mark.slow
def test_lines_that_cannot_be_replayed_are_counted_with_their_reason(tmp_path: Path) -> None:
    tool_call = ticket(1)
    tool_call["response"]["choices"][0]["message"]["tool_calls"] = [{"id": "t"}]
    told, said = replayed(tmp_path, [ticket(1), tool_call], *PRICES)
    assert told["left_out"] == {"its answer calls a tool": 1}
    assert "1 lines of the log cannot be replayed" in said


@pytest.mark.slow
def test_why_not_more_names_requests_with_tools(tmp_path: Path) -> None:
    lines = [
        ticket(n) | {"request": ticket(n)["request"] | {"tools": [{"type": "function"}]}} for n in range(4)
    ]
    told, said = replayed(tmp_path, lines, *PRICES)
    assert told["total"]["why_not"][0]["reason"] == "tools"
    assert "it carries tools" in said


@pytest.mark.slow
def test_the_report_is_kept_for_the_admin_pages_without_words_of_the_log(tmp_path: Path) -> None:
    _, said = replayed(tmp_path, [ticket(n) for n in range(3)], "--data", str(tmp_path / "data"), *PRICES)
    kept = (tmp_path / "data" / "log-replay.json").read_text(encoding="utf-8")
    assert json.loads(kept)["total"]["requests"] == 3
    assert "You label tickets" in said and "You label tickets" not in kept


@pytest.mark.slow
def test_a_budget_is_not_exceeded(tmp_path: Path) -> None:
    with chat_server(lambda _: "parcel") as (url, asked):
        told, said = replayed(
            tmp_path, [ticket(n) for n in range(40)], "--small", f"{url}=s", "--budget-usd", "0.003", *PRICES
        )
    assert asked and told["spent_usd"] <= 0.003
    assert told["not_asked"] > 0 and "the budget of $0.003 was spent" in said


def test_a_log_without_a_usable_line_is_refused_with_the_reason(tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", [{"nothing": 1}])
    status, _, errors = ran("learn", "--from", "logs", str(log))
    assert status == 2 and "no line of the log can be replayed" in errors and "nothing" in errors


def test_a_configuration_without_a_smaller_engine_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "engines: {large: {base_url: http://127.0.0.1:9/v1}}\nmodels: {gpt-4o: {engines: [large]}}\n"
    )
    status, _, errors = ran(
        "learn", "--from", "logs", str(written(tmp_path / "l.jsonl", [ticket(1)])), "--config", str(config)
    )
    assert status == 2 and "smaller engine" in errors


def labels(count: int) -> list[dict[str, Any]]:
    """Tickets whose answer is a label, none of them twice."""
    return [
        line(
            f"Label this ticket: the {KINDS[n % len(KINDS)]} of customer {n * 37 % 1009} went wrong",
            f"{KINDS[n % len(KINDS)]}_problem",
        )
        for n in range(count)
    ]


def right(body: dict[str, Any]) -> str:
    asked = body["messages"][-1]["content"]
    return next(f"{kind}_problem" for kind in KINDS if kind in asked)


@pytest.mark.slow
def test_a_good_small_engine_is_proven_and_then_offloaded_to(tmp_path: Path) -> None:
    with chat_server(right) as (url, _):
        told, said = replayed(tmp_path, labels(300), "--small", f"{url}=s", "--budget-usd", "5", *PRICES)
    total = told["total"]
    assert total["offloaded"] > 50 and total["quality"] == 1.0
    assert total["quality_low"] > 0.9 and total["compared"] == total["offloaded"]
    assert total["comparisons"] > 0 and 0 < told["spent_usd"] < 5
    assert total["saved_usd"] > 0, said


@pytest.mark.slow
def test_a_small_engine_that_is_always_wrong_is_never_offloaded_to(tmp_path: Path) -> None:
    with chat_server(lambda _: "wrong_problem") as (url, asked):
        told, said = replayed(tmp_path, labels(120), "--small", f"{url}=s", "--budget-usd", "5", *PRICES)
    assert asked and told["total"]["offloaded"] == 0
    assert told["total"]["saved_usd"] <= 0, "what was compared in vain is a loss"
    assert "not_good_enough" in {each["reason"] for each in told["total"]["why_not"]}, said
