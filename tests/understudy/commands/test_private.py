"""From questions put aside to synthetic examples, over a real store and server: many are told of, one alone is not."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result

from router.digest import NO_INSTRUCTIONS, scope_of
from store import Store
from tests.flow.line import MODELS, Asked, Upstream, completion, upstream
from tests.store.behind import database
from tests.store.rows import new_example
from understudy.__main__ import main

PEOPLE = 160
USUAL = "Why is the tracking of my parcel late, and when is the delivery due?"
ALONE = "Does the embezzlement of zanzibar invoices by Quillfeather show in my parcel tracking?"


@pytest.fixture
async def server() -> AsyncIterator[Upstream]:
    async with upstream() as running:

        async def answer(request: web.Request, asked: Asked) -> web.Response:
            said = str(asked.json["messages"][-1]["content"])
            if not said.startswith("Write"):
                return web.json_response(completion(f"In general: {said} Look at the status page."))
            words = re.findall(r"most usual first: (.*)\.", said)[0].split(", ")
            lines = [f"QUESTION: What does {word} mean for {words[0]}?" for word in words[1:]]
            return web.json_response(completion("\n".join([*lines, "Hope this helps!"])))

        running.script = answer
        yield running


def configured(tmp_path: Path, server: Upstream, **private: Any) -> Path:
    config = {
        "engines": {
            "small": {"base_url": server.url},
            "large": {"base_url": server.url, "price": {"input_usd_per_mtok": 0, "output_usd_per_mtok": 10}},
        },
        "models": {"m": {"engines": ["small", "large"], "policy": "few_shot"}},
        "memory": {"data_dir": str(tmp_path / "data"), "advanced": {"embedding_cache_dir": str(MODELS)}},
        "private": {
            "tenants": ["acme"],
            "epsilon": 8,
            "advanced": {"releases": 2, "cells": 1, "words": 6, "planes": 2},
        }
        | private,
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    return tmp_path / "config.yaml"


def filled(tmp_path: Path) -> str:
    """A tenant with many who ask alike, and one who asks something else as well."""
    store = Store.open(tmp_path / "data")
    key, _ = store.keys.create("acme", "k")
    said = [(f"k/{n}", USUAL) for n in range(PEOPLE)] + [("k/0", ALONE)] * 3
    for number, (contributor, question) in enumerate(said):
        new = new_example(
            number,
            tenant=key.tenant,
            contributor=contributor,
            question=question,
            vector=None,
            scope=scope_of(NO_INSTRUCTIONS),
            instructions=NO_INSTRUCTIONS,
        )
        store.examples.admit(new).result(30)
    store.close()
    return key.tenant


async def told(config: Path, *words: str) -> Result:
    command = ["learn", "private", *words[:1], "--config", str(config), *words[1:]]
    return await asyncio.to_thread(CliRunner().invoke, main, command)


@pytest.mark.slow
async def test_many_are_told_of_one_is_not_and_a_spent_promise_is_refused(
    tmp_path: Path, server: Upstream
) -> None:
    tenant = await asyncio.to_thread(filled, tmp_path)
    config = configured(tmp_path, server)

    built = await told(config, "build", "--tenant", "acme")
    assert built.exit_code == 0, built.output

    store = await asyncio.to_thread(Store.open, tmp_path / "data")
    examples = store.examples.page(tenant)
    assert examples, "synthetic ones, and no other"
    for example in examples:
        assert example.request_id.startswith("private-1-")
        assert example.question.startswith("What does") and example.source_engine == "large"
        assert example.question != USUAL
    seen = json.dumps([a.json for a in server.asked]).lower()
    assert "tracking" in seen
    for secret in ("zanzibar", "embezzlement", "quillfeather", USUAL.lower()):
        assert secret not in seen
    tables = [
        name
        for (name,) in database(store).read().execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    ]
    for table in tables:
        if table != "private_questions":
            rows = repr(database(store).read().execute(f"SELECT * FROM {table}").fetchall()).lower()
            assert "zanzibar" not in rows and USUAL.lower() not in rows, table
    paid = {line.purpose for line in store.jobs.replay.spend(tenant=tenant)}
    assert paid == {"private_questions", "private_answer"}, "in the same report of costs as replay"
    before = store.examples.count(tenant)

    again = await told(config, "write", "--tenant", "acme")
    assert again.exit_code == 0 and "0 examples kept" in again.output
    assert store.examples.count(tenant) == before

    assert (await told(config, "build", "--tenant", "acme")).exit_code == 0
    refused = await told(config, "build", "--tenant", "acme")
    assert refused.exit_code == 2 and "one more does not fit" in refused.output
    status = json.loads((await told(config, "status", "--json")).stdout)
    assert [row["tenant"] for row in status] == [tenant]
    assert status[0]["releases"] == 2
    assert 7.9 < status[0]["epsilon_spent"] <= 8
    assert (status[0]["questions"], status[0]["contributors"]) == (PEOPLE + 3, PEOPLE)
    await asyncio.to_thread(store.close)


async def test_without_money_privacy_is_told_but_nothing_is_asked_and_writing_goes_on_later(
    tmp_path: Path, server: Upstream
) -> None:
    await asyncio.to_thread(filled, tmp_path)
    config = configured(tmp_path, server, advanced={"releases": 1})
    poor = await told(config, "build", "--tenant", "acme", "--budget-usd", "0.000001")
    assert poor.exit_code == 0 and "0 examples kept" in poor.output and "money ran out" in poor.output
    assert not server.asked
    later = await told(config, "write", "--tenant", "acme")
    assert later.exit_code == 0 and "0 examples kept" not in later.output


async def test_what_is_missing_is_said(tmp_path: Path, server: Upstream) -> None:
    config = configured(tmp_path, server)
    await asyncio.to_thread(_key_for_acme, tmp_path)
    assert "no tenant is private" in (await told(config, "status")).output
    for words, said in (
        (("build", "--tenant", "nobody"), "no key belongs to"),
        (("write", "--tenant", "id:" + "0" * 32), "is not private"),
        (("build", "--tenant", "acme", "--engine", "huge"), "no engine is called 'huge'"),
    ):
        found = await told(config, *words)
        assert found.exit_code == 2 and said in found.output, found.output
    found = await told(config, "build", "--tenant", "acme")
    assert "no question was put aside yet" in found.output
    found = await told(config, "write", "--tenant", "acme")
    assert "nothing was told yet" in found.output


def _key_for_acme(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "data")
    store.keys.create("acme", "k")
    store.close()
