"""Any OpenAI-compatible `/embeddings` as a component.

Vectors are asked for in base64, as OpenAI's own client does, since reading millions of digits would hold everything else up;
arrays of numbers are taken, too.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from engines.components.component import ComponentSpec
from engines.components.http import URLAsked
from engines.components.pointer import described
from engines.components.running import Answers, Portion
from engines.loose_json import member

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
        body: dict[str, Any] = {"input": texts, "encoding_format": "base64"}
        if self._http.model:
            body["model"] = self._http.model
        if self._http.dimensions is not None:
            body["dimensions"] = self._http.dimensions
        answer = await (await self.url.post(body)).json(self.name)
        rows = self._rows_of(answer, len(texts))
        if sum(map(len, rows)) > _THREAD_FROM:
            vectors = await asyncio.to_thread(_vectors, rows)
        else:
            vectors = _vectors(rows)
        matrix = self._matrix(vectors)
        found, start = [], 0
        for portion in portions:
            found.append(matrix[start : start + len(portion.items)])
            start += len(portion.items)
        return found

    def _rows_of(self, answer: Any, many: int) -> list[list[float] | str]:
        data = member(answer, "data")
        if not isinstance(data, list):
            raise self.url.error(f"answered {described(answer)}, without an array `data`")
        if len(data) != many:
            raise self.url.error(f"answered {len(data)} embeddings for {many} texts")
        rows: list[list[float] | str | None] = [None] * many
        for place, each in enumerate(data):
            row = member(each, "embedding")
            if not isinstance(row, list | str) or not row:
                raise self.url.error(f"answered {described(row)} as an embedding")
            index = each.get("index", place)
            if type(index) is not int or not 0 <= index < many or rows[index] is not None:
                raise self.url.error("answered embeddings whose `index` is not that of the texts")
            rows[index] = row
        return [row for row in rows if row is not None]

    def _matrix(self, vectors: Sequence[Row | None]) -> Any:
        """Float32 (texts, numbers)."""
        import numpy as np

        found = [row for row in vectors if row is not None and np.isfinite(row).all()]
        if len(found) < len(vectors):
            raise self.url.error("answered an embedding that holds something else than finite numbers")
        sizes = sorted({len(row) for row in found})
        if len(sizes) > 1:
            raise self.url.error(f"answered embeddings of {sizes[0]} and of {sizes[-1]} numbers at once")
        matrix = np.stack(found)
        if not np.any(matrix, axis=1).all():
            raise self.url.error("answered an embedding of zeros, which has no direction")
        if self._dimensions is None:
            self._dimensions = sizes[0]
        if sizes[0] != self._dimensions:
            raise self.url.error(f"answered embeddings of {sizes[0]} numbers; {self._dimensions} are due")
        return matrix


def _vectors(rows: Sequence[list[float] | str]) -> list[Row | None]:
    return [_from_base64(row) if isinstance(row, str) else _from_numbers(row) for row in rows]


def _from_base64(text: str) -> Row | None:
    """Little-endian float32; None where it is none."""
    import numpy as np

    try:
        packed = base64.b64decode(text, validate=True)
        return np.frombuffer(packed, dtype="<f4").astype(np.float32) if packed else None
    except (ValueError, binascii.Error):
        return None


def _from_numbers(row: list[float]) -> Row | None:
    """None where something is no number."""
    import numpy as np

    if not all(type(number) in (float, int) for number in row):
        return None
    try:
        # Beyond float32 a number becomes infinite, which is refused.
        with np.errstate(over="ignore"):
            return np.asarray(row, dtype=np.float64).astype(np.float32)
    except OverflowError:
        return None
