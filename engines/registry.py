"""All engines of a process by name, started and closed together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from engines.closing import close_all
from engines.engine import Engine, Starts
from engines.placement import Placement
from engines.servers.server import Server
from engines.servers.servers import Servers


class Registry(Mapping[str, Engine]):
    """All engines of a configuration, started and closed together."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = dict(engines)
        self.stand_ins: dict[str, str] = {}
        """By drained engine, the one that an operator has named to be asked where no other of the model answers."""

    def __getitem__(self, name: str) -> Engine:
        return self._engines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._engines)

    def __len__(self) -> int:
        return len(self._engines)

    @property
    def managed(self) -> dict[str, Servers]:
        """Those that have a list of servers, by name. What has none is passed through, not managed."""
        return {name: engine for name, engine in self._engines.items() if isinstance(engine, Servers)}

    @property
    def servers(self) -> list[Server]:
        """Each server of each of these."""
        return [server for engine in self.managed.values() for server in engine.servers]

    def move(self, placement_of: Callable[[Placement], Placement]) -> None:
        """More is known of runs: steps that wait are given the placement that this makes of their own."""
        for engine in self.managed.values():
            if engine.line.waiting:
                engine.line.move(placement_of)

    def start(self) -> None:
        """Begin to bring up what runs in this process. Inside the running loop."""
        for engine in self._engines.values():
            if isinstance(engine, Starts):
                engine.start()

    def problem(self, names: Iterable[str]) -> str | None:
        """Why none of these engines can answer now, in the words of the last; None while one can."""
        told, names = None, list(names)
        for name in (*names, *filter(None, map(self.stand_ins.get, names))):
            told = self._problem(name)
            if told is None:
                return None
        return told

    def _problem(self, name: str) -> str | None:
        engine = self._engines[name]
        if isinstance(engine, Starts) and engine.problem is not None:
            return f"the engine '{name}' {engine.problem}"
        states = [one.since().state for one in engine.servers] if isinstance(engine, Servers) else []
        if not states or any(state.answers for state in states):
            return None
        return f"the engine '{name}' is {', '.join(dict.fromkeys(states))}"

    async def aclose(self) -> None:
        """Close every engine, also if one fails to."""
        await close_all([engine.aclose for engine in self._engines.values()])
