"""Two operators at one form: the second is told of the first, and nothing of the first's is undone unseen."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from store.learned.dials import TurnedDials
from tests.admin.site import PASSWORD, Person, Site, site


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


async def version(person: Person, page: str, action: str, *holding: str) -> str:
    """What the page's form to that action carries along; `holding`: what else the form has in it."""
    for form in re.findall(r"<form\b.*?</form>", (await person.get(page)).text, re.DOTALL):
        found = re.search(r'name="version" value="([^"]+)"', form)
        if found and f'action="{action}"' in form and all(each in form for each in holding):
            return found[1]
    raise AssertionError(f"no form to {action} with a version on {page}")


async def test_of_an_accounts_role_and_password(pages: Site) -> None:
    operator, people = await pages.person("operator"), pages.sources.store.operators
    await pages.person("viewer")
    mine = 'name="user" value="a-viewer"'
    seen = {"user": "a-viewer", "version": await version(operator, "/accounts", "/accounts/role", mine)}
    before = people.get("a-viewer")
    assert (await operator.post("/accounts/role", {**seen, "role": "viewer-content"})).status == 303
    after = people.get("a-viewer")
    assert before is not None and after is not None and after.changed_at_s > before.changed_at_s
    second = await operator.post("/accounts/role", {**seen, "role": "operator"})
    assert second.status == 409 and "its role is viewer-content" in second.text
    late = await operator.post("/accounts/password", {**seen, "password": PASSWORD})
    assert late.status == 409 and "Somebody else has changed a-viewer" in late.text
    assert people.get("a-viewer") == after, "nothing was changed"
    seen["version"] = await version(operator, "/accounts", "/accounts/password", mine)
    assert (await operator.post("/accounts/password", {**seen, "password": PASSWORD})).status == 303


async def test_of_the_shares_that_are_reviewed(pages: Site) -> None:
    operator = await pages.person("operator")
    seen = {"reference": "5", "version": await version(operator, "/review", "/review/shares")}
    assert (await operator.post("/review/shares", {**seen, "offloaded": "30"})).status == 303
    second = await operator.post("/review/shares", {**seen, "offloaded": "40"})
    assert second.status == 409 and "a-operator has chosen other shares" in second.text
    assert 'value="40"' in second.text, "it comes back as it was sent"
    assert pages.sources.store.outcomes.reviews.shares()[-1].offloaded == 0.3


async def test_of_a_keys_rotation(pages: Site) -> None:
    operator, keys = await pages.person("operator"), pages.sources.store.keys
    key, _ = keys.create("acme", "app")
    path = f"/keys/{quote(key.id)}/rotate"
    seen = {"grace_h": "0", "version": await version(operator, f"/keys/{key.id}", path)}
    assert "another secret" in (await operator.post(path, seen)).text
    prefix = keys.get(key.id).prefix
    second = await operator.post(path, seen)
    assert second.status == 409 and "changed this meanwhile" in second.text
    assert keys.get(key.id).prefix == prefix, "the first one's secret goes on"


async def test_of_two_rotations_at_the_same_moment(pages: Site) -> None:
    operator, keys = await pages.person("operator"), pages.sources.store.keys
    for n in range(5):
        key, _ = keys.create("acme", f"app {n}")
        path = f"/keys/{quote(key.id)}/rotate"
        seen = {"grace_h": "0", "version": await version(operator, f"/keys/{key.id}", path)}
        both = await asyncio.gather(operator.post(path, seen), operator.post(path, seen))
        assert sorted(got.status for got in both) == [200, 409]


async def test_of_an_undo(pages: Site) -> None:
    operator, dials = await pages.person("operator"), pages.sources.store.dials
    for at_s, theta in ((1.0, 0.7), (2.0, 0.9)):
        dials.turn(TurnedDials("demo", at_s, "ann", theta=theta)).result(30)
    undo = "/router/settings/undo"
    seen = {"model": "demo", "version": await version(operator, "/router?model=demo", undo)}
    assert (await operator.post(undo, seen)).status == 303
    second = await operator.post(undo, seen)
    assert second.status == 409 and "changed by ann meanwhile (theta 0.7)" in second.text
    now = dials.in_force("demo")
    assert now is not None and now.theta == 0.7, "undone once"


async def test_of_a_roll_back(pages: Site) -> None:
    operator, artifacts = await pages.person("operator"), pages.sources.store.artifacts
    for n in range(3):
        artifacts.publish("bandit", "t1", "demo", bytes([n]), metrics={"reward": 0.5}, note="")
    back = "/learning/roll-back"
    seen = {"kind": "bandit", "tenant": "t1", "model": "demo"}
    seen["version"] = await version(operator, "/learning", back)
    assert (await operator.post(back, seen)).status == 303
    once = artifacts.active("bandit", "t1", "demo")
    second = await operator.post(back, seen)
    assert second.status == 409 and "Another version was taken into use meanwhile" in second.text
    assert artifacts.active("bandit", "t1", "demo") == once, "gone back once"


async def test_of_a_version_that_is_taken_into_use(pages: Site) -> None:
    operator, artifacts = await pages.person("operator"), pages.sources.store.artifacts
    for n in range(3):
        artifacts.publish("bandit", "t1", "demo", bytes([n]), metrics={"reward": 0.5}, note="")
    first, second, third = sorted(one.id for one in artifacts.versions("bandit", "t1", "demo"))
    page = (await operator.get("/learning")).text
    assert page.count(f'name="in_use" value="{third}"') == 3, "of both others, and of what is built in"
    seen = {"in_use": str(third)}
    assert (await operator.post("/learning/use", {**seen, "version": str(second)})).status == 303
    for path, fields in (
        ("/learning/use", {"version": str(first)}),
        ("/learning/built-in", {"kind": "bandit", "tenant": "t1", "model": "demo"}),
    ):
        late = await operator.post(path, {**seen, **fields})
        assert late.status == 409 and f"taken into use meanwhile: {second}" in late.text
    now = artifacts.active("bandit", "t1", "demo")
    assert now is not None and now.id == second
