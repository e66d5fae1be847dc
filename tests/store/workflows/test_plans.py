"""However many runs are kept, no operation on them reads them all: every statement goes by an index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from store import Store
from store.sqlite import database
from store.workflows.assets import NewText
from store.workflows.records import Claim, NewVariable, Resolution
from tests.admin.runs_kept import failed, going_on, map_reduce

UNBOUNDED = re.compile(
    r"^SCAN (?!json_each|.*USING (?:COVERING )?INDEX)"
    r"(?:workflow_\w+|variables|variable_\w+|collection\w*|[rsvthpq])\b"
)
"""A scan by an index is an order, and ends with its LIMIT."""
NOT_EXPLAINED = re.compile(r"^(?:BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|PRAGMA|--)", re.IGNORECASE)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement from now on, of readers and of the writer."""
    statements: list[str] = []
    opening, connecting = database._open_to_read, sqlite3.connect

    def reader(path: Path) -> sqlite3.Connection:
        connection = opening(path)
        connection.set_trace_callback(statements.append)
        return connection

    def writer(*arguments: object, **options: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connecting(*arguments, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(database, "_open_to_read", reader)
    monkeypatch.setattr(database.sqlite3, "connect", writer)
    return statements


def test_every_statement_goes_by_an_index(tmp_path: Path, said: list[str]) -> None:
    store = Store.open(tmp_path)
    said.clear()
    runs, assets, tenant = store.runs, store.runs.assets, "t1"
    texts = [NewText("text", b"\0" * 8)]
    map_reduce(store, "run_1", 1000.0)
    failed(store, "run_2", 1001.0)
    going_on(store, "run_3", 1002.0)
    variable = NewVariable("var_x", "x", "papers", value="text")
    operations: list[Callable[[], object]] = [
        lambda: runs.put(tenant, variable, now_s=1003.0, keep_s=9, contributor="k/u").result(30),
        lambda: runs.append("w1", "run_3-1", 0, "text").result(30),
        lambda: runs.text(tenant, "run_3-1", 2),
        lambda: runs.note_get(tenant, "run_3-2", "ttft", stream=True).result(30),
        lambda: runs.renew(Claim("w1", 60.0)).result(30),
        lambda: runs.claim(Claim("w2", 60.0)).result(30),
        lambda: runs.request_cancel(tenant, "run_3").result(30),
        lambda: runs.variables(tenant, ["run_1-text", "var_x"], now_s=1003.0),
        lambda: runs.named(tenant, "papers", ["text", "x"], now_s=1003.0),
        lambda: runs.news("w1", ["run_3"]),
        lambda: runs.run("run_1", tenant),
        lambda: runs.runs(limit=2),
        lambda: runs.runs(tenant=tenant, before=(1002.0, "run_3")),
        lambda: runs.runs(app="papers"),
        lambda: runs.runs(states=["failed"]),
        lambda: runs.counts(since_s=1000.0),
        lambda: runs.use(tenant),
        lambda: runs.runs(workflow="doc-qa"),
        lambda: runs.sharers(["b1", "b2"]),
        lambda: runs.undecided(),
        lambda: runs.resolve(tenant, "run_3", "s0", Resolution("skip")).result(30),
        lambda: assets.put_workflow(tenant, "qa", "v1", b"{}", now_s=1006.0).result(30),
        lambda: assets.workflow(tenant, "qa"),
        lambda: assets.workflow(tenant, "qa", "v1"),
        lambda: assets.workflows(tenant),
        lambda: assets.add_texts(tenant, "c", texts, identity="e", now_s=1006.0, contributor="k/u").result(
            30
        ),
        lambda: assets.place(tenant, "c"),
        lambda: assets.texts(tenant, "c", 1),
        lambda: assets.remove_workflow(tenant, "qa").result(30),
        lambda: assets.remove_collection(tenant, "gone").result(30),
        lambda: runs.forget_run(tenant, "run_2").result(30),
        lambda: runs.expire(9000.0).result(30),
        lambda: runs.trim(9000.0).result(30),
        lambda: runs.forget_contributor(tenant, "k/u").result(30),
        lambda: runs.forget_app(tenant, "papers").result(30),
        lambda: runs.forget_tenant(tenant).result(30),
    ]
    for operation in operations:
        operation()
    assert store.drain(30)
    statements = {one for one in said if not NOT_EXPLAINED.match(one.strip())}
    store.close()
    connection = sqlite3.connect(tmp_path / "understudy.db")
    connection.create_function("now_s", 0, lambda: 0.0)
    found = {
        f"{row[3]}: {statement[:300]}"
        for statement in statements
        if re.search(r"\b(?:workflow|variable|collection)", statement)
        for row in connection.execute("EXPLAIN QUERY PLAN " + statement).fetchall()
        if UNBOUNDED.match(row[3])
    }
    connection.close()
    assert len(statements) > 40, "both kinds of connections must have been listened to"
    assert not found, "\n".join(sorted(found))
