"""Scores of texts that several pieces of one list have in common: each text is asked for once.

Hits of several queries are often the same, and are scored piece by piece as they are found; a score is of its text and the
question alone. A piece that fails or is cancelled takes back what it asked, and whoever waits for that asks himself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

Scores = dict[str, asyncio.Future[float]]
"""By text, of one step of a run. For the event loop's thread only."""
Ask = Callable[[Sequence[str]], Awaitable[Sequence[float]]]


async def scored(known: Scores, texts: Sequence[str], ask: Ask) -> list[float]:
    """A score for each text, in their order. Raises what `ask` does; the texts of others that fail are asked anew."""
    wanted = list(dict.fromkeys(texts))
    while True:
        if own := [text for text in wanted if text not in known]:
            await _asked(known, own, ask)
        if waiting := {known[text] for text in wanted if text in known and not known[text].done()}:
            await asyncio.wait(waiting)
        if all(text in known and known[text].done() for text in wanted):
            return [known[text].result() for text in texts]


async def _asked(known: Scores, texts: Sequence[str], ask: Ask) -> None:
    loop = asyncio.get_running_loop()
    own = {text: loop.create_future() for text in texts}
    known.update(own)
    try:
        found = await ask(texts)
        for future, score in zip(own.values(), found, strict=True):
            future.set_result(score)
    finally:
        for text, future in own.items():
            if not future.done():
                del known[text]
                future.cancel()
