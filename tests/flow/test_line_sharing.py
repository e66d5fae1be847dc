"""Sharing examples between tenants: only by an explicit grant, one way, and examples only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from store import Store
from store.examples.bank import ExampleBank
from store.records import Example
from tests.flow.line import Line, line, upstream
from tests.flow.test_line_demonstrations import ask, give
from tests.flow.test_line_examples import ALIKE, QUESTION, stage
from tests.flow.test_line_keys import keys_of, new_key
from tests.patience import PATIENCE_S, until
from understudy.settings.file import ConfigError, parse_config

GRANT = {"grants": [{"from": "archive", "to": ["acme"]}]}


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}", "Cache-Control": "no-store"}


async def test_granted_examples_are_read_by_those_named_and_by_nobody_else(tmp_path: Path) -> None:
    exact = {"exact": {"enabled": True}}
    async with stage(tmp_path, sharing=GRANT, memory=exact) as here:
        archive, acme, umbrella = [
            bearer(await new_key(here.gate, t)) for t in ("archive", "acme", "umbrella")
        ]
        name = (await give(here.gate, QUESTION, "From the archive.", headers=archive)).json["id"]
        lent = await here.gate.chat(ALIKE, acme)
        assert lent.headers["x-understudy-engine"] == "small" and lent.headers["x-understudy-examples"] == "1"
        assert "From the archive." in [m["content"] for m in here.small.asked[0].json["messages"]]
        assert (await here.gate.chat(ALIKE, umbrella)).headers["x-understudy-engine"] == "large"
        assert (await ask(here.gate, "GET", f"/examples/{name}", acme)).status == 404
        assert (await ask(here.gate, "DELETE", f"/examples/{name}", acme)).status == 404
        assert (await ask(here.gate, "GET", "/examples", acme)).json["data"] == []


@dataclass
class Workers:
    """Two gateways on one data folder: the archive's examples may be read by acme."""

    one: Line
    other: Line
    store: Store
    archive: str
    acme: str


@asynccontextmanager
async def workers(data: Path) -> AsyncIterator[Workers]:
    async with upstream() as behind:
        engine = {"base_url": behind.url, "advanced": {"attempts": 1}}
        rule = {"policy": "few_shot", "few_shot": {"theta": 0.8, "m": 1}}
        config = {
            "engines": {"small": engine, "large": engine},
            "models": {"gpt-4o": {"engines": ["small", "large"], **rule}},
            "memory": {"data_dir": str(data)},
            "sharing": GRANT,
        }
        async with line(config) as one, line(config) as other:
            archive, acme = [await new_key(one, tenant) for tenant in ("archive", "acme")]
            await until(lambda: keys_of(other).lookup(acme) is not None, "the key known to both")
            assert one.gateway.memory is not None
            yield Workers(one, other, one.gateway.memory.store, archive, acme)


def held_back(bank: ExampleBank, lent: Example) -> Future[Any]:
    return bank.hold_back(lent.tenant, lent.id)


def corrected(bank: ExampleBank, lent: Example) -> Future[Any]:
    return bank.update(lent.tenant, lent.id, answer="Another one.")


def deleted(bank: ExampleBank, lent: Example) -> Future[Any]:
    return bank.remove(lent.tenant, [lent.id])


def contributor_forgotten(bank: ExampleBank, lent: Example) -> Future[Any]:
    return bank.remove_contributor(lent.tenant, lent.contributor)


@pytest.mark.slow
@pytest.mark.parametrize("acted", [held_back, corrected, deleted, contributor_forgotten])
async def test_an_answer_made_with_a_lent_example_goes_when_its_owner_takes_the_example_back(
    tmp_path: Path, acted: Callable[[ExampleBank, Example], Future[Any]]
) -> None:
    unrelated = "Who painted the ceiling of the chapel?"
    async with workers(tmp_path / "data") as here:
        await give(here.one, QUESTION, "From the archive.", headers=bearer(here.archive))
        acme = {"Authorization": f"Bearer {here.acme}"}
        assert (await here.one.chat(ALIKE, acme)).headers["x-understudy-examples"] == "1"
        assert (await here.one.chat(unrelated, acme)).headers["x-understudy-examples"] == "0"
        assert (await here.other.chat(ALIKE, acme)).hit and (await here.other.chat(unrelated, acme)).hit
        (lent,) = here.store.examples.page(here.store.keys.tenant_named("archive"))
        await asyncio.to_thread(acted(here.store.examples, lent).result, PATIENCE_S)
        for gate in (here.other, here.one):
            assert not (await gate.chat(ALIKE, acme | {"Cache-Control": "no-store"})).hit
            assert (await gate.chat(unrelated, acme)).hit, "made without it"


@pytest.mark.slow
async def test_naming_anothers_example_drops_nothing(tmp_path: Path) -> None:
    async with workers(tmp_path / "data") as here:
        await give(here.one, QUESTION, "From the archive.", headers=bearer(here.archive))
        acme = {"Authorization": f"Bearer {here.acme}"}
        await here.one.chat(ALIKE, acme)
        (lent,) = here.store.examples.page(here.store.keys.tenant_named("archive"))
        for tenant in ("acme", "umbrella"):
            removing = here.store.examples.remove(here.store.keys.tenant_named(tenant), [lent.id])
            assert await asyncio.to_thread(removing.result, PATIENCE_S) == 0
        assert (await here.other.chat(ALIKE, acme)).hit


async def test_a_grant_is_not_its_own_reverse(tmp_path: Path) -> None:
    async with stage(tmp_path, sharing=GRANT) as here:
        archive, acme = [bearer(await new_key(here.gate, t)) for t in ("archive", "acme")]
        await give(here.gate, QUESTION, "Acme's own.", headers=acme)
        assert (await here.gate.chat(ALIKE, archive)).headers["x-understudy-engine"] == "large"


async def test_exact_answers_never_cross_even_with_a_grant(tmp_path: Path) -> None:
    async with stage(tmp_path, sharing=GRANT, memory={"exact": {"enabled": True}}, m=2) as here:
        archive, acme = [await new_key(here.gate, t) for t in ("archive", "acme")]
        await here.gate.chat(QUESTION, {"Authorization": f"Bearer {archive}"})
        assert not (await here.gate.chat(QUESTION, {"Authorization": f"Bearer {acme}"})).hit


@pytest.mark.parametrize("grant", [{"from": "a"}, {"from": "a", "to": []}, {"source": "a", "to": ["b"]}, "a"])
def test_a_grant_that_is_not_clear_is_refused(grant: Any) -> None:
    config = {"upstream": {"base_url": "http://127.0.0.1:1/v1"}, "sharing": {"grants": [grant]}}
    with pytest.raises(ConfigError, match=r"sharing\.grants"):
        parse_config(config)
