"""Notes that an answer was asked for anew, which says a little against it. Off by default: it may mean something else."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import orjson
from cachetools import TTLCache

from gateway.keepers.keeper import Kept
from router.asked import Asked
from router.finished import Finished
from store.decisions.outcomes import Outcomes
from store.records import OutcomeRecord

QUALITY = 0.4
"""Of an answer that was asked for anew: hardly less than the 0.5 of knowing nothing. People also do it out of curiosity."""
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _Answer:
    request_id: str
    engine: str
    example_ids: tuple[int, ...]
    seed: object


class RegeneratedKeeper:
    """Notes a weak implicit outcome when the same key asks the same again within `within_s` seconds, and means it.

    It means it when it asks past the cache (`Cache-Control: no-cache`) or with another seed; a mere repetition may be a
    retry of the client's library. A program that samples several answers on purpose looks just the same, which is why
    this is for installations where people press a button. Remembers digests, in this process, for `within_s` only.
    """

    def __init__(
        self, outcomes: Outcomes, *, within_s: float = 60.0, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._outcomes = outcomes
        self._answers: TTLCache[bytes, _Answer] = TTLCache(_REMEMBERED, within_s, timer=timer)

    def keep(self, finished: Finished) -> Iterator[Kept]:
        """See Keeper."""
        if (
            finished.hit is not None
            or finished.attempt is None
            or finished.asked.controls.no_store
            or not finished.complete
            or finished.failed_over is not None
        ):
            return
        arrival, asked = finished.arrival, finished.asked
        question = _digest(asked)
        before = self._answers.get(question)
        seed = asked.chat.fields.get("seed")
        self._answers[question] = _Answer(arrival.id, finished.attempt.engine, finished.example_ids, seed)
        if before is None or not (asked.controls.no_cache or seed != before.seed):
            return
        yield (
            "regenerated",
            self._outcomes.note(
                OutcomeRecord(
                    request_id=before.request_id,
                    tenant=arrival.tenant,
                    at_s=arrival.started_at_s,
                    source="implicit",
                    key="regenerated",
                    engine=before.engine,
                    example_ids=before.example_ids,
                    served=True,
                    quality=QUALITY,
                    detail='{"how":"regenerated"}',
                )
            ),
        )


def _digest(asked: Asked) -> bytes:
    """Of who asks what of which model. Other fields than the messages may differ: temperature, for one."""
    chat, arrival = asked.chat, asked.arrival
    who = [arrival.tenant, arrival.key_id, asked.contributor, chat.model]
    return hashlib.blake2b(
        orjson.dumps([who, chat.messages], option=orjson.OPT_SORT_KEYS), digest_size=16
    ).digest()
