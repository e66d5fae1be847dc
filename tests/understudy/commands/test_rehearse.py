"""`understudy learn rehearse` over the real command line and a real HTTP engine, which knows only what examples tell it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from router.digest import scope_of
from store import Store
from tests.flow.process import ran
from tests.store.rows import new_example, outcome_record
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
        "learn", "rehearse", str(log), "--small", f"{url}=s", *PRICES, "--questions", "8", "--examples", "3",
        "--json", str(told), "--state", str(folder / "state.jsonl"), *options,
    )  # fmt: skip
    found = json.loads(told.read_text(encoding="utf-8")) if told.exists() else {}
    return status, found, said, errors


def test_examples_are_worth_what_they_teach_and_nothing_is_asked_twice(tmp_path: Path) -> None:
    state = tmp_path / "state.jsonl"
    with chat_server(taught) as (url, asked):
        status, found, said, errors = rehearsed(tmp_path, url)
        assert status == 0, errors
        assert len(asked) == 24, "alone, with the nearest and with random ones"
        ways = {way["way"]: way for way in found["ways"]}
        assert ways["small alone"]["quality"] == 0 and ways["small + 3 nearest"]["quality"] == 1
        assert ways["small + 3 nearest"]["more"] == 1 and ways["small + 3 random"]["quality"] <= 1
        assert ways["small + 3 nearest"]["usd_per_1000"] > ways["copy of the nearest"]["usd_per_1000"] == 0
        assert "By its own proof the small engine would come to answer 0%" in said, (
            "thirty requests prove nothing"
        )
        assert "With max_loss 5% 100% (100% to 100%) would be offloaded (small + 3 nearest), saving" in said
        # The process was killed while it wrote the last line.
        state.write_text(state.read_text()[:-10])
        again = rehearsed(tmp_path, url)
        assert len(asked) == 25, "but for the last one"
        assert [way["quality"] for way in again[1]["ways"]] == [way["quality"] for way in found["ways"]]


def test_the_budget_is_kept(tmp_path: Path) -> None:
    with chat_server(taught) as (url, asked):
        status, found, said, errors = rehearsed(tmp_path, url, "--budget-usd", "0")
    assert status != 0 and not asked and not found and "asked no more" in errors + said


def test_a_log_without_enough_of_a_kind_is_refused(tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", [ticket(1), ticket(2)])
    status, _, errors = ran(
        "learn",
        "rehearse",
        str(log),
        "--small",
        "http://127.0.0.1:9/v1=s",
        "--state",
        str(tmp_path / "s"),
        *PRICES,
    )
    assert status != 0 and "needs 5 other requests under the same instructions" in errors


def test_the_bank_is_a_source_and_its_pages_show_what_came_of_it(tmp_path: Path) -> None:
    """With what people said of its answers: every second one was wrong, and the small engine's are right."""
    asked_under = json.dumps([["You label tickets."], None], separators=(",", ":"))
    with closing(Store.open(tmp_path / "data")) as store:
        for number in range(60):
            kind, request = ("refund", "parcel", "password")[number % 3], f"r{number}"
            example = new_example(
                number, "t1", scope=scope_of(asked_under), instructions=asked_under, request_id=request,
                question=f"my {kind} number {number} is late", answer=kind if number % 2 else "other_kind",
                source_engine="large",
            )  # fmt: skip
            store.examples.add(example).result(30)
            said = outcome_record(
                number, tenant="t1", request_id=request, engine="large", source="user", served=True,
                quality=float(number % 2),
            )  # fmt: skip
            store.outcomes.note(said).result(30)
    told = tmp_path / "told.json"
    with chat_server(lambda body: body["messages"][-1]["content"].split()[1]) as (url, asked):
        status, said, errors = ran(
            "learn", "rehearse", "--bank", str(tmp_path / "data"), "--small", f"{url}=s", *PRICES, "--json", str(told),
            "--questions", "20", "--examples", "3", "--state", str(tmp_path / "state.jsonl"),
        )  # fmt: skip
    assert status == 0, errors
    assert all(body["messages"][0]["content"] == "You label tickets." for body in asked) and len(asked) == 60
    found = json.loads(told.read_text(encoding="utf-8"))
    assert found["source"] == "the bank" and found["ways"][0]["quality"] == pytest.approx(0.5, abs=0.3)
    (scope,) = found["scopes"]
    assert scope == scope_of(asked_under) and found["scopes"][scope]["alone"][0] == 20
    assert json.loads((tmp_path / "data" / "rehearsal.json").read_text(encoding="utf-8")) == found
    assert said.startswith("small for bank, from the bank") and "pages of" in errors


def test_what_people_said_is_read_from_a_log(tmp_path: Path) -> None:
    lines = [ticket(number) | {"score": 1.0, "correction": "refund"} for number in range(12)]
    log = written(tmp_path / "log.jsonl", [*lines, ticket(1) | {"score": 7}])
    with chat_server(lambda _: "refund") as (url, _):
        status, said, errors = ran(
            "learn",
            "rehearse",
            str(log),
            "--small",
            f"{url}=s",
            *PRICES,
            "--examples",
            "2",
            "--state",
            str(tmp_path / "s"),
        )
    assert status == 0 and "12" in said, errors


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ((), "name FILES, or a data folder with --bank"),
        (("log.jsonl", "--bank", "data"), "name FILES, or a data folder with --bank"),
        (("log.jsonl",), "--small URL=MODEL, or --config FILE"),
        (("--bank", "data", "--config", "CONFIG"), "models.m.engines is [only]"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    config = tmp_path / "config.yaml"
    engine = {"base_url": "http://127.0.0.1:9/v1", "api_key": "none"}
    config.write_text(json.dumps({"engines": {"only": engine}, "models": {"m": {"engines": ["only"]}}}))
    status, _, errors = ran(
        "learn", "rehearse", *[str(config) if each == "CONFIG" else each for each in options]
    )
    assert status != 0 and why in errors
