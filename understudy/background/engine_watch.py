"""Says how this worker's engines stand, for the admin pages to show, and drains those an operator wants left alone.

Twice a second it looks whether anything changed. It owns no engine and asks none.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from engines.errors import Kind
from engines.key_command import LATELY
from engines.servers.server import Server
from store.admission.credentials import credentials
from store.changes import Follower
from store.errors import StoreBusy, StoreClosed
from store.jobs.engine_states import EngineStateRow, EngineStates

log = structlog.get_logger(__name__)

_EVERY_S = 0.5
_ERROR_CHARACTERS = 300
_MASK = "[key]"
_SAY_EVERY_S = 1.0
_SAY_AT_LEAST_EVERY_S = 5.0


class EngineWatch(Follower):
    """See the module."""

    def __init__(
        self,
        states: EngineStates,
        servers: Sequence[Server],
        *,
        keys: Sequence[str] = (),
        stand_ins: dict[str, str] | None = None,
        every_s: float = _EVERY_S,
    ) -> None:
        """`keys` are left out of the errors that are told. `stand_ins`: who is asked for drained engines, kept here."""
        super().__init__("engines", every_s)
        self._states = states
        self._servers = list(servers)
        self._keys = [key for key in keys if key]
        self._worker = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._said: list[EngineStateRow] = []
        self._said_at = 0.0
        self._counted: dict[Server, Counter[Kind]] = {}
        """Failures by kind that the store was told of."""
        self._drained_at = -1
        self._stand_ins = {} if stand_ins is None else stand_ins
        self._wanted: set[tuple[str, str]] = set()
        """Engines and replicas that are to be drained."""
        # Here, since an engine is begun with on an event loop, which must not wait for a database.
        self._guarded(self._look)

    def begin(self) -> None:
        """Drain what is to be drained before the first request comes."""
        self._drain()
        self._guarded(self._say)

    def stop(self, timeout_s: float | None = None) -> bool:
        """Look no more, and take back what was said."""
        ended = super().stop(timeout_s)
        self._guarded(self._count)
        # What is left where this cannot be written is not believed for long.
        with contextlib.suppress(StoreBusy, StoreClosed):
            self._states.gone(self._worker)
        return ended

    def look(self) -> None:
        """Tell what changed, and drain what is to be drained now. Raises what the store raises."""
        if self._look():
            self._drain()
        self._say()
        self._count()

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            log.error("engine_watch_failed", error=error)

    def _look(self) -> bool:
        """Whether it may be others now that are to be drained. Blocks for a read."""
        generation = self._states.drained_generation()
        if generation == self._drained_at:
            return False
        found = self._states.drained()
        self._wanted = {(drained.engine, drained.replica) for drained in found}
        # The configuration may have lost an engine since.
        known = {server.info.name for server in self._servers}
        named = {drained.engine: drained.stand_in for drained in found if drained.stand_in in known}
        # Never empty on the way: requests read it meanwhile.
        self._stand_ins.update(named)
        for engine in self._stand_ins.keys() - named.keys():
            del self._stand_ins[engine]
        self._drained_at = generation
        return True

    def _drain(self) -> None:
        for server in self._servers:
            name, replica = server.info.name, server.info.replica
            drained = not self._wanted.isdisjoint({(name, ""), (name, replica)})
            if server.drained != drained:
                server.drained = drained
                log.warning("engine_drained" if drained else "engine_restored", engine=name, replica=replica)

    def _say(self) -> None:
        now_s = time.time()
        if not 0 <= now_s - self._said_at < _SAY_EVERY_S:
            rows = [self._row(server, now_s) for server in self._servers]
            news = [replace(row, at_s=0.0) for row in rows] != [replace(row, at_s=0.0) for row in self._said]
            if rows and (news or now_s - self._said_at > _SAY_AT_LEAST_EVERY_S):
                self._states.say(rows)
                self._said, self._said_at = rows, now_s

    def _count(self) -> None:
        """Have the store add the failures since it was last told: they are to outlive this worker."""
        # Copies: the event loop may count a new kind meanwhile.
        known = {server: server.failures.copy() for server in self._servers}
        news: Counter[tuple[str, str]] = Counter()
        for server, failures in known.items():
            for kind, errors in (failures - self._counted.get(server, Counter())).items():
                news[server.info.name, str(kind)] += errors
        if news:
            self._states.add_errors(news, time.time())
        self._counted = known

    def _row(self, server: Server, now_s: float) -> EngineStateRow:
        load, since, failure = server.load(), server.since(), server.last_failure
        probe = server.last_probe
        # What waits for any replica of an engine is told once.
        waiting = server.line.waiting if server.line.shared and server.line.is_first(server) else 0
        return EngineStateRow(
            worker=self._worker,
            engine=server.info.name,
            replica=server.info.replica,
            at_s=now_s,
            in_flight=load.in_flight,
            queued=load.queued + waiting,
            capacity=load.capacity,
            utilisation=round(load.utilisation, 3),
            breaker=server.breaker.state.value,
            drained=server.drained,
            asked=server.asked,
            failed=server.failed,
            first_chunk_s=load.first_chunk_s,
            answer_s=load.answer_s,
            kv_use=load.kv_use,
            limit_left=load.limit_left,
            state=since.state,
            since_s=since.at_s,
            error=shown_error(server.problem or "" if failure is None else failure.told, self._keys),
            error_at_s=None if failure is None else failure.at_s,
            probed_at_s=None if probe is None else probe.at_s,
            probe_ms=None if probe is None else round(probe.seconds * 1000, 1),
            probe_error="" if probe is None else shown_error(probe.error, self._keys),
        )


def shown_error(text: str, keys: Sequence[str]) -> str:
    """What people may read of an error: 300 characters, without these keys, those that commands printed lately, and whatever
    else looks like one."""
    for key in (*keys, *LATELY):
        text = text.replace(key, _MASK)
    for span in reversed(credentials(text)):
        text = text[: span.start] + _MASK + text[span.end :]
    return text[:_ERROR_CHARACTERS]
