"""What goes wrong with replicas and their database, and what an operator does in between."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable

from benchmarks.chaos.faults import Schedule
from benchmarks.chaos.traffic import Traffic
from benchmarks.chaos_postgres.site import Replicas

KINDS = (
    "worker killed",
    "learner killed",
    "replica killed",
    "database killed",
    "connections frozen",
    "engine stopped",
    "engine killed",
)
ORDERS = ("reload", "rolling upgrade")
_NOBODY_ASKS_AFTER_S = 1.0
"""So long a balancer takes to send nothing more to a replica that is to be stopped."""


class PostgresSchedule(Schedule):
    """Each kind once, in a drawn order, then all again."""

    def __init__(self, site: Replicas, traffic: Traffic, seed: int) -> None:
        super().__init__(site, traffic, seed)  # type: ignore[arg-type]
        self._replicas = site
        self._asking = traffic

    def acts(self) -> dict[str, Callable[[], Awaitable[str]]]:
        """What is done, by its name."""
        return {
            "worker killed": self._worker_killed,
            "learner killed": self._learner_killed,
            "replica killed": self._replica_killed,
            "database killed": self._database_killed,
            "connections frozen": self._connections_frozen,
            "engine stopped": self.engine_stopped,
            "engine killed": self.engine_killed,
            "reload": self._reloaded,
            "rolling upgrade": self._upgraded,
        }

    def _drawn(self) -> int:
        return self.dice.randrange(len(self._replicas.replicas))

    async def _worker_killed(self) -> str:
        place = self._drawn()
        pids = self._replicas.replicas[place].workers()
        os.kill(self.dice.choice(pids), signal.SIGKILL)
        return f"one of {len(pids)} of replica {place}"

    async def _learner_killed(self) -> str:
        place = self._drawn()
        os.kill(await asyncio.to_thread(self._replicas.replicas[place].learner), signal.SIGKILL)
        return f"of replica {place}"

    async def _replica_killed(self) -> str:
        """The supervisor: its workers end with it. A new one is started at once, as Kubernetes would."""
        place, began_s = self._drawn(), time.monotonic()
        replica = self._replicas.replicas[place]
        await asyncio.to_thread(replica.kill_server)
        replica.start()
        await asyncio.to_thread(replica.wait_until_ready)
        return f"replica {place}, served again after {time.monotonic() - began_s:.1f} s"

    async def _database_killed(self) -> str:
        for_s, began_s = self.dice.uniform(0, 4), time.monotonic()
        self._replicas.kill_database()
        await asyncio.sleep(for_s)
        await asyncio.to_thread(self._replicas.start_database)
        return f"up again after {time.monotonic() - began_s:.1f} s"

    async def _connections_frozen(self) -> str:
        """Half of the times they go on; else they are lost."""
        place, for_s, lost = self._drawn(), self.dice.uniform(3, 12), self.dice.random() < 0.5
        self._replicas.freeze(place)
        await asyncio.sleep(for_s)
        await asyncio.to_thread(self._replicas.cut if lost else self._replicas.thaw, place)
        return f"replica {place} for {for_s:.1f} s, then {'lost' if lost else 'went on'}"

    async def _reloaded(self) -> str:
        await asyncio.to_thread(self._replicas.hang_up)
        return "SIGHUP"

    async def _upgraded(self) -> str:
        """One replica after the other is left out by the balancer, stopped, started anew, and let in again."""
        for replica in self._replicas.replicas:
            self._asking.urls.remove(replica.url)
            await asyncio.sleep(_NOBODY_ASKS_AFTER_S)
            status = await asyncio.to_thread(replica.stop)
            if status != 0:
                raise RuntimeError(f"a replica that was told to stop ended with status {status}")
            replica.start()
            await asyncio.to_thread(replica.wait_until_ready)
            self._asking.urls.append(replica.url)
        return f"{len(self._replicas.replicas)} replicas"
