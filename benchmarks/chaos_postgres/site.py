"""What is tried: three replicas of two workers each, one PostgreSQL server that waits for its disk, a network between."""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chaos.site import ENGINES, Site, configuration
from benchmarks.postgres_server import PostgresServer, server
from benchmarks.processes import free_port, started
from store.postgres.connecting import connect
from store.postgres.schema import migrate

REPLICAS = 3
_DATABASE = "understudy"
_UP_WITHIN_S = 30.0


@dataclass
class Replicas:
    """The processes, by name, and what may be done to them. Engines and ledger are the first replica's."""

    replicas: list[Site]
    database: PostgresServer
    running: ExitStack
    relay_ports: list[int]
    relays: list[subprocess.Popen[bytes]] = field(default_factory=list)
    disk: str = "not filled"

    # ---- as benchmarks.chaos.site.Site

    @property
    def urls(self) -> list[str]:
        return [replica.url for replica in self.replicas]

    @property
    def config(self) -> dict[str, Any]:
        """The first replica's; what it says of keys is the same object in all."""
        return self.replicas[0].config

    @property
    def data(self) -> Path:
        return self.replicas[0].data

    @property
    def ledger(self) -> Path:
        return self.replicas[0].ledger

    @property
    def database_url(self) -> str:
        """Past the network that may be frozen."""
        return self.database.url(_DATABASE)

    def signal_engine(self, name: str, number: int) -> None:
        self.replicas[0].signal_engine(name, number)

    def start_engine(self, name: str) -> None:
        self.replicas[0].start_engine(name)

    def told(self) -> dict[str, int]:
        """How often the replicas logged what needs a look."""
        sums: Counter[str] = Counter()
        for replica in self.replicas:
            sums.update(replica.told())
        return dict(sums)

    def hang_up(self) -> None:
        """Have all of them read their configurations anew. Raises TimeoutError."""
        for replica in self.replicas:
            replica.hang_up()

    def stop(self) -> int:
        """End all of them; the largest exit status."""
        return max(replica.stop() for replica in self.replicas)

    # ---- the network

    def start_relay(self, place: int) -> None:
        """At first, and again on the same port."""
        ports = [str(self.relay_ports[place]), str(self.database.port)]
        command = [sys.executable, "-m", "benchmarks.chaos_postgres.relay", *ports]
        log = self.replicas[place].folder / "relay.log"
        relay = self.running.enter_context(started(command, log))
        self.relays[place : place + 1] = [relay]

    def freeze(self, place: int) -> None:
        """Nothing passes between a replica and the database, and no connection ends."""
        self.relays[place].send_signal(signal.SIGSTOP)

    def thaw(self, place: int) -> None:
        self.relays[place].send_signal(signal.SIGCONT)

    def cut(self, place: int) -> None:
        """What was frozen is lost: all connections end, and new ones pass."""
        self.relays[place].kill()
        self.relays[place].wait()
        self.start_relay(place)

    # ---- the database

    def kill_database(self) -> None:
        self.database.kill()

    def start_database(self) -> None:
        """Once what was killed has let go of its memory. Raises CalledProcessError."""
        end = time.monotonic() + _UP_WITHIN_S
        while True:
            try:
                return self.database.start()
            except subprocess.CalledProcessError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)


@contextmanager
def site(folder: Path, tight_usd: float, *, kept: bool = False) -> Iterator[Replicas]:
    """All of it, running and ready; ended afterwards. `kept`: the server's log is then copied to `folder`/postgresql.log."""
    with server(durable=True) as database, ExitStack() as running:
        if kept:
            running.callback(shutil.copyfile, database.folder / "log", folder / "postgresql.log")
        with connect(database.url(), statement_timeout_ms=0) as owner:
            owner.execute(f"CREATE DATABASE {_DATABASE}")
        with connect(database.url(_DATABASE), statement_timeout_ms=0) as owner:
            migrate(owner)
        made = Replicas(_replicas(folder, tight_usd, running), database, running, [])
        for place, replica in enumerate(made.replicas):
            made.relay_ports.append(free_port())
            made.start_relay(place)
            url = database.url(_DATABASE, port=made.relay_ports[place])
            replica.config["memory"]["database_url"] = url
            replica.write_config()
        made.ledger.touch()
        for name in ENGINES:
            made.start_engine(name)
        for replica in made.replicas:
            replica.start()
        for replica in made.replicas:
            replica.wait_until_ready()
        yield made


def _replicas(folder: Path, tight_usd: float, running: ExitStack) -> list[Site]:
    """Each with a folder and a configuration of its own, but the same secret, engines and keys."""
    ports = {name: free_port() for name in ENGINES}
    urls = {name: f"http://127.0.0.1:{ports[name]}" for name in ENGINES}
    secret = secrets.token_bytes(32)
    made: list[Site] = []
    for number in range(REPLICAS):
        home = folder / f"replica-{number}"
        port = free_port()
        site = Site(home, "", port, {}, ports, running)
        site.data.mkdir(parents=True, mode=0o700)
        (site.data / "secret").write_bytes(secret)
        site.config = configuration(port, urls, site.data, tight_usd)
        site.config["keys"] = made[0].config["keys"] if made else site.config["keys"]
        made.append(site)
    return made
