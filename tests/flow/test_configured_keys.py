"""Keys that the configuration lists, over real sockets: taken from the start on, ended, rotated, revoked later."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from store.people.audit import AuditRecord
from tests.flow.line import Line, Upstream, line, upstream
from tests.patience import until
from understudy.build import CannotStart

WEB, APP = "web-secret-0123456789", "app-secret-0123456789"


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def config(behind: Upstream, folder: Path, **more: Any) -> dict[str, Any]:
    memory = {"data_dir": str(folder), "examples": {"enabled": False}}
    return {"upstream": {"base_url": behind.url, "api_key": "sk-operator"}, "memory": memory, **more}


def audited(gate: Line) -> list[AuditRecord]:
    assert gate.gateway.memory is not None
    return gate.gateway.memory.store.audit.page()


async def test_listed_keys_are_taken_until_they_are_listed_no_more(tmp_path: Path) -> None:
    both = {"web": {"secret": WEB, "tenant": "acme"}, "app": {"secret": APP, "tenant": "acme"}}
    async with upstream() as behind:
        async with line(config(behind, tmp_path, keys=both, tenants={"acme": {"region": ""}})) as gate:
            assert (await gate.chat("Q")).status == 401
            assert (await gate.chat("Q", bearer(WEB))).status == 200
            assert (await gate.chat("Q", bearer(APP))).hit, "two keys of one tenant share memory"
            made = {(row.action, row.user) for row in audited(gate)}
            assert made == {("keys/configure", "configuration"), ("tenants/configure", "configuration")}
            files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
            assert not [data for data in files if WEB.encode() in data]
        async with line(config(behind, tmp_path, keys={"app": both["app"]})) as gate:
            assert (await gate.chat("Q2", bearer(WEB))).status == 401
            assert (await gate.chat("Q2", bearer(APP))).status == 401, "nor is its tenant listed any more"
        async with line(config(behind, tmp_path, keys={"app": both["app"]}, tenants={"acme": {}})) as gate:
            assert (await gate.chat("Q3", bearer(APP))).status == 200
            rows = len(audited(gate))
        async with line(config(behind, tmp_path, keys={"app": both["app"]}, tenants={"acme": {}})) as gate:
            assert len(audited(gate)) == rows, "nothing changed, and nothing is written"


async def test_a_key_is_named_in_the_file_as_it_is_there(tmp_path: Path) -> None:
    listed = {"web": {"secret": WEB}, "app": {"secret": APP}}
    memory = {"data_dir": str(tmp_path), "examples": {"admission": {"opted_out_keys": ["web"]}}}
    served = {"models": {"gpt-4o": {"engines": ["one"]}}, "keys": listed, "memory": memory}
    async with upstream() as behind:
        one = {"base_url": behind.url, "api_key": "none"}
        async with line({"engines": {"one": one}} | served) as gate:
            assert gate.gateway.memory is not None
            of = gate.gateway.memory.store.decisions
            for secret in (WEB, APP):
                assert (await gate.chat(f"What is {secret[:3]}?", bearer(secret))).status == 200
            await until(gate.gateway.settled, "all is written")
            texts = [of.texts.get(row.tenant, row.id) for row in of.requests.recent(2)]
            assert sum(text is not None for text in texts) == 1, "nothing is kept of the one that is named"


async def test_a_clash_keeps_the_gateway_from_starting_and_says_what(tmp_path: Path) -> None:
    async with upstream() as behind:
        async with line(config(behind, tmp_path)) as gate:
            assert gate.gateway.memory is not None
            create = gate.gateway.memory.store.keys.create
            key = (await asyncio.to_thread(create, "acme", "by hand", secret_text=WEB))[0]
        with pytest.raises(CannotStart, match=rf"keys\.web\.secret is that of the key {key.id}"):
            async with line(config(behind, tmp_path, keys={"web": {"secret": WEB}})):
                pass


async def test_an_ended_key_is_refused_and_a_rotated_one_is_taken_for_its_grace(tmp_path: Path) -> None:
    async with upstream() as behind:
        async with line(
            config(behind, tmp_path, keys={"web": {"secret": WEB, "expires_at": "2020-01-01"}})
        ) as gate:
            refused = await gate.chat("Q", bearer(WEB))
            assert (refused.status, refused.json["error"]["code"]) == (401, "expired_api_key")
            assert gate.gateway.memory is not None
            keys = gate.gateway.memory.store.keys
            key, first = await asyncio.to_thread(keys.create, "acme", "by hand")
            _, second = await asyncio.to_thread(keys.rotate, key.id, 3600.0)
            for secret in (first, second):
                assert (await gate.chat("Q", bearer(secret))).status == 200
            _, third = await asyncio.to_thread(keys.rotate, key.id)
            await until(lambda: keys.lookup(first) is None, "the first secret ended")
            statuses = [(await gate.chat("Q", bearer(secret))).status for secret in (first, second, third)]
            assert statuses == [401, 401, 200]
            assert not [asked for asked in behind.asked if second in str(asked.headers)]


async def test_a_token_of_the_admin_api_sends_no_requests_and_reaches_no_upstream(tmp_path: Path) -> None:
    async with upstream() as behind, line(config(behind, tmp_path)) as gate:
        assert gate.gateway.memory is not None
        store = gate.gateway.memory.store
        _, token = await asyncio.to_thread(store.admin_tokens.create, "terraform", "operator")
        for headers in (bearer(token), {"api-key": token}, {"x-api-key": token, **bearer("sk-mine")}):
            assert (await gate.chat("Q", headers)).status == 401
            assert (await gate.post("/files", {"x": 1}, headers)).status == 401
        await asyncio.to_thread(store.keys.create, "acme", "web")
        await until(store.keys.any_configured, "the key known")
        assert (await gate.chat("Q", bearer(token))).status == 401
        assert not behind.asked
