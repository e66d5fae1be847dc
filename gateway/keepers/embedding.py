"""Keeps answers of `POST /embeddings` for exact repeats: a small one at once, a large one on a thread of its own."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import orjson

from engines.answers.answer import Body
from engines.off_loop import LARGE_BYTES
from store.answers.exact_cache import ExactCache
from store.errors import StoreBusy
from store.records import ExactAnswer

_AT_ONCE = 64
"""Large answers that wait for the thread; further ones are not kept, and counted. Each may be as large as an entry."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """An answer with status 200 that came to its end and may be replayed."""

    key: bytes
    tenant: str
    contributor: str
    """As of Example.contributor."""
    request_id: str
    engine: str
    body: Body


class EmbeddingKeeper:
    """See the module. `follow` is told of every write (see gateway.recorder.Recorder.follow)."""

    def __init__(self, cache: ExactCache, follow: Callable[[str, Future[Any]], None]) -> None:
        self._cache = cache
        self._follow = follow
        self._lock = threading.Lock()
        self._under_way: dict[bytes, Future[None]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embeddings")

    def keep(self, answer: Embedded) -> None:
        """Keep an answer, now or soon. Never blocks, never raises."""
        if answer.body.size_bytes <= LARGE_BYTES and not answer.body.encoded:
            self._keep(answer)
            return
        try:
            with self._lock:
                if len(self._under_way) >= _AT_ONCE:
                    raise StoreBusy(f"{_AT_ONCE} large answers wait to be kept")
                keeping = self._under_way[answer.key] = self._thread.submit(self._keep, answer)
        except (StoreBusy, RuntimeError) as error:
            self._failed(error)
            return
        keeping.add_done_callback(lambda _: self._done(answer.key, keeping))

    def under_way(self, key: bytes) -> Future[None] | None:
        """Done once the answer of this key, which has come to its end, can be found."""
        return self._under_way.get(key)

    def settled(self) -> bool:
        """Tell if everything to be kept has been handed to the store."""
        with self._lock:
            return not self._under_way

    def close(self) -> None:
        """Hand over what waits, and end the thread. Blocks."""
        self._thread.shutdown()

    def _done(self, key: bytes, keeping: Future[None]) -> None:
        with self._lock:
            if self._under_way.get(key) is keeping:
                del self._under_way[key]

    def _keep(self, answer: Embedded) -> None:
        try:
            body = answer.body.decoded()
            if not _holds_vectors(body):
                return
            kept = ExactAnswer(body, answer.body.content_type, answer.engine, time.time())
            self._follow(
                "exact",
                self._cache.put(
                    answer.key,
                    answer.tenant,
                    kept,
                    request_id=answer.request_id,
                    contributor=answer.contributor,
                ),
            )
        except zlib.error:
            # In an encoding that nobody here reads, or too large.
            return
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        failed: Future[Any] = Future()
        failed.set_exception(error)
        self._follow("exact", failed)


def _holds_vectors(body: bytes) -> bool:
    """Tell if this is an answer with an embedding in every place, as numbers or in base64."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    data = answer.get("data") if isinstance(answer, dict) and "error" not in answer else None
    return isinstance(data, list) and bool(data) and all(map(_is_vector, data))


def _is_vector(item: Any) -> bool:
    vector = item.get("embedding") if isinstance(item, dict) else None
    return isinstance(vector, list | str) and bool(vector)
