"""Connection strings: TLS off this machine, and a password that nobody is told."""

from __future__ import annotations

import logging
import shutil
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import structlog

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

from benchmarks.postgres.tls_proxy import Certificate, certificate, tls_proxy
from benchmarks.postgres_server import PostgresServer
from store import Store
from store.errors import BadAddress, StoreError
from store.postgres.address import checked, described
from store.postgres.connecting import Pool, connect

CANARY = "correct-horse-battery"
AWAY = "postgresql://me:secret@db.example:5432/understudy"

HERE = [
    "postgresql://me:secret@127.0.0.1:5432/x",
    "postgresql://me:secret@[::1]:5432/x",
    "postgresql://me:secret@localhost/x?sslmode=disable",
    "postgresql:///x?host=/run/postgresql",
    "host=127.0.0.1,localhost dbname=x",
    "host=db.example hostaddr=127.0.0.1 dbname=x",
    f"{AWAY}?sslmode=verify-full",
    "postgresql:///x",
]
REFUSED = [
    AWAY,
    f"{AWAY}?sslmode=require",
    f"{AWAY}?sslmode=verify-ca",
    f"{AWAY}?unverified=yes",
    f"{AWAY}?sslmode=prefer&unverified=yes",
    f"{AWAY}?sslmode=require&unverified=no",
    "postgresql://me:secret@127.0.0.1,db.example/x",
    "postgresql://me:secret@localhost/x?hostaddr=192.0.2.1",
    "postgresql://me:secret@10.0.0.7/x",
    "postgresql://me:secret@localhost.example/x",
    "service=production",
]
UNREADABLE = [
    f"postgresql://me:{CANARY}%zz@db.example/x",
    f"postgresql://me:{CANARY}@db exa/x",
    f"{CANARY}",
    f"password={CANARY} host",
    f"postgresql://me:{CANARY}@db.example/x?nonsense={CANARY}",
    f"postgresql://me:{CANARY}\0@127.0.0.1/x",
    f"postgresql://me:{CANARY}/more@db.example/x",
    f"postgresql://me:12/{CANARY}@db.example",
    f"postgresql://me:12?{CANARY}@db.example/x",
    f"postgresql://me:pass@{CANARY}@db.example/x",
    f"postgresql://127.0.0.1:{CANARY}/x",
]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGSSLMODE", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("url", HERE)
def test_on_this_machine_or_verified_any_will_do(url: str) -> None:
    assert checked(url) == url


@pytest.mark.parametrize("mode", ["require", "verify-ca", "disable"])
def test_an_operator_may_say_that_a_server_need_not_prove_who_it_is(mode: str) -> None:
    for query in (f"sslmode={mode}&unverified=yes", f"unverified=yes&sslmode={mode}"):
        assert checked(f"{AWAY}?{query}") == f"{AWAY}?sslmode={mode}"
        assert described(f"{AWAY}?{query}") == "db.example/understudy"
    assert checked("postgresql://127.0.0.1/x?unverified=yes") == "postgresql://127.0.0.1/x"


@pytest.mark.parametrize("url", REFUSED)
def test_off_this_machine_a_server_must_prove_who_it_is(url: str) -> None:
    with pytest.raises(BadAddress) as refused:
        checked(url)
    assert "secret" not in str(refused.value)
    told = str(refused.value)
    assert "sslmode=verify-full" in told or "service" in told or "cannot be read" in told


def test_the_environment_counts_as_libpq_counts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "db.example")
    with pytest.raises(BadAddress, match=r"db\.example"):
        checked("postgresql:///x")
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    checked("postgresql:///x")


@pytest.mark.parametrize("url", UNREADABLE)
def test_what_cannot_be_read_is_not_quoted(url: str) -> None:
    with pytest.raises(BadAddress) as refused:
        checked(url)
    assert CANARY not in "".join(traceback.format_exception(refused.value))


def test_a_name_for_people_is_host_and_database() -> None:
    assert described(AWAY) == "db.example/understudy"
    assert described("postgresql://me:secret@/x?host=/run/postgresql") == "/run/postgresql/x"


# ---- with a server, and TLS in front of it


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    return certificate(tmp_path_factory.mktemp("tls"), "db.example")


@pytest.fixture
def over_tls(postgres_server: PostgresServer, shown: Certificate) -> Iterator[str]:
    with tls_proxy(postgres_server.port, shown) as port:
        url = postgres_server.url(port=port).replace("127.0.0.1", "db.example")
        yield f"{url}?hostaddr=127.0.0.1&sslmode=verify-full"


def ssl_in_use(url: str) -> bool:
    with connect(url, statement_timeout_ms=0) as connection:
        return connection.pgconn.ssl_in_use


def test_a_server_that_proves_its_name_is_talked_to_over_tls(over_tls: str, shown: Certificate) -> None:
    assert ssl_in_use(f"{over_tls}&sslrootcert={shown.file}")


def test_a_server_that_need_not_is_talked_to_over_tls_by_writer_and_pool(over_tls: str) -> None:
    unverified = over_tls.replace("sslmode=verify-full", "sslmode=require&unverified=yes")
    assert ssl_in_use(unverified)
    pool = Pool(unverified, connections=1, statement_timeout_ms=60_000)
    try:
        assert pool.execute("SELECT 1").fetchone()[0] == 1
    finally:
        pool.close()


def test_a_server_that_does_not_is_left_before_the_password_is_sent(
    over_tls: str, shown: Certificate, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """A stranger's certificate, another name, and no TLS at all."""
    import psycopg

    stranger = certificate(tmp_path, "db.example")
    wrong_name = over_tls.replace("db.example", "other.example")
    with tls_proxy(postgres_server.port, None) as port:
        plain = postgres_server.url(port=port) + f"?sslmode=verify-full&sslrootcert={shown.file}"
        urls = {
            f"{over_tls}&sslrootcert={stranger.file}": "certificate verify failed",
            f"{wrong_name}&sslrootcert={shown.file}": "does not match host name",
            plain: "does not support SSL",
        }
        for url, why in urls.items():
            with pytest.raises(psycopg.OperationalError, match=why) as failed:
                connect(url, statement_timeout_ms=0)
            assert postgres_server.password not in str(failed.value)


# ---- the password


def bad_urls(server: PostgresServer) -> dict[str, str]:
    good = server.url()
    return {
        "wrong password": good.replace(server.password, CANARY),
        "nobody listens": f"postgresql://understudy:{CANARY}@127.0.0.1:1/x?connect_timeout=1",
        "no such database": server.url("nowhere").replace(server.password, CANARY),
        "TLS where there is none": good.replace(server.password, CANARY) + "?sslmode=require",
        "no such file": good.replace(server.password, CANARY)
        + "?sslmode=verify-full&sslrootcert=/nowhere.pem",
        "off this machine": f"postgresql://understudy:{CANARY}@db.example/x",
        "unreadable": f"postgresql://understudy:{CANARY}%zz@db.example/x",
        "no number": f"postgresql://understudy:{CANARY}@127.0.0.1:{CANARY}/x",
    }


def test_no_error_and_no_line_of_the_log_tells_the_password(
    postgres_server: PostgresServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    for name, url in bad_urls(postgres_server).items():
        for folder in ("database_url", "listen_url"):
            good = postgres_server.url()
            urls = (
                {"database_url": url}
                if folder == "database_url"
                else {"database_url": good, "listen_url": url}
            )
            with structlog.testing.capture_logs() as lines, pytest.raises(StoreError) as refused:
                Store.open(tmp_path, **urls)
            told = "".join(traceback.format_exception(refused.value))
            assert CANARY not in told + repr(lines), f"{name} as {folder}: {told}"
            assert postgres_server.password not in told
    captured = capfd.readouterr()
    assert CANARY not in caplog.text + captured.out + captured.err


def test_a_password_that_stops_being_right_while_serving_is_told_nowhere(
    postgres_url: str, postgres_server: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Connections are lost, and none can be opened again."""
    caplog.set_level(logging.DEBUG)
    with connect(postgres_server.url(), statement_timeout_ms=0) as owner, ExitStack() as after:
        owner.execute(f"CREATE ROLE canary SUPERUSER LOGIN PASSWORD '{CANARY}'")
        after.callback(owner.execute, "DROP ROLE canary")
        url = postgres_url.replace(f"understudy:{postgres_server.password}", f"canary:{CANARY}")
        with structlog.testing.capture_logs() as lines:
            store = Store.open(tmp_path, database_url=url)
            try:
                owner.execute("ALTER ROLE canary NOLOGIN")
                owner.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'canary'"
                )
                with pytest.raises(StoreError) as failed:
                    store.jobs.engine_states.drain("a", "me", "tried").result(60)
                problem = store.problem()
            finally:
                store.close()
    told = "".join(traceback.format_exception(failed.value))
    assert CANARY not in told + repr(lines) + caplog.text + str(problem)
