"""`understudy learn explain` over the real command line: why nothing is offloaded, in the words of whoever may change it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flow.line import MODELS
from tests.flow.process import ran, running
from tests.understudy.commands.chat_server import chat_server

TOOLS = [{"type": "function", "function": {"name": "look_up"}}]


def asked(question: str, system: str = "You label tickets.", **fields: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return {"model": "gpt-4o", "messages": messages, **fields}


def explained(data: Path, *options: str) -> tuple[dict[str, Any], str]:
    told = data.parent / "told.json"
    status, said, errors = ran("learn", "explain", "--data", str(data), "--json", str(told), *options)
    assert status == 0, errors
    return json.loads(told.read_text(encoding="utf-8")), said


@pytest.mark.slow
def test_a_real_gateways_log_says_why_nothing_was_offloaded(tmp_path: Path) -> None:
    data = tmp_path / "data"
    config = tmp_path / "config.yaml"
    with chat_server(lambda _: "parcel") as (url, _):
        price = "{input_usd_per_mtok: 1, output_usd_per_mtok: 10}"
        config.write_text(
            f"engines:\n  small: {{base_url: {url}, model: s}}\n"
            f"  large: {{base_url: {url}, model: l, price: {price}}}\n"
            "models: {gpt-4o: {engines: [small, large], policy: few_shot, advanced: {with_tools: off}}}\n"
            f"memory: {{data_dir: {data}, advanced: {{embedding_cache_dir: {MODELS}, embedding_deadline_ms: 60000}}}}\n"
        )
        with running("--config", str(config)) as gateway:
            for n in range(12):
                gateway.post(
                    "/chat/completions",
                    asked("Where is it?", system=f"It is minute {n} of {n * 77} for Ann{n}x."),
                )
            for n in range(3):
                gateway.post("/chat/completions", asked(f"Look up order {n}", tools=TOOLS))
            follow_up = asked("And this one?")
            follow_up["messages"][1:1] = [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"},
            ]
            gateway.post("/chat/completions", follow_up)
            gateway.wait_for(
                lambda: gateway.figure('understudy_remembered_total{kind="request",result="stored"}') >= 16,
                "rows",
            )
    told, said = explained(data)
    reasons = {each["reason"]: each["requests"] for scope in told["scopes"] for each in scope["reasons"]}
    assert reasons == {"scope_changes": 12, "tools": 3, "follow_up": 1}
    assert told["scopes"][0]["reasons"][0]["reason"] == "scope_changes", "the dearest first"
    assert "12 scopes of 12 requests" in said and "move what changes from the system prompt" in said
    assert "with_tools: route" in said and "75 %" in said


def test_a_folder_without_requests_is_said_to_have_none(tmp_path: Path) -> None:
    status, _, errors = ran("learn", "explain", "--data", str(tmp_path))
    assert status == 2 and "no gateway's data folder" in errors


def test_the_cache_says_for_which_header_repeats_were_missed(tmp_path: Path) -> None:
    with (
        chat_server(lambda _: "parcel") as (url, _),
        running("--upstream", url, "--data", str(tmp_path / "data")) as gateway,
    ):
        for project in ("a", "b", "a"):
            gateway.post("/chat/completions", asked("Where?"), {"OpenAI-Project": project})
        status, said, errors = ran("learn", "explain", "--cache", gateway.url)
    assert status == 0, errors
    assert said.strip() == "1 repeats were asked anew for the header openai-project alone"


def test_without_a_folder_or_the_cache_there_is_nothing_to_explain() -> None:
    assert ran("learn", "explain")[0] == 2
    status, _, errors = ran("learn", "explain", "--cache", "http://127.0.0.1:1")
    assert status == 2 and "does not tell its metrics" in errors
