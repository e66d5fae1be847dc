"""All engines of a process by name, started and closed together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from engines.engine import Engine, Starts
from engines.guard import Guard
from engines.line import Line
from engines.placement import Placement
from engines.placing import Placing
from engines.replicas import Replicas


class Registry(Mapping[str, Engine]):
    """All engines of a configuration, started and closed together."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = dict(engines)

    def __getitem__(self, name: str) -> Engine:
        return self._engines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._engines)

    def __len__(self) -> int:
        return len(self._engines)

    @property
    def guards(self) -> list[Guard]:
        """One for each replica of each engine. What has no guard is passed through, not managed: it has none here."""
        found: list[Guard] = []
        for engine in self._engines.values():
            if isinstance(engine, Replicas):
                found += engine.guards
            elif isinstance(engine, Guard):
                found.append(engine)
        return found

    @property
    def lines(self) -> dict[str, Line]:
        """Where requests wait, by engine."""
        return {
            name: engine.line
            for name, engine in self._engines.items()
            if isinstance(engine, Guard | Replicas)
        }

    @property
    def placings(self) -> dict[str, Placing]:
        """Who places steps at replicas, by engine."""
        return {name: one.placing for name, one in self._engines.items() if isinstance(one, Replicas)}

    def move(self, placement_of: Callable[[Placement], Placement]) -> None:
        """What is known of runs has changed: steps that wait are given the placement that this makes of their own."""
        for line in self.lines.values():
            if line.waiting:
                line.move(placement_of)

    def start(self) -> None:
        """Begin to bring up what runs in this process. Inside the running loop."""
        for engine in self._engines.values():
            if isinstance(engine, Starts):
                engine.start()

    def problem(self, names: Iterable[str]) -> str | None:
        """Why none of these engines can answer now, in the words of the last; None while one can."""
        told = None
        for name in names:
            told = self._problem(name)
            if told is None:
                return None
        return told

    def _problem(self, name: str) -> str | None:
        engine = self._engines[name]
        if isinstance(engine, Starts) and engine.problem is not None:
            return f"the engine '{name}' {engine.problem}"
        states = [guard.since().state for guard in self.guards if guard.info.name == name]
        if not states or any(state.answers for state in states):
            return None
        return f"the engine '{name}' is {', '.join(dict.fromkeys(states))}"

    async def aclose(self) -> None:
        """Close every engine, also if one fails to."""
        errors: list[Exception] = []
        for engine in self._engines.values():
            try:
                await engine.aclose()
            except Exception as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup("closing engines", errors)
