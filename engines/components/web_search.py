"""A web search API as a component: a URL template, or a JSON body, and JSON pointers to its hits and to their texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engines.components.component import ComponentSpec, SearchShape
from engines.components.http import URLAsked
from engines.components.pointer import Missing, described, pointed
from engines.components.running import Answers, Portion


class WebSearch:
    """Asks for one query at a time."""

    def __init__(self, spec: ComponentSpec) -> None:
        assert spec.http is not None and spec.search is not None
        self.name = spec.name
        self._shape: SearchShape = spec.search
        self.url = URLAsked(spec.name, spec.http, spec.limits)

    async def ask(self, portions: Sequence[Portion[str]]) -> Sequence[Answers[list[str]]]:
        """See engines.components.running.Ask: texts of up to `question` hits for each query."""
        return [
            [await self._hits(query, portion.question) for query in portion.items] for portion in portions
        ]

    async def _hits(self, query: str, k: int) -> list[str]:
        values = {"query": query, "k": str(k)}
        if self._shape.body is None:
            came = await self.url.get(values)
        else:
            came = await self.url.post(_filled(self._shape.body, query, k))
        answer = await came.json(self.name)
        try:
            hits = pointed(answer, self._shape.hits)
        except Missing as missing:
            raise self.url.error(f"answered without hits: {missing}") from None
        if not isinstance(hits, list):
            raise self.url.error(
                f"answered {described(hits)} at {self._shape.hits or 'its root'}, not an array"
            )
        return [self._text(hit, place, len(hits)) for place, hit in enumerate(hits[:k], 1)]

    def _text(self, hit: Any, place: int, many: int) -> str:
        """Its texts, a line each; those that are missing are left out, but for the last."""
        found = []
        for pointer in self._shape.text:
            try:
                text = pointed(hit, pointer)
            except Missing:
                continue
            if isinstance(text, str) and text.strip():
                found.append(text)
        if not found:
            where = " or ".join(self._shape.text)
            raise self.url.error(f"answered {many} hits, and hit {place} has no text at {where}")
        return "\n".join(found)


def _filled(body: Any, query: str, k: int) -> Any:
    """A body whose values "{query}" and "{k}" are replaced; only whole values are."""
    if isinstance(body, str):
        return query if body == "{query}" else k if body == "{k}" else body
    if isinstance(body, Mapping):
        return {name: _filled(value, query, k) for name, value in body.items()}
    if isinstance(body, list):
        return [_filled(value, query, k) for value in body]
    return body
