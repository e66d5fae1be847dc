"""`understudy rehearse` over the real command line and a real HTTP engine, which knows only what examples tell it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.flow.process import ran
from tests.understudy.commands.chat_server import chat_server
from tests.understudy.commands.test_learn_logs import PRICES, ticket, written


def taught(body: dict[str, Any]) -> str:
    """The kind of ticket that a past answer names and the question holds; else a guess."""
    known = {turn["content"] for turn in body["messages"] if turn["role"] == "assistant"}
    asked = body["messages"][-1]["content"]
    return next((kind for kind in sorted(known) if kind in asked), "no idea")


def rehearsed(folder: Path, url: str, *options: str) -> tuple[int, dict[str, Any], str, str]:
    log, told = written(folder / "log.jsonl", [ticket(number) for number in range(30)]), folder / "told.json"
    status, said, errors = ran(
        "rehearse", str(log), "--small", f"{url}=s", *PRICES, "--questions", "8", "--examples", "3",
        "--json", str(told), *options,
    )  # fmt: skip
    found = json.loads(told.read_text(encoding="utf-8")) if told.exists() else {}
    return status, found, said, errors


def test_examples_are_worth_what_they_teach_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    with chat_server(taught) as (url, asked):
        status, found, said, errors = rehearsed(tmp_path, url, "--budget-usd", "1", "--state", str(state))
        assert status == 0, errors
        assert len(asked) == 24, "alone, with the nearest and with random ones"
        ways = {way["way"]: way for way in found["ways"]}
        assert ways["small alone"]["quality"] == 0 and ways["small + 3 nearest"]["quality"] == 1
        assert ways["small + 3 nearest"]["more"] == 1 and ways["small + 3 random"]["quality"] <= 1
        assert ways["small + 3 nearest"]["usd_per_1000"] > ways["copy of the nearest"]["usd_per_1000"] == 0
        assert "With max_loss 5% 100% (100% to 100%) would be offloaded (small + 3 nearest), saving" in said
        # The process was killed while it wrote the last line.
        state.write_text(state.read_text()[:-10])
        again = rehearsed(tmp_path, url, "--budget-usd", "1", "--state", str(state))
        assert len(asked) == 25, "but for the last one"
        assert [way["quality"] for way in again[1]["ways"]] == [way["quality"] for way in found["ways"]]


def test_the_budget_is_kept(tmp_path: Path) -> None:
    with chat_server(taught) as (url, asked):
        status, found, said, errors = rehearsed(tmp_path, url, "--budget-usd", "0")
    assert status != 0 and not asked and not found and "asked no more" in errors + said


def test_a_log_without_enough_of_a_kind_is_refused(tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", [ticket(1), ticket(2)])
    status, _, errors = ran(
        "rehearse", str(log), "--small", "http://127.0.0.1:9/v1=s", "--budget-usd", "1", *PRICES
    )
    assert status != 0 and "needs 5 other requests under the same instructions" in errors
