"""The large one of three engines is down: the next smaller one stands in, under every rule of proof, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.flow.line import Asked, line, upstream

NAMES = ("small", "backup", "large")


async def fails(request: web.Request, asked: Asked) -> web.StreamResponse:
    return web.json_response({"error": {"message": "out of order", "type": "server_error"}}, status=503)


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("in_context", {"proof": "floor", "max_loss": 0.05}),
        ("in_context", {"proof": "on"}),
        ("in_context", {"proof": "off"}),
        ("few_shot", {"proof": "on"}),
        ("few_shot", {"proof": "off"}),
    ],
)
@pytest.mark.parametrize("preference", [0.0, 1.0])
async def test_the_largest_that_works_stands_in_for_the_reference_before_and_after_its_breaker_opens(
    tmp_path: Path, policy: str, served: dict[str, Any], preference: float
) -> None:
    async with upstream() as small, upstream() as backup, upstream() as large:
        servers = dict(zip(NAMES, (small, backup, large), strict=True))
        for name, one in servers.items():
            one.says = f"From {name}."
        price = {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}
        shared = {"api_key": "none", "price": price, "advanced": {"attempts": 1}}
        # With `on` an unproven engine stands in only where it is listed.
        listed: dict[str, Any] = {"stand_ins": ["backup", "small"]} if served["proof"] == "on" else {}
        if policy == "in_context":
            # Nothing is explored: who is drawn at random stands in for nobody.
            listed |= {"in_context": {"preference": preference}, "advanced": {"epsilon": 0}}
        config = {
            "engines": {name: {"base_url": one.url} | shared for name, one in servers.items()},
            # The floor needs somebody who compares; nobody does here.
            "judging": {"engine": "large", "share_offloaded": 0.1},
            "models": {"gpt-4o": {"engines": list(NAMES), "policy": policy} | listed | served},
            "memory": {"data_dir": str(tmp_path), "exact": {"enabled": False}},
        }
        async with line(config) as gate:
            large.script = fails
            kinds = set()
            for number in range(12):
                got = await gate.chat(f"What is the meaning of error {number} of the coffee machine?")
                assert (got.text, got.headers["x-understudy-engine"]) == ("From backup.", "backup")
                engine, _, kind = got.headers["x-understudy-failed-over"].partition("; ")
                assert engine == "large"
                kinds.add(kind)
            assert {"server", "open"} <= kinds
            memory = gate.gateway.memory
            assert memory is not None
            for row in memory.store.decisions.requests.recent(12):
                assert row.engine == "backup" and row.failed_over.startswith("large; ")
                assert row.reason.endswith("+failover")
