"""All engines of a process by name, started and closed together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from engines.engine import Engine, Starts


class Registry(Mapping[str, Engine]):
    """All engines of this process, closed together."""

    def __init__(self, engines: Mapping[str, Engine]) -> None:
        self._engines = dict(engines)

    def __getitem__(self, name: str) -> Engine:
        return self._engines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._engines)

    def __len__(self) -> int:
        return len(self._engines)

    def start(self) -> None:
        """Begin to bring up what runs in this process. Inside the running loop."""
        for engine in self._engines.values():
            if isinstance(engine, Starts):
                engine.start()

    def problem(self, names: Iterable[str]) -> str | None:
        """Why none of these engines can answer now, in the words of the last; None while one can."""
        told = None
        for name in names:
            engine = self._engines[name]
            told = engine.problem if isinstance(engine, Starts) else None
            if told is None:
                return None
            told = f"the engine '{name}' {told}"
        return told

    async def aclose(self) -> None:
        """Close every engine, also when one fails to."""
        errors: list[Exception] = []
        for engine in self._engines.values():
            try:
                await engine.aclose()
            except Exception as error:
                errors.append(error)
        if errors:
            raise ExceptionGroup("closing engines", errors)
