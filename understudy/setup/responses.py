"""From the settings to `/v1/responses`: who answers, whose the ids are, and what stands below an id."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from engines.engine import Engine
from gateway.handlers.chat import Limits
from gateway.handlers.handler import Handler
from gateway.handlers.responses import Responses
from gateway.handlers.stored_responses import StoredResponses, mounted
from gateway.keys import Authenticator
from gateway.passthrough import Passthrough
from gateway.pipeline import Pipeline
from gateway.response_owners import Asker, ResponseOwners, replayable
from router.asked import Asked
from store.records import ExactAnswer

if TYPE_CHECKING:
    from learning.bank.contributor import EndUsers
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


def response_handlers(
    pipeline: Pipeline | None,
    engines: Mapping[str, Engine],
    passthrough: Passthrough | None,
    keys: Authenticator,
    sizes: Limits,
    owners: ResponseOwners,
    end_users: EndUsers | None,
) -> tuple[Responses, partial[Handler]]:
    """(what is asked, what puts all below an id before another handler)."""
    asked = Responses(pipeline, engines, passthrough, keys, sizes, owners, end_users)
    below = StoredResponses(engines, keys, owners, end_users, passthrough)
    return asked, partial(mounted, below)
