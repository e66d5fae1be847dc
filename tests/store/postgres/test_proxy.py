"""The proxy that tests and benchmarks put before PostgreSQL."""

import time

import psycopg
import pytest

from benchmarks.postgres.proxy import Proxy
from benchmarks.postgres_server import PostgresServer

SHORT_S = 3


def test_adds_a_delay(postgres_server: PostgresServer) -> None:
    with (
        Proxy(postgres_server.port, delay_s=0.02) as proxy,
        psycopg.connect(postgres_server.url(port=proxy.port)) as client,
    ):
        started_s = time.monotonic()
        client.execute("SELECT 1")
        assert time.monotonic() - started_s >= 0.04


def test_cuts_and_refuses(postgres_server: PostgresServer) -> None:
    with Proxy(postgres_server.port) as proxy:
        url = postgres_server.url(port=proxy.port)
        client = psycopg.connect(url)
        proxy.refuse()
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url, connect_timeout=SHORT_S)
        proxy.refuse(refusing=False)
        psycopg.connect(url, connect_timeout=SHORT_S).close()
        assert proxy.cuts == 1


@pytest.mark.parametrize("deliver", [False, True])
def test_cuts_where_something_is_said(postgres_server: PostgresServer, deliver: bool) -> None:
    with Proxy(postgres_server.port) as proxy:
        client = psycopg.connect(postgres_server.url(port=proxy.port), autocommit=True)
        with psycopg.connect(postgres_server.url(), autocommit=True) as other:
            other.execute("DROP TABLE IF EXISTS said; CREATE TABLE said (it TEXT)")
            proxy.cut_at(b"this", deliver=deliver)
            client.execute("INSERT INTO said VALUES ('that')")
            with pytest.raises(psycopg.OperationalError):
                client.execute("INSERT INTO said VALUES ('this')")
            assert proxy.cuts == 1
            there = [it for (it,) in other.execute("SELECT it FROM said ORDER BY it").fetchall()]
            assert there == (["that", "this"] if deliver else ["that"])
            other.execute("DROP TABLE said")


def test_stands_still(postgres_server: PostgresServer) -> None:
    with Proxy(postgres_server.port) as proxy:
        url = postgres_server.url(port=proxy.port)
        proxy.freeze()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url, connect_timeout=2)
        proxy.freeze(frozen=False)
        psycopg.connect(url, connect_timeout=SHORT_S).close()
