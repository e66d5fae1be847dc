"""Keeps a row per request: no content, enough to explain the decision and to evaluate another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import orjson
import structlog

from engines.answers.answer import Assembled
from engines.chat import Usage
from gateway.keepers.keeper import Kept
from gateway.keepers.session import session_of
from gateway.keepers.text import TextKeeper
from learning.bank.contributor import user_part
from router.finished import Finished, Journey, Outcome
from store.admission.credentials import credentials
from store.decisions.requests import RequestLog
from store.decisions.usage import UsageBooks, usage_of
from store.errors import StoreBusy
from store.records import RequestRecord

log = structlog.get_logger(__name__)

_NO_USAGE = Usage(0, 0)
_ERROR_CHARACTERS = 300
_CODE_CHARACTERS = 60
_MAX_ID_CHARACTERS = 200


class RequestKeeper:
    """Keeps a row per request: no content, enough to explain the decision and to evaluate another one.

    `texts` keeps its texts first, so that the row says why there are none. `secret`: of the installation; conversations are
    named by it. Of a request that is not to be stored, and where there is no log, only the sums of the books are kept.
    """

    def __init__(
        self,
        requests: RequestLog | None,
        books: UsageBooks,
        *,
        texts: TextKeeper | None = None,
        secret: bytes = b"",
    ) -> None:
        self._requests = requests
        self._books = books
        self._texts = texts
        self._secret = secret
        self._rows: list[RequestRecord] = []

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper."""
        no_text = "off"
        if self._texts is not None:
            no_text = self._texts.keep(finished)
            if no_text:
                yield "text", no_text
        if not finished.row_allowed:
            yield "request", self._kept(row_of(finished), stored=False)
            return
        row = row_of(finished, no_text=no_text, session=session_of(self._secret, finished.asked))
        if self._requests is None:
            yield "request", self._kept(row, stored=False)
        else:
            self._rows.append(row)

    def write(self) -> Iterator[tuple[str, Future[Any], int]]:
        """See Gathering."""
        rows, self._rows = self._rows, []
        try:
            if self._texts is not None:
                # First, so that whoever finds the row finds its text.
                yield from self._texts.write()
        except StoreBusy:
            rows = [replace(row, no_text=row.no_text or "busy") for row in rows]
        if rows and self._requests is not None:
            yield "request", self._requests.record(*rows), len(rows)

    def take(self, ended: Journey, follow: Callable[[str, Future[None]], None]) -> None:
        """The same of a request that never reached the pipeline, if an engine was asked, memory answered, or a guardrail
        withheld it. Never raises.

        `follow` is given the write under way.
        """
        if not ended.asked_at and ended.outcome is not Outcome.HIT and not ended.guardrail:
            return
        try:
            follow("request", self._kept(row_of(ended), stored=ended.stored))
            if self._texts is not None and (said := self._texts.failure(ended)) is not None:
                follow("text", said)
        except Exception as error:
            log.error("keeper_failed", keeper=type(self).__name__, request=ended.arrival.id, error=error)

    def _kept(self, row: RequestRecord, *, stored: bool) -> Future[None]:
        if stored and self._requests is not None:
            return self._requests.record(row)
        return self._books.book(usage_of(row))


def row_of(ended: Journey, *, no_text: str = "", session: str = "") -> RequestRecord:
    """Make the row of a request, as the log has it."""
    arrival, usage = ended.arrival, ended.usage or _NO_USAGE
    stood_in_for, first_s = ended.stood_in_for, ended.first_chunk_s
    pipelines = _by_pipeline(ended) if isinstance(ended, Finished) else _NO_PIPELINE
    return RequestRecord(
        id=arrival.id,
        tenant=arrival.tenant,
        started_at_s=arrival.started_at_s,
        endpoint=arrival.path,
        model=ended.model,
        engine=ended.engine,
        outcome=ended.outcome.value,
        status=ended.status,
        policy=ended.policy,
        reason=_reason(ended),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        usage_estimated=usage.estimated,
        cost_usd=ended.cost_usd,
        total_ms=_ms(ended.total_s),
        first_chunk_ms=None if first_s is None else _ms(first_s),
        overhead_ms=_ms(ended.overhead_s),
        stages_ms=orjson.dumps({name: _ms(s) for name, s in ended.stages_s.items()}).decode(),
        key_id=arrival.key_id or "",
        cached_tokens=usage.cached_tokens,
        failed_over="" if stood_in_for is None else str(stood_in_for),
        trail=_trail(ended),
        api=arrival.api or "chat",
        cache_write_tokens=usage.cache_write_tokens,
        images=usage.images,
        service_tier=usage.service_tier[:40],
        session=session,
        no_text=no_text,
        **{"end_user": arrival.user, "error_kind": _error_kind(ended), **pipelines},
    )


_NO_PIPELINE: dict[str, Any] = {"policy_version": "", "probability": 1.0, "example_ids": ()}


def _by_pipeline(finished: Finished) -> dict[str, Any]:
    """Give the columns of the row that only requests of the pipeline fill."""
    assembled, reused = finished.assembled, finished.reused_example
    # Those that were sent along, or whose answer was given.
    columns: dict[str, Any] = {
        "policy_version": finished.policy_version,
        "probability": finished.probability,
        "example_ids": finished.example_ids if reused is None else (reused,),
        "continued": ",".join(finished.carried_on_by),
        "reference_cost_usd": finished.reference_cost_usd,
        "exact_key": finished.exact_key,
        "examples_usd": finished.examples_usd,
        "example_tokens": finished.example_tokens,
    }
    if user := user_part(finished.asked.contributor):
        columns["end_user"] = user
    if assembled is not None:
        columns["completion_id"] = completion_id(assembled)
        columns["finish_reason"] = assembled.finish_reason()[:40]
    if (placement := finished.asked.placement) is not None:
        columns["run"], columns["step"] = placement.run, placement.step
    call = finished.plan.attempts[0].call if finished.plan is not None else None
    if call is not None:
        columns["run"] = call.run
        if call.failed:
            columns["error_kind"] = call.failed
    return columns


def _reason(ended: Journey) -> str:
    """Why it ended as it did: of what a guardrail withheld, which one."""
    withheld = ended.guardrail and ended.outcome in (Outcome.REFUSED, Outcome.UNAVAILABLE)
    return f"guardrail:{ended.guardrail}" if withheld else ended.reason


def completion_id(assembled: Assembled | None) -> str:
    """The `id` of the answer as its client saw it; empty where it has none that is one."""
    said = (assembled.own or assembled.completion).get("id") if assembled is not None else None
    return said if isinstance(said, str) and len(said) <= _MAX_ID_CHARACTERS else ""


def _error_kind(ended: Journey) -> str:
    """Why it failed, a code; empty where it did not."""
    if ended.outcome in (Outcome.HIT, Outcome.ANSWERED, Outcome.ABORTED):
        return ""
    if ended.outcome in (Outcome.REFUSED, Outcome.UNAVAILABLE):
        return ended.error[:_CODE_CHARACTERS]
    failed = [one.kind for one in ended.trail if one.kind is not None]
    if failed:
        return str(failed[-1])
    return f"status_{ended.status}" if ended.status else "internal"


def _trail(ended: Journey) -> str:
    """Write who was asked, as JSON; empty where only the one was that answered."""
    if not any(one.kind for one in ended.trail):
        return ""
    tried = [
        {
            "engine": one.engine,
            "replica": one.replica,
            "kind": one.kind,
            "status": one.status,
            "seconds": round(one.seconds, 3),
            "why": _without_keys(one.why)[:_ERROR_CHARACTERS],
        }
        for one in ended.trail
    ]
    return orjson.dumps({"tried": tried}).decode()


def _without_keys(text: str) -> str:
    for span in reversed(credentials(text)):
        text = f"{text[: span.start]}[{span.kind}]{text[span.end :]}"
    return text


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
