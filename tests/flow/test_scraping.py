"""Prometheus' view of who asked for what: everybody reads figures by model, engine and API; by tenant and key only with an
admin token."""

from __future__ import annotations

import asyncio
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.flow.line import Line, line, upstream
from tests.patience import until

Series = dict[tuple[tuple[str, str], ...], float]


async def scraped(run: Line, name: str, token: str = "") -> Series:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with run.session.get(run.url.removesuffix("/v1") + "/metrics", headers=headers) as answer:
        families = text_string_to_metric_families((await answer.read()).decode())
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
        if sample.name == name
    }


async def test_tenants_and_keys_are_labels_for_those_who_may_read_them(tmp_path: Path) -> None:
    async with upstream() as behind:
        price = {"input_usd_per_mtok": 1000, "output_usd_per_mtok": 0}
        config = {
            "engines": {"large": {"base_url": behind.url, "api_key": "none", "price": price}},
            "models": {"gpt-4o": {"engines": ["large"], "policy": "fixed"}},
            "upstream": {"base_url": behind.url},
            "memory": {"data_dir": str(tmp_path), "examples": {"enabled": False}},
        }
        async with line(config) as run:
            memory = run.gateway.memory
            assert memory is not None
            store = memory.store
            secrets = {}
            for tenant, key in (("acme", "web"), ("beta", "unnamed")):
                made, secrets[tenant] = await asyncio.to_thread(store.keys.create, tenant, key)
            await until(lambda: all(store.keys.lookup(each) for each in secrets.values()), "keys are known")
            _, token = await asyncio.to_thread(store.admin_tokens.create, "prometheus", "viewer")
            for tenant, secret in secrets.items():
                answer = await run.chat(f"What does {tenant} ask?", {"Authorization": f"Bearer {secret}"})
                assert answer.status == 200
            refused = await run.chat("Guess?", {"Authorization": "Bearer us-wrong"}, model="invented")
            assert refused.status == 401
            cost, tokens = "understudy_cost_usd_total", "understudy_tokens_total"
            (open_cost,) = (await scraped(run, cost)).items()
            by_people = await scraped(run, cost, token)
            assert await scraped(run, cost, secrets["acme"]) == dict([open_cost]), "no traffic key opens it"
            assert await scraped(run, cost, token + "x") == dict([open_cost])
            all_tokens = await scraped(run, tokens, token)
            requests = await scraped(run, "understudy_requests_total", token)
            latency = await scraped(run, "understudy_request_seconds_count")
    assert open_cost == ((("api", "chat"), ("engine", "large"), ("model", "gpt-4o")), 0.014)
    assert {(dict(labels)["tenant"], dict(labels)["key"]): cost for labels, cost in by_people.items()} == {
        ("acme", "web"): 0.007,
        ("beta", made.id): 0.007,
    }
    assert {dict(labels)["kind"] for labels in all_tokens} == {"prompt", "completion"}
    models = {dict(labels)["model"] for labels in requests}
    assert "invented" not in models and "gpt-4o" in models
    assert {dict(labels)["api"] for labels in latency} == {"", "chat"}, "our own pages have none"
