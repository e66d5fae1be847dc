"""Which answers may become examples: a chain of small named rules, each with its reason, cheapest first.

Costs CPU in proportion to the text and runs off the request path, on whichever thread calls: any number of threads may share
one Admission. See docs/explanation/admission.md for the rules' reasons and measurements.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from cachetools import LRUCache

from store.admission import contributors
from store.admission.credentials import credentials
from store.admission.cutting import cut
from store.admission.instructions import instructions
from store.admission.pair import AdmissionSettings, Pair, TwinOf, Verdict
from store.admission.private_data import private_data
from store.admission.spans import Redacted, Span, TooMany, redacted

_SHORT, _CLEAN = 64, 1000
"""Characters up to which a text is short, and how many short ones are remembered."""

Rule = Callable[[Pair, AdmissionSettings], bool]
"""Whether to refuse."""


def _wrong_engine(f: Pair, settings: AdmissionSettings) -> bool:
    allowed = settings.engines
    if "any" in allowed or f.origin in allowed:
        return False
    good = f.quality is not None and f.quality >= settings.good_quality
    return not (f.from_reference and "reference" in allowed) and not (good and "judged_good" in allowed)


def _judged_bad(f: Pair, settings: AdmissionSettings) -> bool:
    return f.quality is not None and f.quality < 1 - settings.good_quality


def _too_long(f: Pair, settings: AdmissionSettings) -> bool:
    limit = settings.max_characters
    return len(f.question) > limit or len(f.answer) > limit


def _too_short(f: Pair, settings: AdmissionSettings) -> bool:
    return (
        len(f.question.strip()) < settings.min_question_characters
        or len(f.answer.strip()) < settings.min_answer_characters
    )


def _not_text(f: Pair, settings: AdmissionSettings) -> bool:
    return any(
        "\ud800" <= c <= "\udfff" or c == "\0"
        for t in (f.question, f.answer)
        if not t.isascii() or "\0" in t
        for c in t
    )


FORM_RULES: tuple[tuple[str, Rule], ...] = (
    ("opted_out", lambda f, s: f.opted_out),
    ("opted_out_key", lambda f, s: f.key_opted_out),
    ("opted_out_model", lambda f, s: f.model_opted_out),
    ("error", lambda f, s: not 200 <= f.status < 300),
    ("incomplete", lambda f, s: not f.complete),
    ("not_the_reference", _wrong_engine),
    ("judged_bad", _judged_bad),
    ("several_choices", lambda f, s: f.choices != 1),
    ("tool_calls", lambda f, s: f.calls_tools or f.offers_tools),
    ("not_plain_text", lambda f, s: not f.plain_text),
    ("follow_up", lambda f, s: f.follow_up and not s.follow_ups and f.origin != "demonstration"),
    ("cut_short", lambda f, s: f.finish_reason != "stop"),
    ("empty", lambda f, s: not f.question.strip() or not f.answer.strip()),
    ("too_short", _too_short),
    ("too_long", _too_long),
    ("not_text", _not_text),
)
"""(reason to refuse, test), in order: who said no comes first, what it costs to find out grows."""

REASONS: tuple[str, ...] = (
    *(reason for reason, _ in FORM_RULES),
    *("contributor_cap", "contributor_rate", "secrets", "instructions", "private_data", "hollow_answer"),
    "near_duplicate",
)
"""Every reason to refuse, in the order in which the rules are asked. Only the first that applies is given."""


class Admission:
    """The whole chain under fixed settings. Thread-safe; it remembers nothing but short texts in which nothing was found."""

    def __init__(self, settings: AdmissionSettings) -> None:
        self.settings = settings
        self._clean: LRUCache[tuple[str, str], bool] = LRUCache(_CLEAN)
        self._lock = threading.Lock()
        self._public = _Public(self.settings.public)

    def judge(self, finished: Pair, twin_of: TwinOf | None = None, now_s: float | None = None) -> Verdict:
        """Admitted or not, and with what text. Never raises for what a client or an engine may have written.

        Around a millisecond of CPU for an ordinary pair, linear in its length; the search itself holds no GIL. `twin_of`
        is called at most once, last, with the embedded text. `now_s` is seconds since the epoch.
        """
        settings = self.settings
        reason = form_refusal(finished, settings)
        if reason is None and finished.contributor is not None:
            reason = contributors.refusal(finished.contributor, settings.contributors)
        verdict = Verdict(reason) if reason is not None else self._read(finished.question, finished.answer)
        if not verdict.admitted:
            return verdict
        held = None
        if finished.contributor is not None:
            now_s = time.time() if now_s is None else now_s
            held = contributors.held_until_s(finished.contributor, settings.contributors, now_s)
        verdict = replace(verdict, held_until_s=held)
        return _beside_its_twin(verdict, twin_of, settings)

    def screened(self, question: str, answer: str) -> Verdict:
        """Texts that are to be kept for people to read, not to be shown to an engine: only for secrets and private data.

        Costs as `judge` does. The verdict's texts are those to keep; nothing is asked about form or worth.
        """
        found = self._redacted(question, answer)
        if isinstance(found, Verdict):
            return found
        return Verdict(None, "", found.question, found.answer, "", found.kinds)

    def may_keep_instructions(self, text: str) -> bool:
        """Whether what a scope stands for may be kept, to ask its examples again: refused whole, never redacted."""
        settings = self.settings
        if len(text) > settings.max_characters:
            return False
        if settings.secrets != "off" and credentials(text):
            return False
        return settings.private_data == "off" or not self._public.without(private_data(text))

    def _read(self, question: str, answer: str) -> Verdict:
        found = self._redacted(question, answer, instructed=self.settings.instructions == "refuse")
        return found if isinstance(found, Verdict) else self._kept(found)

    def _redacted(self, question: str, answer: str, *, instructed: bool = False) -> Redacted | Verdict:
        settings = self.settings
        texts = (question, answer)
        none: tuple[list[Span], list[Span]] = ([], [])
        secret = (
            none
            if settings.secrets == "off"
            else (self._found(credentials, question), self._found(credentials, answer))
        )
        if any(secret) and settings.secrets == "refuse":
            return Verdict("secrets", _kinds(secret))
        if instructed:
            family = next(filter(None, map(instructions, texts)), None)
            if family is not None:
                return Verdict("instructions", family)
        private = none
        if settings.private_data != "off":
            private = (
                self._public.without(self._found(private_data, question)),
                self._public.without(self._found(private_data, answer)),
            )
        if any(private) and settings.private_data == "refuse":
            return Verdict("private_data", _kinds(private))
        try:
            return redacted(question, answer, secret[0] + private[0], secret[1] + private[1])
        except TooMany:
            return Verdict("private_data", "too_many")

    def _found(self, search: Callable[[str], list[Span]], text: str) -> list[Span]:
        """What a search finds. A task's answers are the same few words again and again."""
        if not text or len(text) > _SHORT:
            return search(text) if text else []
        with self._lock:
            clean = self._clean.get((search.__name__, text), False)
        found = [] if clean else search(text)
        if not found and not clean:
            with self._lock:
                self._clean[search.__name__, text] = True
        return found

    def _kept(self, clean: Redacted) -> Verdict:
        if clean.hollow:
            return Verdict("hollow_answer", " ".join(clean.kinds))
        embedded = cut(clean.question, self.settings.embedded_characters)
        return Verdict(None, "", clean.question, clean.answer, embedded, clean.kinds)


class _Public:
    """What may be kept although it looks private. Raises ValueError for an entry that nothing would find anyway."""

    def __init__(self, entries: frozenset[str]) -> None:
        self._domains = tuple(e.casefold() for e in entries if e.startswith("@"))
        found = {entry: private_data(entry) for entry in entries if not entry.startswith("@")}
        for entry, spans in found.items():
            if not spans:
                raise ValueError(
                    f"{entry!r} does not look like private data: give a whole phone number with its country code, "
                    "a mail or street address, or a mail domain such as '@acme.com'"
                )
        self._values = {(span.kind, span.key) for spans in found.values() for span in spans}

    def without(self, spans: list[Span]) -> list[Span]:
        if not (self._domains or self._values):
            return spans
        return [s for s in spans if (s.kind, s.key) not in self._values and not self._of_a_domain(s)]

    def _of_a_domain(self, span: Span) -> bool:
        return span.kind == "EMAIL" and span.key.endswith(self._domains or ("\0",))


def form_refusal(finished: Pair, settings: AdmissionSettings) -> str | None:
    """The first rule about form, sender or outcome that refuses, or None. Reads no text."""
    return next((reason for reason, refuses in FORM_RULES if refuses(finished, settings)), None)


def _beside_its_twin(verdict: Verdict, twin_of: TwinOf | None, settings: AdmissionSettings) -> Verdict:
    twin = None if twin_of is None else twin_of(verdict.embedded_text)
    if twin is None or twin.similarity < settings.twin_similarity:
        return verdict
    if twin.agrees:
        return Verdict("near_duplicate", twin=twin.id)
    return replace(verdict, twin=twin.id)


def _kinds(found: tuple[list[Span], list[Span]]) -> str:
    return " ".join(sorted({span.kind for spans in found for span in spans}))
