"""The client process's heart, against a real mock: what is due is sent, whatever the endpoint does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadtest.arrivals import Arrivals
from loadtest.client import LoadClient, due_times, request_head
from loadtest.clock import now
from loadtest.plan import LoadPlan, Target, WorkloadSpec
from loadtest.records import AT, Batch
from loadtest.rows import Rows, rows_of


async def run(plan: LoadPlan, stop_after_s: float = 0.0) -> tuple[Rows, list[str], Batch]:
    """Run one process's share in this process."""
    batches: list[Batch] = []
    asker = LoadClient(plan, 0, batches.append)
    if stop_after_s:
        asyncio.get_running_loop().call_later(stop_after_s, asker.stop)
    await asyncio.wait_for(asker.run((plan.target.host, plan.target.port), now() + 0.01), 30)
    rows = np.vstack([rows_of(batch.rows) for batch in batches])
    names = batches[-1].names
    return rows, [names[int(n)] for n in rows[:, AT["outcome"]]], batches[-1]


def plan(url: str, **more: Any) -> LoadPlan:
    spec = {"model": "m", "prompt": "hello", "stream": False, **more.pop("spec", {})}
    headers = tuple(more.pop("headers", ()))
    return LoadPlan(
        Target(url, headers=headers), WorkloadSpec(**spec), timeout_s=more.pop("timeout_s", 60.0), **more
    )


async def test_every_due_request_is_sent_and_answered(mock: Any) -> None:
    asked = plan(mock.url, arrivals=Arrivals("constant", 200.0), duration_s=1.0)
    rows, outcomes, last = await run(asked)
    assert sorted(rows[:, AT["due_s"]]) == pytest.approx(list(due_times(asked)), abs=1e-6)
    assert set(outcomes) == {"ok"} and last.final and last.exhausted and last.in_flight == 0


async def test_a_silent_endpoint_does_not_hold_up_the_schedule(mock: Any) -> None:
    asked = plan(
        mock.url,
        arrivals=Arrivals("constant", 100.0),
        duration_s=0.5,
        timeout_s=0.6,
        headers=[("x-mock-fault", "hang")],
    )
    rows, outcomes, last = await run(asked)
    assert last.launched == len(list(due_times(asked))) == len(rows)
    assert set(outcomes) == {"timeout: no answer yet"}
    assert (rows[:, AT["latency_s"]] >= 0.6).all()


async def test_a_cap_on_requests_in_flight_is_told_apart_from_the_endpoints_time(mock: Any) -> None:
    asked = plan(
        mock.url,
        arrivals=Arrivals("constant", 100.0),
        duration_s=0.5,
        max_in_flight=1,
        headers=[("x-mock-ttft-ms", "30")],
    )
    rows, outcomes, _ = await run(asked)
    assert set(outcomes) == {"ok"}
    latest = rows[np.argmax(rows[:, AT["due_s"]])]
    assert latest[AT["held_s"]] > 0.2 and latest[AT["latency_s"]] > latest[AT["held_s"]]


async def test_closed_loop_users_wait_for_their_answers(serve_mock: Callable[..., Any]) -> None:
    server = serve_mock("--ttft-ms", "20")
    rows, _, _ = await run(plan(server.url, closed_users=3, duration_s=0.5))
    seen = server.get("/mock/counters")
    assert seen["in_flight_max"] == 3
    assert 20 < len(rows) <= 3 * 0.5 / 0.020 + 3


async def test_the_number_of_requests_bounds_both_kinds_of_run(mock: Any) -> None:
    for more in ({"closed_users": 4}, {"arrivals": Arrivals("poisson", 300.0)}):
        rows, _, _ = await run(plan(mock.url, max_requests=37, duration_s=5.0, **more))
        assert len(rows) == 37


async def test_a_process_whose_share_of_a_small_number_is_nothing_sends_nothing(mock: Any) -> None:
    plans = plan(mock.url, max_requests=1, closed_users=2, duration_s=0.3, processes=2)
    batches: list[Batch] = []
    await asyncio.wait_for(
        LoadClient(plans, 1, batches.append).run(("127.0.0.1", plans.target.port), now()), 60
    )
    assert batches[-1].final and batches[-1].launched == 0


async def test_stopping_does_not_wait_for_a_connection_that_never_comes() -> None:
    # A listening socket whose backlog is full swallows further attempts to connect.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                waiting = stack.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(("127.0.0.1", port))
            asked = plan(
                f"http://127.0.0.1:{port}",
                arrivals=Arrivals("constant", 20.0),
                timeout_s=60.0,
                duration_s=60.0,
            )
            _, outcomes, _ = await run(asked, stop_after_s=0.2)
    assert outcomes and all(outcome.startswith("stopped: ") for outcome in outcomes)


async def test_a_conversation_goes_on_after_its_answer(mock: Any, tmp_path: Path) -> None:
    path = tmp_path / "talk.jsonl"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": f"turn {k}"} for k in range(3)]}))
    spec = {"messages_file": path, "conversations": True, "think_s": 0.05, "stream": True, "prompt": ""}
    rows, outcomes, _ = await run(
        plan(mock.url, spec=spec, max_requests=4, duration_s=3.0, arrivals=Arrivals("constant", 100.0))
    )
    assert len(rows) == 12 and set(outcomes) == {"ok"}


async def test_stopping_lets_go_of_what_hangs(mock: Any) -> None:
    asked = plan(
        mock.url, arrivals=Arrivals("constant", 50.0), duration_s=20.0, headers=[("x-mock-fault", "hang")]
    )
    _, outcomes, last = await run(asked, stop_after_s=0.2)
    assert set(outcomes) == {"stopped: no answer yet"} and last.final


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("reset", "connection reset"),
        ("cut=2", "cut off: the answer began and did not end"),
        ("error", "stream: error event"),
        ("http=429", "http 429"),
        ("garbage", "not JSON"),
        ("html", "not JSON"),
    ],
)
async def test_each_fault_is_a_class_of_its_own(mock: Any, fault: str, said: str) -> None:
    asked = plan(
        mock.url,
        spec={"stream": True},
        arrivals=Arrivals("constant", 50.0),
        max_requests=5,
        headers=[("x-mock-fault", fault)],
    )
    _, outcomes, _ = await run(asked)
    assert set(outcomes) == {said}


def test_a_header_cannot_break_the_wire() -> None:
    with pytest.raises(ValueError, match="line break"):
        request_head(LoadPlan(Target("http://x", headers=(("a", "b\r\nc: d"),))))
