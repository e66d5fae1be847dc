"""Whoever asks for what is another's finds nothing: tenants x end users x keys x every object and verb of runs.

An asker is a key of a tenant, and the end user that its request names. Whoever has the same tenant and the same end user, by
whichever key, has the same objects; everybody else gets what is told of one that never was, and changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from admin.usage_report import usage_total
from store.decisions.usage import UsageSum
from store.people.limits import Budget, Limits, Terms
from tests.flow.line import Got, Line, line, upstream
from tests.flow.test_line_runs import config, echo
from tests.patience import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEEP = {
    "inputs": {"pages": "texts"},
    "steps": {
        "kept": {"ingest": "{{pages}}", "collection": "notes"},
        "said": {"transform": "{{pages}}", "apply": [{"join": " "}], "after": "kept"},
    },
    "output": "said",
}
FIND = {
    "inputs": {"question": "last_user"},
    "steps": {"found": {"search": "{{question}}", "in": {"collection": "notes"}, "k": 3}},
    "output": "found",
}
KEYS = {"acme-1": "acme", "acme-2": "acme", "beta-1": "beta"}
USERS = ("ann", "bob", "")


class Asker(NamedTuple):
    """Who asks."""

    key: str
    user: str

    @property
    def owns_as(self) -> tuple[str, str]:
        """Whose objects are this one's."""
        return KEYS[self.key], self.user


ASKERS = [Asker(key, user) for key in KEYS for user in USERS]


@dataclass
class World:
    """A gateway with the keys."""

    gate: Line
    secrets: dict[str, str]
    acme: str
    """The tenant's id."""

    async def send(self, who: Asker, method: str, path: str, body: Any = None, **headers: str) -> Got:
        """A request of somebody."""
        named = {"x-understudy-user": who.user} if who.user else {}
        named |= {"Authorization": f"Bearer {self.secrets[who.key]}"} | headers
        async with self.gate.session.request(
            method, self.gate.url + path, headers=named, json=body
        ) as response:
            return Got(response.status, response.headers.copy(), await response.read())


@dataclass
class Objects:
    """What one asker has: ids that nobody else may use."""

    run: str
    variable: str
    secret: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with upstream() as behind:
        behind.script = echo
        made = config(behind, tmp_path_factory.mktemp("owners"), workflows={"keep": KEEP, "find": FIND})
        made["components"] = {"local": {"kind": "local", "price": {"usd_per_item": 0.01}}}
        made["memory"]["partition"] = "user"
        async with line(made) as gate:
            memory = gate.gateway.memory
            assert memory is not None
            keys = memory.store.keys
            made_keys = {
                name: await asyncio.to_thread(keys.create, tenant, name) for name, tenant in KEYS.items()
            }
            secrets = {name: secret for name, (_, secret) in made_keys.items()}
            yield World(gate, secrets, made_keys["acme-1"][0].tenant)


async def made_by(world: World, who: Asker) -> Objects:
    secret = f"secret of {who.owns_as}"
    step = {
        "model": "m",
        "messages": [{"role": "user", "content": secret}],
        "understudy": {"output": {"name": "said"}},
    }
    own = await world.send(who, "POST", "/runs", {"steps": [step]})
    variable = own.json["variables"]["said"]["id"]
    put = await world.send(who, "PUT", "/apps/desk/variables/note", {"value": secret})
    assert put.status in (200, 409), put.body
    kept = await world.send(who, "POST", "/runs", {"workflow": "keep", "inputs": {"pages": [secret]}})
    assert kept.json["status"] == "done", kept.body
    return Objects(own.json["id"], variable, secret)


def _asks(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _reading(variable: str) -> dict[str, Any]:
    step = {
        "model": "m",
        "messages": _asks("{{theirs}}"),
        "understudy": {"inputs": {"theirs": {"variable": variable}}, "output": {"name": "read"}},
    }
    return {"steps": [step]}


BY_ID = [
    ("GET", "/runs/{run}", None),
    ("POST", "/runs/{run}/cancel", {}),
    ("POST", "/runs/{run}/steps/s1", {"action": "skip"}),
    ("DELETE", "/runs/{run}", None),
    ("GET", "/variables/{variable}", None),
    ("GET", "/variables/{variable}?stream=true", None),
    ("GET", "/variables/{variable}?wait_s=1", None),
]
"""Every verb of what is named by an id: (method, path, body)."""


async def test_nobody_reads_changes_or_deletes_what_is_anothers(world: World) -> None:
    objects = {who: await made_by(world, who) for who in ASKERS}
    for who, own in objects.items():
        for other in ASKERS:
            if other.owns_as == who.owns_as:
                continue
            for method, path, body in BY_ID:
                got = await world.send(other, method, path.format(run=own.run, variable=own.variable), body)
                assert got.status == 404, (who, other, method, path, got.body)
                assert own.secret.encode() not in got.body
            read = await world.send(other, "POST", "/runs", _reading(own.variable))
            assert read.status == 404 and own.secret.encode() not in read.body, (who, other, read.body)
        for same in ASKERS:
            if same.owns_as == who.owns_as:
                got = await world.send(same, "GET", f"/runs/{own.run}")
                assert got.status == 200 and own.secret.encode() in got.body, (who, same)
                got = await world.send(same, "GET", f"/variables/{own.variable}")
                assert (got.status, got.json["value"]) == (200, f"<{own.secret}>")
                read = await world.send(same, "POST", "/runs", _reading(own.variable))
                assert read.json["variables"]["read"]["value"] == f"<<{own.secret}>>"


async def test_names_are_each_end_users_own(world: World) -> None:
    for who in ASKERS:
        await made_by(world, who)
    for who in ASKERS:
        note = await world.send(who, "GET", "/apps/desk/variables/note")
        assert (note.status, note.json["value"]) == (200, f"secret of {who.owns_as}")
        listed = await world.send(who, "GET", "/collections")
        assert [each["id"] for each in listed.json["data"]] == ["notes"]
        asked = {"model": "find", "messages": _asks("secret")}
        found = await world.send(who, "POST", "/chat/completions", asked)
        secrets = {f"secret of {other.owns_as}" for other in ASKERS}
        assert {each for each in secrets if each in found.text} == {f"secret of {who.owns_as}"}, found.body
    ann, bob = Asker("acme-1", "ann"), Asker("acme-2", "bob")
    assert (await world.send(ann, "DELETE", "/collections/notes")).status == 200
    assert (await world.send(ann, "GET", "/collections/notes")).status == 404
    assert (await world.send(bob, "GET", "/collections/notes")).status == 200
    assert (await world.send(ann, "DELETE", "/apps/desk")).json["deleted"]
    assert (await world.send(ann, "GET", "/apps/desk/variables/note")).status == 404
    assert (await world.send(bob, "GET", "/apps/desk/variables/note")).status == 200
    whose = next(iter(await _digests(world)))
    assert (await world.send(Asker("acme-1", ""), "GET", f"/collections/{whose}%2Fnotes")).status == 404
    assert (await world.send(Asker("acme-1", ""), "DELETE", f"/collections/{whose}%2Fnotes")).status == 404


async def _digests(world: World) -> list[str]:
    memory = world.gate.gateway.memory
    assert memory is not None
    found = await asyncio.to_thread(memory.store.runs.assets.collections, world.acme)
    return [each.name.rpartition("/")[0] for each in found if "/" in each.name]


async def test_a_key_asks_the_components_that_its_limits_list(world: World) -> None:
    memory = world.gate.gateway.memory
    assert memory is not None
    run = {"workflow": "keep", "inputs": {"pages": ["A page."]}}
    for name, globs, code in (("none", ("web-*",), "component_not_allowed"), ("own", ("lo*",), None)):
        terms = Terms(limits=Limits(components=globs))
        _, secret = await asyncio.to_thread(memory.store.keys.create, "beta", name, terms=terms)
        world.secrets[name] = secret
        got = await world.send(Asker(name, ""), "POST", "/runs", run)
        assert (code is None) == (got.json.get("status") == "done"), got.body
        assert code is None or code.encode() in got.body


async def test_what_components_charge_counts_against_the_budget_of_who_asks(world: World) -> None:
    memory = world.gate.gateway.memory
    assert memory is not None
    terms = Terms(limits=Limits(budgets=(Budget(0.035, "total"),)))
    poor, world.secrets["poor"] = await asyncio.to_thread(
        memory.store.keys.create, "beta", "poor", terms=terms
    )

    async def keep(*pages: str) -> Got:
        return await world.send(
            Asker("poor", ""), "POST", "/runs", {"workflow": "keep", "inputs": {"pages": list(pages)}}
        )

    first = await keep("One page.", "Another page.")
    assert first.json["status"] == "done", first.body
    assert sum(step["cost_usd"] for step in first.json["steps"]) == pytest.approx(0.02)
    usage = memory.store.decisions.usage

    def booked() -> list[UsageSum]:
        sums = usage.sums(["engine"], key_id=poor.id)
        return [each for each in sums if each.line == "component"]

    await until(lambda: bool(booked()), "what the component has charged is in the sums")
    (line,) = booked()
    assert (line.engine, line.amounts.requests) == ("local", 2)
    assert line.amounts.cost_usd == pytest.approx(0.02) and usage_total([line])["cost_usd"] == pytest.approx(
        0.02
    )
    refused = await keep("A third page.", "A fourth page.")
    # What was asked for has failed; another page may still be at the component.
    assert refused.json["status"] in ("failed", "running") and b"insufficient_quota" in refused.body


async def test_an_idempotency_key_is_each_end_users_own(world: World) -> None:
    step = {"model": "m", "messages": _asks("once"), "understudy": {"output": {"name": "said"}}}
    ids: dict[tuple[str, str], set[str]] = {}
    for who in ASKERS:
        got = await world.send(who, "POST", "/runs", {"steps": [step]}, **{"Idempotency-Key": "k-1"})
        ids.setdefault(who.owns_as, set()).add(got.json["id"])
    assert all(len(each) == 1 for each in ids.values())
    assert len(set.union(*ids.values())) == len(ids)
