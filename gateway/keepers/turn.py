"""Tells the router who answered a turn of a conversation, and what that engine's cache held of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gateway.keepers.keeper import Kept
from router.finished import Finished
from router.turns.conversations import Conversations


class TurnKeeper:
    """See Keeper. What is known of conversations is in memory alone: digests, lengths and the examples that were sent."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper. Nothing is written."""
        plan, attempt = finished.plan, finished.attempt
        if plan is None or plan.turn is None or attempt is None or not 200 <= finished.status < 300:
            return
        chat = finished.asked.chat
        if attempt.messages is not None:
            chat = replace(chat, messages=attempt.messages)
        self._conversations.answered(
            plan.turn, attempt.engine, chat, finished.arrival.tenant, finished.usage, attempt.examples
        )
        yield from ()
