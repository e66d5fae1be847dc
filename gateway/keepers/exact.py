"""Keeps whole answers for exact repeats."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import structlog

from engines.answers.beginning import says_nothing
from engines.codecs.table import codec_of
from gateway.keepers.keeper import Kept
from router.finished import Finished
from store.answers.exact_cache import ExactCache, Put
from store.jobs.engine_states import UNMERGEABLE
from store.records import ExactAnswer, Example

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
        self._gathered: list[Put] = []
        self._unmergeable: set[tuple[str, str]] = set()
        """(engine, member) that were logged."""

    def expect(self, finished: Finished, read: Callable[[Finished], None]) -> None:
        """See gateway.recorder.Expecting."""
        if finished.exact_key is None or _unread(finished):
            return

        def answer() -> ExactAnswer | None:
            read(finished)
            found = self._answer(finished)
            return None if isinstance(found, str) else found

        self._cache.expect(finished.exact_key, answer, _examples(finished))

    def kept(self, finished: Finished) -> None:
        """See gateway.recorder.Expecting."""
        if finished.exact_key is not None:
            self._cache.expect_no_more(finished.exact_key)

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper."""
        if finished.hit is not None or finished.exact_key is None:
            return
        answer = self._answer(finished)
        if isinstance(answer, str):
            yield "exact", answer
            return
        arrival, by = finished.arrival, finished.asked.contributor
        examples, unread = _examples(finished), _unread(finished)
        if not (examples or unread):
            self._gathered.append(Put(finished.exact_key, arrival.tenant, answer, arrival.id, by))
            return
        yield (
            "exact",
            self._cache.put(
                finished.exact_key,
                arrival.tenant,
                answer,
                request_id=arrival.id,
                examples=examples,
                contributor=by,
                unread=unread,
            ),
        )

    def write(self) -> Iterator[tuple[str, Future[Any], int]]:
        """See Gathering."""
        gathered, self._gathered = self._gathered, []
        if gathered:
            yield "exact", self._cache.put_all(gathered), len(gathered)

    def _answer(self, finished: Finished) -> ExactAnswer | str:
        """Give what is to be kept; or why nothing is."""
        assembled, body = finished.assembled, finished.body
        reason = self._refusal(finished)
        if reason is not None or assembled is None:
            return reason or "incomplete"
        return ExactAnswer(
            codec_of(finished.asked.chat).stored(assembled) if body.streamed else body.decoded(),
            "application/json" if body.streamed else body.content_type,
            finished.engine,
            time.time(),
            usage_estimated=finished.usage is None or finished.usage.estimated,
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


def _examples(finished: Finished) -> list[Example]:
    attempt = finished.attempt
    return [candidate.example for candidate in attempt.examples] if attempt is not None else []


def _unread(finished: Finished) -> bool:
    """Tell if nobody could look in time if there is an answer already."""
    return any(each.startswith("exact:") for each in finished.bypassed)
