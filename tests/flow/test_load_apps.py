"""`understudy load apps` against a whole gateway: both ways give the same results, one with one request each."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from loadtest.applications.playing import Player, play_all
from loadtest.applications.shapes import Application, chain, map_reduce, roles
from loadtest.plan import Target
from tests.flow.line import line, upstream
from tests.flow.test_line_runs import config, echo


@pytest.mark.parametrize(
    "application", [chain("k", 5), map_reduce("k", 5), roles("k", 2, rounds=1)], ids=lambda one: one.kind
)
async def test_the_gateway_carries_an_application_out_as_its_client_would(
    application: Application, tmp_path: Path
) -> None:
    async with upstream() as behind:
        behind.script = echo
        async with line(config(behind, tmp_path)) as gate, aiohttp.ClientSession() as session:
            target = Target(gate.url, headers=())
            session.headers["Authorization"] = "Bearer sk-ann"
            player = Player(session, target, "m", rtt_s=0.0)
            (by_client,) = await play_all(player, [application], by_server=False, at_once=1)
            asked = len(behind.asked)
            (by_server,) = await play_all(player, [application], by_server=True, at_once=1)
    assert not by_client.error and not by_server.error
    assert by_client.result == by_server.result
    assert asked == by_client.requests == len(application.calls) and by_server.requests == 1
    assert len(behind.asked) == 2 * asked
    assert by_server.completion_tokens == by_client.completion_tokens > 0
