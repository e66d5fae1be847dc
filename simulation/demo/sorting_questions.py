"""The demo's task of few labels: questions are sorted by the large engine, until a student has learnt to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from simulation.demo.settings import SORTER, DemoSettings, kinds
from simulation.sorting import OTHER, PROMPT
from simulation.stream import Ask

if TYPE_CHECKING:
    from openai import AsyncOpenAI

NUMBER = 240
"""A student is trained after 100 labels; some answers are compared with it afterwards."""
_AT_ONCE = 32
_WAIT = {"Cache-Control": "no-cache"}


async def sort_questions(openai: AsyncOpenAI, settings: DemoSettings, asks: Sequence[Ask]) -> int:
    """Has questions of the traffic sorted; gives how many the student answered. Raises openai.OpenAIError."""
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

    return sum(await asyncio.gather(*map(sort, questions)))
