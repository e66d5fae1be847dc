"""Pieces of a list that hold the same texts ask for each once, whatever becomes of the piece that asked first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from benchmarks.batching import virtual_time
from workflows.running.scores import Scores, scored


class Reranker:
    """A score is a text's length; an answer takes a second."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.refuses = 0

    async def ask(self, texts: Sequence[str]) -> list[float]:
        self.asked.append(list(texts))
        await asyncio.sleep(1.0)
        if self.refuses:
            self.refuses -= 1
            raise ValueError("no")
        return [float(len(text)) for text in texts]


def test_texts_in_common_are_asked_once() -> None:
    async def main() -> None:
        reranker, known = Reranker(), Scores()
        first, second, third = await asyncio.gather(
            scored(known, ["a", "bb", "a"], reranker.ask),
            scored(known, ["bb", "ccc"], reranker.ask),
            scored(known, ["ccc", "a"], reranker.ask),
        )
        assert (first, second, third) == ([1.0, 2.0, 1.0], [2.0, 3.0], [3.0, 1.0])
        assert reranker.asked == [["a", "bb"], ["ccc"]]
        assert await scored(known, ["a"], reranker.ask) == [1.0] and len(reranker.asked) == 2

    virtual_time.run(main)


def test_what_fails_for_one_is_asked_anew_by_the_other() -> None:
    async def main() -> None:
        reranker, known = Reranker(), Scores()
        reranker.refuses = 1
        first = asyncio.create_task(scored(known, ["a", "bb"], reranker.ask))
        second = asyncio.create_task(scored(known, ["bb"], reranker.ask))
        assert await second == [2.0]
        with pytest.raises(ValueError):
            await first
        assert reranker.asked == [["a", "bb"], ["bb"]]

    virtual_time.run(main)


def test_who_is_cancelled_leaves_nothing_behind() -> None:
    async def main() -> None:
        reranker, known = Reranker(), Scores()
        first = asyncio.create_task(scored(known, ["a"], reranker.ask))
        second = asyncio.create_task(scored(known, ["a", "bb"], reranker.ask))
        third = asyncio.create_task(scored(known, ["bb"], reranker.ask))
        await asyncio.sleep(0.5)
        first.cancel()
        second.cancel()
        assert await third == [2.0] and set(known) == {"bb"}
        with pytest.raises(asyncio.CancelledError):
            await first

    virtual_time.run(main)
