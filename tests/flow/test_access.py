"""Who may reach what: models, regions, prices, end users and tenants' own upstream keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from store.people.limits import Limits
from store.records import Key, Terms
from tests.flow.line import Got, Line, Upstream, line, upstream
from tests.patience import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPERATOR = "sk-operator-0123456789"
OWN = "sk-own-of-umbrella-0123456789"


@dataclass
class House:
    """A gateway with keys, and all of its upstreams."""

    gate: Line
    operator: Upstream
    eu: Upstream
    us: Upstream
    keys: dict[str, str] = field(default_factory=dict)

    async def key(self, name: str, tenant: str = "acme", **terms: Any) -> dict[str, str]:
        """Headers of a new key."""
        memory = self.gate.gateway.memory
        assert memory is not None
        store = memory.store.keys
        made: tuple[Key, str] = await asyncio.to_thread(store.create, tenant, name, terms=Terms(**terms))
        await until(lambda: store.lookup(made[1]) is not None, "the key known")
        return {"Authorization": f"Bearer {made[1]}"}

    async def get(self, path: str, headers: dict[str, str]) -> Got:
        async with self.gate.session.get(self.gate.url + path, headers=headers) as response:
            return Got(response.status, response.headers.copy(), await response.read())

    @property
    def asked(self) -> int:
        return len(self.operator.asked) + len(self.eu.asked) + len(self.us.asked)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder: Path = tmp_path_factory.mktemp("access")
    async with upstream() as operator, upstream() as eu, upstream() as us:
        eu.says, us.says = "From Europe.", "From America."
        engines = {
            "eu": {
                "base_url": eu.url,
                "region": "eu",
                "price": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1},
            },
            "us": {"base_url": us.url, "region": "us", "api_key": "sk-us"},
            "beside": {"base_url": operator.url, "api_key": OPERATOR},
        }
        config = {
            "upstream": {"base_url": operator.url, "api_key": OPERATOR, "region": "us"},
            "engines": engines,
            "models": {
                "both": {"engines": ["eu", "us"]},
                "america": {"engines": ["us"]},
                "europe": {"engines": ["eu"]},
                "claude-*": {"engines": ["us"]},
                "beside": {"engines": ["beside"]},
            },
            "tenants": {
                "umbrella": {"upstream_key": OWN},
                "old-world": {"region": "eu"},
                "together": {"partition": "tenant"},
                "named": {"users_required": True},
            },
            "memory": {"data_dir": str(folder), "examples": {"enabled": False}, "exact": {"sampled": True}},
        }
        async with line(config) as gate:
            yield House(gate, operator, eu, us)


def chat(model: str = "m", text: str = "Q", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


async def test_a_key_asks_only_for_the_models_it_lists(house: House) -> None:
    key = await house.key("models", limits=Limits(models=("gpt-4*", "both")))
    assert (await house.gate.post("/chat/completions", chat("gpt-4o", "models 1"), key)).status == 200
    assert (await house.gate.post("/chat/completions", chat("both", "models 2"), key)).status == 200
    before = house.asked
    for path, body in (
        ("/chat/completions", chat("america")),
        ("/embeddings", {"model": "ada", "input": "x"}),
        ("/responses", {"model": "o3", "input": "x"}),
        ("/chat/completions", chat("gpt-5" + "x" * 100_000)),
    ):
        refused = await house.gate.post(path, body, key)
        assert refused.status == 403
        assert refused.json["error"]["code"] == "model_not_allowed"
        assert refused.json["error"]["type"] == "permission_error"
    assert house.asked == before
    listed = (await house.get("/models", key)).json["data"]
    assert {model["id"] for model in listed} == {"both"}
