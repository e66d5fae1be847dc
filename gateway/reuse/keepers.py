"""What semantic reuse makes of finished answers: compare, then keep what may be reused. On the recorder's thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Protocol

import orjson

from engines.answers.answer import Assembled
from gateway.keepers.keeper import Keeper, Kept
from gateway.reuse.metrics import SemanticMetrics
from gateway.reuse.stage import SemanticStage
from learning.reuse.equivalence import Equivalence
from router.finished import Finished
from store.records import ExactAnswer


class Comparer:
    """Compares the fresh answer with the remembered one, where that is owed."""

    def __init__(self, equivalent: Equivalence, metrics: SemanticMetrics) -> None:
        self._equivalent = equivalent
        self._metrics = metrics

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper. Must stand before the keeper of examples."""
        stage, assembled = finished.reuse, finished.assembled
        if not isinstance(stage, SemanticStage) or stage.comparison is None:
            return
        comparison = stage.comparison
        if not _answered_by_the_reference(finished):
            comparison.abandoned()
            self._metrics.comparisons.labels("abandoned").inc()
            return
        right = None
        try:
            # An answer that came whole but is not a plain one (too long, cut short, a refusal to be read) is no agreement.
            if assembled is not None and _plain(assembled):
                right = self._equivalent(stage.ask.question, comparison.entry.text, assembled.text())
        finally:
            stage.agreed = right is True
            self._metrics.comparisons.labels("right" if right else "wrong").inc()
            written = comparison.proofs.observed(
                comparison.decision, comparison.entry.id, comparison.similarity, right
            )
        for future in written:
            yield "semantic", future


class UnlessAgreed:
    """A keeper that is passed over where the remembered answer stands for the fresh one already."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper."""
        if isinstance(finished.reuse, SemanticStage) and finished.reuse.agreed:
            yield "example", "semantic_agreed"
            return
        yield from self._keeper.keep(finished)


class Entries(Protocol):
    """What is needed of store.answers.semantic_entries.SemanticEntries."""

    def add(
        self,
        tenant: str,
        request_id: str,
        same_otherwise: bytes,
        question: str,
        answer: ExactAnswer,
        text: str,
    ) -> Future[Any]: ...


class EntryKeeper:
    """Keeps the whole answer of a pair that has become an example, so that it can be given out as it was."""

    def __init__(
        self,
        entries: Entries,
        *,
        max_bytes: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._entries = entries
        self._max_bytes = max_bytes
        self._clock = clock

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper. Must stand behind the keeper of examples: the entry hangs on the example."""
        stage, assembled, sent = finished.reuse, finished.assembled, finished.body
        if (
            not isinstance(stage, SemanticStage)
            or stage.agreed
            or finished.hit is not None
            or assembled is None
        ):
            return
        if not (_answered_by_the_reference(finished) and _plain(assembled)) or finished.replay_forbidden:
            return
        body = orjson.dumps(assembled.completion) if sent.streamed else sent.decoded()
        if len(body) > self._max_bytes:
            return
        kept = ExactAnswer(
            body,
            "application/json" if sent.streamed else sent.content_type,
            finished.engine,
            self._clock(),
            usage_estimated=assembled.usage() is None,
        )
        ask = stage.ask
        yield (
            "semantic_entry",
            self._entries.add(
                ask.tenant, finished.arrival.id, ask.same_otherwise(), ask.question, kept, assembled.text()
            ),
        )


def _answered_by_the_reference(finished: Finished) -> bool:
    """To its end, with success, without examples of ours, and not as a stand-in."""
    return (
        finished.complete and finished.status == 200 and finished.from_reference and not finished.by_stand_in
    )


def _plain(assembled: Assembled) -> bool:
    choices = assembled.choices()
    return (
        assembled.whole
        and len(choices) == 1
        and assembled.finish_reason() == "stop"
        and not assembled.calls_tools()
        and bool(assembled.text())
        and not (choices[0].get("message") or {}).get("refusal")
    )


def around(examples: Keeper, comparer: Keeper, entries: Keeper) -> list[Keeper]:
    """Return the keeper of examples between the two that belong to reuse, in the order in which they must run."""
    return [comparer, UnlessAgreed(examples), entries]
