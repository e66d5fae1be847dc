"""Keeps what was asked and answered for people to read: without secrets and private data, and of nobody who opted out.

Of requests that failed, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import orjson

from engines.answers.answer import Assembled
from engines.chat import message_text
from gateway.keepers.details import details_of, details_of_failure, own_details
from gateway.keepers.screening import Screen
from gateway.keepers.session import session_name
from router.finished import Finished, Journey, Outcome
from router.plan import Attempt
from router.shedding import NEVER, Loaded
from store.admission import Admission
from store.decisions.texts import RequestTextLog, RequestTexts, SentExample, digest_of
from store.records import TEXT_OF_KEY

_BETWEEN = "\x1e"
"""Stands between messages while they are searched as one text: so that the same value gets the same placeholder in all."""
_PREVIEW_CHARACTERS = 4000
_STABLE = ("system", "developer")
_BURST_S = 1.0
_TOO_MANY = 429


class Allowance:
    """CPU time that may be spent: a share of what goes by, saved up to a second of it. For one thread."""

    def __init__(self, share: float = 0.1, *, timer: Callable[[], float] = time.monotonic) -> None:
        self._share = share
        self._timer = timer
        self._left_s = _BURST_S
        self._since = timer()

    def open(self) -> bool:
        """Tell if anything is left."""
        now = self._timer()
        self._left_s = min(_BURST_S, self._left_s + (now - self._since) * self._share)
        self._since = now
        return self._left_s > 0.0

    def spend(self, seconds: float) -> None:
        """Take something away; it may go below nothing."""
        self._left_s -= seconds


class TextKeeper:
    """Keeps the texts of requests. Examples that were sent along are named, not copied: they go when they go.

    Reading texts for secrets takes about a millisecond each, which `allowance` bounds: when requests come faster than
    that, some are kept without their texts, and counted as `busy`. Of a longer request than `max_bytes` the latest messages
    are kept; a longer answer is cut.
    """

    def __init__(
        self,
        texts: RequestTextLog,
        admission: Admission,
        allowance: Allowance,
        *,
        max_bytes: int = 64 * 1024,
        opted_out_keys: Collection[str] = (),
        load: Loaded = NEVER,
    ) -> None:
        self._load = load
        self._texts = texts
        self._admission = admission
        self._screen = Screen(admission)
        self._allowance = allowance
        self._max_characters = max_bytes
        self._opted_out_keys = frozenset(opted_out_keys)
        self._gathered: list[RequestTexts] = []

    def keep(self, finished: Finished) -> str:
        """Keep them, with the next `write`. Gives why not (store.records.RequestRecord.no_text); empty where they are."""
        if refusal := self._refusal(finished):
            return refusal
        if _is_repeat(finished):
            return self._keep_own(finished)
        began = time.thread_time()
        texts = self._texts_of(finished)
        self._allowance.spend(time.thread_time() - began)
        if isinstance(texts, str):
            return texts
        self._gathered.append(texts)
        return ""

    def write(self) -> Iterator[tuple[str, Future[Any], int]]:
        """See Gathering."""
        gathered, self._gathered = self._gathered, []
        if gathered:
            yield "text", self._texts.keep(*gathered), len(gathered)

    def failure(self, ended: Journey) -> Future[None] | None:
        """The same of a failure that never reached the pipeline: only what was said of it. None where nothing is kept."""
        arrival = ended.arrival
        if not ended.stored or ended.guardrail or arrival.key_id in self._opted_out_keys:
            return None
        if not self._allowance.open() or self._load.sheds("details"):
            return None
        began = time.thread_time()
        details = details_of_failure(ended, self._screen)
        self._allowance.spend(time.thread_time() - began)
        if details is None:
            return None
        by = f"{arrival.key_id or ''}/{arrival.user}" if arrival.key_id or arrival.user else ""
        texts = RequestTexts(arrival.tenant, arrival.id, by, arrival.started_at_s, details=details)
        return self._texts.keep(texts)

    def _refusal(self, finished: Finished) -> str:
        if finished.asked.controls.no_store:
            return "opted_out"
        if finished.arrival.key_id in self._opted_out_keys:
            return "opted_out_key"
        if _is_repeat(finished):
            return "" if finished.exact_key is not None else "repeat"
        if not finished.remember:
            return "opted_out_model"
        if finished.outcome is Outcome.REFUSED and finished.status == _TOO_MANY:
            # Who asks too much and goes on asking must not push out what others were told.
            return "limited"
        if self._load.sheds("texts"):
            return "shed"
        return "" if self._allowance.open() else "busy"

    def _texts_of(self, finished: Finished) -> RequestTexts | str:
        arrival, chat, assembled = finished.arrival, finished.asked.chat, finished.assembled
        by = finished.asked.contributor
        flat = [_flat(message) for message in chat.messages]
        left_out, cut = _too_many(flat, self._max_characters), 0
        if left_out and left_out == len(flat):
            # Rather the beginning of the last one than nothing.
            left_out -= 1
            cut = len(flat[-1].text) - self._max_characters
            flat[-1] = replace(flat[-1], text=flat[-1].text[: self._max_characters])
        said = _said(assembled)[: self._max_characters]
        asked_texts = [one.text for one in flat[left_out:]]
        verdict = self._admission.screened(_BETWEEN.join(asked_texts), said)
        if not verdict.admitted:
            return verdict.reason or "refused"
        shown = verdict.question.split(_BETWEEN)
        if len(shown) != len(flat) - left_out:
            return "private_data"
        messages = tuple(
            {"role": one.role, "text": text} | ({"also": one.also} if one.also else {})
            for one, text in zip(flat[left_out:], shown, strict=True)
        )
        asked = next((m["text"] for m in reversed(messages) if m["role"] == "user"), "")
        sent_at, sent = _sent(chat.messages, finished.attempt, left_out)
        details = details_of(
            finished,
            self._screen,
            {**dict(zip(asked_texts, shown, strict=True)), said: verdict.answer},
            answer=said,
            left_out=left_out,
            cut=cut,
            max_characters=self._max_characters,
        )
        return RequestTexts(
            arrival.tenant,
            arrival.id,
            by,
            arrival.started_at_s,
            question=str(asked)[:_PREVIEW_CHARACTERS],
            answer=verdict.answer,
            messages=messages,
            left_out=left_out,
            cut=cut,
            replaced=verdict.redacted,
            sent_at=sent_at,
            sent=sent,
            finish_reason=assembled.finish_reason() if assembled is not None else "",
            same=finished.exact_key,
            details=details,
        )

    def _keep_own(self, finished: Finished) -> str:
        """Of a repeat only who asked it, in which conversation: the rest is kept under its exact key already."""
        arrival, asked = finished.arrival, finished.asked
        named = bool(asked.user or session_name(asked))
        if named and not self._load.sheds("details") and self._allowance.open():
            details = own_details(finished, self._screen)
            by = asked.contributor
            own = RequestTexts(
                arrival.tenant, arrival.id, by, arrival.started_at_s, same=finished.exact_key, details=details
            )
            self._gathered.append(own)
        return TEXT_OF_KEY


def _is_repeat(finished: Finished) -> bool:
    """Tell if another request's texts are its own. A similar question has words of its own."""
    return finished.hit is not None and finished.reused_example is None


@dataclass(frozen=True, slots=True)
class _Flat:
    role: str
    text: str
    also: tuple[str, ...]
    """Kinds of parts that are no text."""


def _flat(message: Mapping[str, Any]) -> _Flat:
    content = message.get("content")
    text = message_text(content)
    if message.get("tool_calls"):
        text += orjson.dumps(message["tool_calls"]).decode()
    parts = content if isinstance(content, list) else []
    kinds = dict.fromkeys(str(p.get("type"))[:40] for p in parts if isinstance(p, dict))
    # Half a surrogate pair is no text to SQLite.
    whole = text.replace(_BETWEEN, " ").replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    return _Flat(str(message.get("role"))[:40], whole, tuple(k for k in kinds if k != "text"))


def _too_many(flat: Sequence[_Flat], characters: int) -> int:
    """How many of the first messages do not fit."""
    left = characters
    for place in range(len(flat) - 1, -1, -1):
        left -= len(flat[place].text)
        if left < 0:
            return place + 1
    return 0


def _said(assembled: Assembled | None) -> str:
    if assembled is None:
        return ""
    text = assembled.text()
    if assembled.calls_tools():
        calls = [(c.get("message") or {}).get("tool_calls") for c in assembled.choices()[:1]]
        text += orjson.dumps(calls[0]).decode() if calls and calls[0] else ""
    return text.encode("utf-8", "replace").decode()


def _sent(
    messages: Sequence[Mapping[str, Any]], attempt: Attempt | None, left_out: int
) -> tuple[int | None, tuple[SentExample, ...]]:
    """Give where the examples stood among the kept messages, and which they were: see router.prompt.with_examples."""
    if attempt is None or not attempt.examples:
        return None, ()
    lead = 0
    while lead < len(messages) and messages[lead].get("role") in _STABLE:
        lead += 1
    sent = tuple(
        SentExample(c.example.id, digest_of(c.example.question, c.example.answer)) for c in attempt.examples
    )
    return max(0, lead - left_out), sent
