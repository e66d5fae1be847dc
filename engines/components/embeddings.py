"""Any OpenAI-compatible `/embeddings` as a component."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engines.components.component import ComponentError, ComponentSpec
from engines.components.http import URLAsked
from engines.components.pointer import described
from engines.components.running import Answers, Portion

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Row = npt.NDArray[np.float32]

_THREAD_FROM = 4096
"""So many numbers are turned into an array in a thread."""


class EmbeddingsOverHTTP:
    """`url` is the base URL, as an OpenAI client would be given it."""

    def __init__(self, spec: ComponentSpec) -> None:
        assert spec.http is not None
        self.name = spec.name
        self._http = spec.http
        self.url = URLAsked(spec.name, spec.http, spec.limits, tail="/embeddings", probed=True)
        self._dimensions = spec.http.dimensions

    def identity(self) -> str:
        """See engines.components.component.Components."""
        return f"openai {self._http.url} {self._http.model} {self._http.dimensions or ''}".strip()

    async def ask(self, portions: Sequence[Portion[str]]) -> Sequence[Answers[Row]]:
        """See engines.components.running.Ask."""
        texts = [text for portion in portions for text in portion.items]
        body: dict[str, Any] = {"input": texts, "encoding_format": "float"}
        if self._http.model:
            body["model"] = self._http.model
        if self._http.dimensions is not None:
            body["dimensions"] = self._http.dimensions
        answer = await (await self.url.post(body)).json(self.name)
        rows = self._rows_of(answer, len(texts))
        size = len(rows[0])
        if size * len(rows) > _THREAD_FROM:
            matrix = await asyncio.to_thread(_matrix, rows)
        else:
            matrix = _matrix(rows)
        self._check(matrix, size)
        found, start = [], 0
        for portion in portions:
            found.append(matrix[start : start + len(portion.items)])
            start += len(portion.items)
        return found

    def _rows_of(self, answer: Any, many: int) -> list[list[float]]:
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, list):
            raise self._error(f"answered {described(answer)}, without an array `data`")
        if len(data) != many:
            raise self._error(f"answered {len(data)} embeddings for {many} texts")
        rows: list[list[float] | None] = [None] * many
        for place, each in enumerate(data):
            row = each.get("embedding") if isinstance(each, dict) else None
            index = each.get("index", place) if isinstance(each, dict) else place
            if not isinstance(row, list) or not row:
                raise self._error(f"answered {described(row)} as an embedding, not an array of numbers")
            if type(index) is not int or not 0 <= index < many or rows[index] is not None:
                raise self._error("answered embeddings whose `index` is not that of the texts")
            rows[index] = row
        found = [row for row in rows if row is not None]
        sizes = sorted({len(row) for row in found})
        if len(sizes) > 1:
            raise self._error(f"answered embeddings of {sizes[0]} and of {sizes[-1]} numbers at once")
        return found

    def _check(self, matrix: Any, size: int) -> None:
        import numpy as np

        if matrix is None or not np.isfinite(matrix).all():
            raise self._error("answered an embedding that holds something else than finite numbers")
        if not np.any(matrix, axis=1).all():
            raise self._error("answered an embedding of zeros, which has no direction")
        if self._dimensions is None:
            self._dimensions = size
        if size != self._dimensions:
            raise self._error(f"answered embeddings of {size} numbers; {self._dimensions} are due")

    def _error(self, what: str) -> ComponentError:
        return ComponentError(f"The component '{self.name}' {what}.", component=self.name)

    async def aclose(self) -> None:
        """Close its connections."""
        await self.url.aclose()


def _matrix(rows: list[list[float]]) -> Any:
    """Float32 (rows, numbers); None where something is no number."""
    import numpy as np

    if not all(type(number) in (float, int) for row in rows for number in row):
        return None
    try:
        # Beyond float32 a number becomes infinite, which is refused.
        with np.errstate(over="ignore"):
            return np.asarray(rows, dtype=np.float64).astype(np.float32)
    except (ValueError, TypeError, OverflowError):
        return None
