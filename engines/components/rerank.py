"""Any `/rerank` as a component. vLLM, Cohere and Jina take and answer the same shape, as far as it is used here.

Asked: `{model, query, documents, top_n}`. Answered: `{"results": [{"index", "relevance_score"}, …]}`, best first, in vLLM
and Jina with the document again, in Cohere with `meta`, in vLLM and Jina with `usage`: those are not looked at.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from engines.components.component import ComponentError, ComponentSpec
from engines.components.http import URLAsked
from engines.components.pointer import described
from engines.components.running import Answers, Portion
from engines.loose_json import member


class RerankOverHTTP:
    """`url` is the whole URL, as `https://api.cohere.com/v2/rerank`. A request has one query."""

    def __init__(self, spec: ComponentSpec) -> None:
        assert spec.http is not None
        self.name = spec.name
        self._model = spec.http.model
        self.url = URLAsked(spec.name, spec.http, spec.limits, probed=True)

    async def ask(self, portions: Sequence[Portion[str]]) -> Sequence[Answers[float]]:
        """See engines.components.running.Ask. Portions with the same query are asked together."""
        by_query: dict[str, list[int]] = {}
        for place, portion in enumerate(portions):
            by_query.setdefault(portion.question, []).append(place)
        found: list[Answers[float]] = [[] for _ in portions]
        async with asyncio.TaskGroup() as group:
            for query, places in by_query.items():
                group.create_task(self._one_query(query, portions, places, found))
        return found

    async def _one_query(
        self, query: str, portions: Sequence[Portion[str]], places: list[int], found: list[Answers[float]]
    ) -> None:
        try:
            scores = await self._scores(query, [text for place in places for text in portions[place].items])
        except ComponentError as error:
            for place in places:
                found[place] = error
            return
        start = 0
        for place in places:
            many = len(portions[place].items)
            found[place] = scores[start : start + many]
            start += many

    async def _scores(self, query: str, texts: list[str]) -> list[float]:
        body: dict[str, Any] = {"query": query, "documents": texts, "top_n": len(texts)}
        if self._model:
            body["model"] = self._model
        answer = await (await self.url.post(body)).json(self.name)
        results = member(answer, "results")
        if not isinstance(results, list):
            raise self.url.error(f"answered {described(answer)}, without an array `results`")
        if len(results) != len(texts):
            raise self.url.error(f"answered {len(results)} scores for {len(texts)} texts")
        scores: list[float | None] = [None] * len(texts)
        for each in results:
            index, score = member(each, "index"), member(each, "relevance_score")
            if type(index) is not int or not 0 <= index < len(texts) or scores[index] is not None:
                raise self.url.error("answered scores whose `index` is not that of the texts")
            if type(score) not in (int, float) or not math.isfinite(score):
                raise self.url.error(f"answered {described(score)} as `relevance_score`, not a number")
            scores[index] = float(score)
        return [score for score in scores if score is not None]
