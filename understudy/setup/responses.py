"""From the settings to `/v1/responses`: who answers, whose the ids are, and what stands below an id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.response_owners import Asker, ResponseOwners, replayable
from router.asked import Asked
from store.records import ExactAnswer

if TYPE_CHECKING:
    from understudy.memory import Memory


def response_owners(memory: Memory | None) -> ResponseOwners:
    """Whose ids are; without memory, as far as this process knows."""
    if memory is None:
        return ResponseOwners()
    return ResponseOwners(memory.store.owned, memory.store.answers.responses)


async def still_stands(owners: ResponseOwners, asked: Asked, answer: ExactAnswer) -> bool:
    """Whether what a remembered answer names is still there: of other APIs' answers nothing is."""
    if asked.chat.api != "responses":
        return True
    return await replayable(owners, answer.body, Asker(asked.arrival.tenant, asked.end_user))
