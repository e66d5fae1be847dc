"""`understudy engines`: the state workers tell, draining that outlasts everybody, and one question to an engine."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from store import Store
from store.jobs.engine_states import EngineStateRow
from tests.engines.asking import closed_port
from tests.flow.line import completion
from tests.flow.upstream import Upstream
from understudy.commands.engines import engines

ANSWER = json.dumps(completion("OK.")).encode()
JSON = [("Content-Type", "application/json")]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.forget()
    made.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(engines, arguments)


def told(data: Path, *rows: tuple[str, str, str, str]) -> None:
    """A worker tells of (engine, replica, state, error)."""
    store, now_s = Store.open(data), time.time()
    store.jobs.engine_states.say(
        [
            EngineStateRow(
                *("w", engine, now_s, 0, 0, 8, 0.0, "closed", False, 1, 0, None, None, None, None),
                *(replica, state, now_s - 30, error, now_s if error else None),
            )
            for engine, replica, state, error in rows
        ]
    ).result(30)
    store.close()


def config(folder: Path, port: int) -> str:
    path = folder / "understudy.yaml"
    engine = {"base_url": f"http://127.0.0.1:{port}/v1", "model": "m", "api_key": "house-key-1"}
    path.write_text(json.dumps({"engines": {"large": engine}, "models": {"gpt-4o": {"engines": ["large"]}}}))
    return str(path)


def test_it_lists_drains_and_resumes_and_every_change_is_audited(tmp_path: Path) -> None:
    told(
        tmp_path,
        ("large", "a:1", "up", ""),
        ("large", "b:1", "down", "connect: refused"),
        ("small", "", "up", ""),
    )
    data = ("--data", str(tmp_path))
    rows = [line.split() for line in run("list", *data).stdout.splitlines()]
    assert rows[2][:3] == ["large", "b:1", "down"] and rows[2][-2:] == ["connect:", "refused"]
    assert run("drain", *data, "large@a:1", "--reason", "new driver").exit_code == 0
    assert run("drain", *data, "large@a:1").exit_code == 1
    assert run("drain", *data, "small").exit_code == 0
    listed = json.loads(run("list", *data, "--json").stdout)
    states = {(one["engine"], one["replica"]): one["state"] for one in listed}
    assert states == {("large", "a:1"): "drained", ("large", "b:1"): "down", ("small", ""): "drained"}
    assert "large is resumed" in json.loads(run("resume", *data, "large", "--json").stdout)["said"]
    store = Store.open(tmp_path)
    assert [(one.engine, one.replica) for one in store.jobs.engine_states.drained()] == [("small", "")]
    noted = [(row.action, row.target, row.outcome) for row in reversed(store.audit.page())]
    assert noted == [
        ("engines/drain", "large@a:1", "done"),
        ("engines/drain", "large@a:1", "failed"),
        ("engines/drain", "small", "done"),
        ("engines/resume", "large", "done"),
    ]
    store.close()


@pytest.mark.parametrize("name", ["larg", "large@c:1"])
def test_nobody_is_drained_by_a_slip_of_the_pen(tmp_path: Path, name: str) -> None:
    told(tmp_path, ("large", "a:1", "up", ""))
    refused = run("drain", "--data", str(tmp_path), name)
    assert refused.exit_code == 1 and "large@a:1" in refused.stderr


def test_what_is_drained_is_listed_while_no_worker_runs(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    assert run("drain", "--data", str(tmp_path), "large").exit_code == 0
    assert run("list", "--data", str(tmp_path)).stdout.splitlines()[1].split()[2] == "drained"


def test_an_engine_is_asked_one_small_question(tmp_path: Path, upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(ANSWER, 200, JSON))
    good = run("test", "--config", config(tmp_path, upstream.port), "large")
    assert good.exit_code == 0 and good.stdout.startswith("large  answered in ")
    assert [call.line.split()[1] for call in upstream.calls] == [b"/v1/models", b"/v1/chat/completions"]
    assert upstream.calls[1].header("authorization") == "Bearer house-key-1"


def test_an_engine_that_does_not_answer_is_told_with_its_reason_and_without_its_key(
    tmp_path: Path, upstream: Upstream
) -> None:
    said = b'{"error": {"message": "house-key-1 is revoked"}}'
    upstream.plays(lambda call: call.answer(said, 401, JSON))
    bad = run("test", "--config", config(tmp_path, upstream.port), "large", "--json")
    (one,) = json.loads(bad.stdout)
    assert bad.exit_code == 1 and not one["good"] and "refused 401: [key] is revoked" in one["said"]
    gone = run("test", "--config", config(tmp_path, closed_port()), "large")
    assert gone.exit_code == 1 and "Connection refused" in gone.stdout


def test_every_replica_is_asked_or_the_one_that_is_named(tmp_path: Path, upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(ANSWER, headers=JSON))
    path, closed = tmp_path / "understudy.yaml", closed_port()
    urls = [f"http://127.0.0.1:{port}/v1" for port in (upstream.port, closed)]
    engine = {"base_urls": urls, "model": "m", "api_key": "house-key-1"}
    path.write_text(json.dumps({"engines": {"pool": engine}, "models": {"gpt-4o": {"engines": ["pool"]}}}))
    both = run("test", "--config", str(path), "pool")
    assert both.exit_code == 1
    assert f"pool@127.0.0.1:{upstream.port}  answered in" in both.output
    assert f"pool@127.0.0.1:{closed}  health check failed: No connection" in both.output
    assert run("test", "--config", str(path), f"pool@127.0.0.1:{upstream.port}").exit_code == 0
    assert run("test", "--config", str(path), "pool@127.0.0.1:1").exit_code != 0


def test_an_engine_that_is_not_configured_cannot_be_tested(tmp_path: Path) -> None:
    unknown = run("test", "--config", config(tmp_path, 1), "small")
    assert unknown.exit_code == 2 and "large" in unknown.stderr
