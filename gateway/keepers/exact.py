"""Keeps whole answers for exact repeats."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import structlog

from engines.answers.beginning import says_nothing
from engines.codecs.table import codec_of
from gateway.keepers.keeper import Kept
from router.finished import Finished
from store.answers.exact_cache import ExactCache
from store.jobs.engine_states import UNMERGEABLE
from store.records import ExactAnswer

log = structlog.get_logger(__name__)

_NAMES = 50
_NAME_CHARACTERS = 60


class ExactKeeper:
    """Keeps whole answers for exact repeats."""

    def __init__(
        self,
        cache: ExactCache,
        *,
        tool_calls: bool = False,
        unmerged: Callable[[str, str], object] = lambda engine, reason: None,
    ) -> None:
        """`unmerged` is told of each answer of an engine that could not be merged, and why; it must not block."""
        self._cache = cache
        self._unmerged = unmerged
        self._tool_calls = tool_calls
        self._unmergeable: set[tuple[str, str]] = set()
        """(engine, member) that were logged."""

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper."""
        if finished.hit is not None or finished.exact_key is None:
            return
        assembled, body = finished.assembled, finished.body
        reason = self._refusal(finished)
        if reason is not None or assembled is None:
            yield "exact", reason or "incomplete"
            return
        stored = ExactAnswer(
            codec_of(finished.asked.chat).stored(assembled) if body.streamed else body.decoded(),
            "application/json" if body.streamed else body.content_type,
            finished.engine,
            time.time(),
            usage_estimated=assembled.usage() is None,
        )
        yield (
            "exact",
            self._cache.put(
                finished.exact_key,
                finished.arrival.tenant,
                stored,
                request_id=finished.arrival.id,
                examples=[candidate.example for candidate in finished.attempt.examples]
                if finished.attempt
                else (),
                contributor=finished.asked.contributor,
                unread=any(each.startswith("exact:") for each in finished.bypassed),
            ),
        )

    def _refusal(self, finished: Finished) -> str | None:
        assembled = finished.assembled
        if finished.asked.controls.no_store:
            return "opted_out"
        if finished.replay_forbidden:
            return "upstream_forbids"
        if finished.status != 200:
            return "error"
        if assembled is not None and assembled.unmerged:
            reason = self._named(finished.engine, assembled.unmerged[0][:_NAME_CHARACTERS])
            self._unmerged(finished.engine, reason)
            return reason
        if not finished.complete or assembled is None or not assembled.whole:
            return "incomplete"
        if finished.by_stand_in:
            return "stand_in"
        if finished.by_student:
            # A better student may know better, and a check must meet the teacher.
            return "student"
        if assembled.calls_tools() and not self._tool_calls:
            return "tool_calls"
        finished_well = {"stop", "tool_calls"} if self._tool_calls else {"stop"}
        if not finished_well.issuperset(assembled.finish_reasons()):
            return "cut_short"
        choices = assembled.choices()
        if len(choices) != _asked_for(finished) or any(
            says_nothing(choice.get("message")) for choice in choices
        ):
            return "empty"
        return codec_of(finished.asked.chat).refusal(finished.asked.chat, assembled)

    def _named(self, engine: str, member: str) -> str:
        """The member that keeps an engine's answers from being remembered; it is logged once. Names come from upstream, so
        only so many of them become labels of a metric."""
        if (engine, member) not in self._unmergeable:
            if len(self._unmergeable) >= _NAMES:
                return UNMERGEABLE + "other"
            self._unmergeable.add((engine, member))
            log.warning("unmergeable_member", engine=engine, member=member)
        return UNMERGEABLE + member


def _asked_for(finished: Finished) -> Any:
    return finished.asked.chat.fields.get("n") or 1
