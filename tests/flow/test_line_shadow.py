"""Shadow over real sockets, with nothing configured but two engines: what is asked in the background, and what it costs.

What is wished to be compared is given here; how it follows from what is proven has tests of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from learning.outcomes import account, judging_sample
from learning.outcomes.judging import Judging
from router.plan import Action, Ask, Attempt, Plan
from router.policies.few_shot import FewShot
from router.prompt import with_examples
from router.proving.standing import Proof, Standing
from store.records import OutcomeRecord
from tests.flow.line import Asked, Line, completion, line, upstream
from tests.flow.test_line_judging import metrics_of, store_of
from tests.patience import PATIENCE_S

LABEL = "card_arrival"
STANDINGS = tuple(Standing(Action("small", shown), False, 0.5, 1.0, 0, 10) for shown in (False, True))


@pytest.fixture(autouse=True)
def all_is_wished(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every request is to be compared, by the small engine without and with the nearest examples; no second answer is."""
    monkeypatch.setattr(judging_sample, "AGAIN_SHARE", 0.0)
    decide = FewShot.decide

    async def wished(self: FewShot, ask: Ask) -> Plan:
        plan = await decide(self, ask)
        found = plan.neighbours[:2]
        shown = (Attempt("small", with_examples(ask.chat.messages, found), found),) if found else ()
        return replace(
            plan,
            attempts=(Attempt("large"), Attempt("small")),
            proof=Proof("all", STANDINGS, 1.0),
            shadow=(Attempt("small"), *shown),
        )

    monkeypatch.setattr(FewShot, "decide", wished)
    yield


def two(data: Path, small: str, large: str, price: bool = True, **more: Any) -> dict[str, Any]:
    """What `serve --small --large` makes of its options, but for the prices."""
    prices = (
        (
            {"input_usd_per_mtok": 0, "output_usd_per_mtok": 5},
            {"input_usd_per_mtok": 0, "output_usd_per_mtok": 10},
        )
        if price
        else ({}, {})
    )
    engines = {
        name: {"base_url": url, "price": each, "api_key": "none"}
        for name, url, each in zip(("small", "large"), (small, large), prices, strict=True)
    }
    models = {"gpt-4o": {"engines": ["small", "large"], "policy": "few_shot"}}
    memory = {"data_dir": str(data), "exact": {"enabled": False}}
    return {"engines": engines, "models": models, "memory": memory, **more}


async def compared(gate: Line) -> list[OutcomeRecord]:
    """What was found of everything answered so far."""
    (judging,) = gate.gateway.parts.owned(Judging)
    async with asyncio.timeout(PATIENCE_S):
        await judging.join()
    await gate.settled()
    return store_of(gate).outcomes.after(0)


async def test_the_small_engine_is_asked_in_the_background_without_and_with_examples(tmp_path: Path) -> None:
    async with upstream() as small, upstream() as large:
        small.says, large.says = f"Label: {LABEL.upper()}.", LABEL
        async with line(two(tmp_path, small.url, large.url)) as gate:
            for number in range(3):
                got = await gate.chat(f"My card no. {number} has not arrived yet, where is it?")
                assert got.text == LABEL and got.headers["x-understudy-engine"] == "large"
                assert "authorization" not in {name.lower() for name in got.headers}
                await compared(gate)
            found = await compared(gate)
        assert len(large.asked) == 3, "a label needs no judge, and nothing but clients asked the large engine"
    by_small = [o for o in found if o.engine == "small"]
    assert {o.source for o in found} == {"judge"} and {o.quality for o in found} == {1.0}
    assert {o.probability for o in found} == {1.0}
    assert {bool(o.example_ids) for o in by_small} == {True, False} and not any(o.served for o in by_small)
    assert len(small.asked) == len(by_small)
    assert any(LABEL in str(asked.json["messages"]) for asked in small.asked), (
        "the answer before, as an example"
    )
    assert all(asked.headers.get("Authorization") is None for asked in small.asked)


@pytest.mark.parametrize("trouble", ["hangs", "refuses"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_small_engine_in_trouble_delays_and_changes_nothing(
    tmp_path: Path, trouble: str, stream: bool
) -> None:
    over = asyncio.Event()

    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        if trouble == "hangs":
            await over.wait()
        return web.json_response({"error": {"message": "no", "type": "x", "code": None}}, status=500)

    async with upstream() as small, upstream() as large:
        large.says, small.script = LABEL, script
        async with line(two(tmp_path, small.url, large.url)) as gate:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    for number in range(8):
                        got = await gate.chat(f"Where is card no. {number}?", stream=stream)
                        assert got.status == 200 and got.text == LABEL
                    while not small.asked:
                        await asyncio.sleep(0.01)
                assert not store_of(gate).outcomes.after(0)
            finally:
                over.set()


@pytest.mark.slow
@pytest.mark.parametrize("priced", [True, False])
async def test_junk_spends_the_starting_allowance_and_nothing_beyond(
    tmp_path: Path, priced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account, "_READ_EVERY_S", -1.0)
    # An answer has three tokens, and a request ten with them.
    requests = 100 if priced else 8
    unit, most = ("usd", requests * 3 * 10 / 1e6) if priced else ("tokens", requests * 10.0)
    async with upstream() as small, upstream() as large:
        small.says, large.says = "As an AI I cannot.", LABEL
        allowed = {"advanced": {"starting_requests": requests}}
        config = two(tmp_path, small.url, large.url, priced, learning=allowed)
        held_back = 0.0
        for _ in range(2):
            async with line(config) as gate:
                for batch in range(10):
                    chats = (gate.chat(f"Where is card no. {batch}{n}?") for n in range(8))
                    await asyncio.gather(*chats)
                    await compared(gate)
                found = await compared(gate)
                series = await metrics_of(gate)
                held_back += series.get('understudy_judging_held_back_total{reason="over_budget"}', 0)
                spent = store_of(gate).decisions.spending.spent(unit, 0.0, time.time())
            assert {o.quality for o in found if o.engine == "small"} == {0.0}
            assert 0.4 * most < spent <= most, "nor after a restart"
        assert held_back > 20


async def test_an_engine_that_wants_the_clients_key_is_not_asked_again_and_again_without_one(
    tmp_path: Path,
) -> None:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        if "Authorization" not in asked.headers:
            return web.json_response({"error": {"message": "no key", "type": "x", "code": None}}, status=401)
        return web.json_response(completion("Your card is on its way, and will be there within a few days."))

    async with upstream() as small, upstream() as large:
        large.script, small.says = script, "It should be with you soon. Do you need it earlier than that?"
        config = two(tmp_path, small.url, large.url)
        del config["engines"]["large"]["api_key"]
        config["upstream"] = {"base_url": large.url}
        config["engines"]["large"]["advanced"] = {"forwards_client_key": True}
        config["learning"] = {"advanced": {"starting_requests": 10**6}}
        async with line(config) as gate:
            for number in range(10):
                headers = {"Authorization": "Bearer sk-client"}
                got = await gate.chat(f"Where is card no. {number}?", headers=headers)
                assert got.status == 200
                found = await compared(gate)
            series = await metrics_of(gate)
        without_key = [asked for asked in large.asked if "Authorization" not in asked.headers]
    assert not found and series['understudy_judging_samples_total{result="unanswered"}'] >= 9
    assert len(without_key) == 1 and len(small.asked) <= 2
