"""Name to engine, guarded or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engines.engine import Engine


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
