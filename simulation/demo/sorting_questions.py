"""The demo's task of few labels: questions are sorted by the large engine, until a student has learnt to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from simulation.demo.settings import SORTER, DemoSettings, kinds
from simulation.reading import Messages
from simulation.sorting import OTHER, PROMPT, labels, sorted_as
from simulation.stream import Ask
from simulation.world import World

if TYPE_CHECKING:
    from openai import AsyncOpenAI

NUMBER = 240
"""A student is trained after 100 labels; the answers to the second half are compared with it."""
_AT_ONCE = 32
_WAIT = {"Cache-Control": "no-cache"}


async def sort_questions(
    openai: AsyncOpenAI, settings: DemoSettings, asks: Sequence[Ask], learnt: Callable[[], Awaitable[None]]
) -> int:
    """Has questions of the traffic sorted; gives how many the student answered. Raises openai.OpenAIError.

    `learnt`: waits, between the halves, until there is a student.
    """
    system = {"role": "system", "content": PROMPT.format(kinds=", ".join([*kinds(settings), OTHER]))}
    questions = list(dict.fromkeys(ask.question for ask in asks if ask.kind in ("new", "look_alike")))[
        :NUMBER
    ]
    open_requests = asyncio.Semaphore(_AT_ONCE)

    async def sort(question: str) -> bool:
        async with open_requests:
            create: Any = openai.chat.completions.with_raw_response.create
            raw = await create(
                model=SORTER, messages=[system, {"role": "user", "content": question}], extra_headers=_WAIT
            )
            return bool(raw.headers.get("x-understudy-engine") == "student")

    half = NUMBER // 2
    first = await asyncio.gather(*map(sort, questions[:half]))
    await learnt()
    return sum(first) + sum(await asyncio.gather(*map(sort, questions[half:])))


def grade(world: World, messages: Messages, answer: str) -> float | None:
    """The quality of an answer, 0 to 1, of one that sorts a question, too; None where this world knows of none."""
    reading = world.read(messages)
    if asked := labels(messages):
        return float(answer.strip() == sorted_as(asked, reading.facts, random.Random(0), sure=True))
    return world.grade(messages, answer) if reading.facts or reading.one_off is not None else None
