"""Turns a text into an embedding, within a deadline.

On the CPU texts are not batched: int8 scales depend on everything in the batch, so an embedding would depend on its
neighbours. A GPU computes f32, and up to 32 of the texts that wait are one inference: none waits for a batch to fill.
Each text is embedded once however many callers ask for it at the same time, and recent embeddings are cached. A caller
that waits longer than the deadline gets EmbedderLate and continues without an embedding. Where the weights come from is
the business of router/embedding/model.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
from concurrent.futures import CancelledError, Future
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import structlog
from cachetools import LRUCache

from router.deadline import Deadline
from router.embedding import model as embedding_model
from router.embedding.minilm_onnx import MASK
from router.embedding.model import EmbeddingModel, EmbeddingModelMissing
from router.embedding.onnx_session import NoGPU, OnnxSession, SessionBusy, require_gpu

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from router.embedding.onnx_session import Infer
    from store.records import Vector

    Pieces = npt.NDArray[np.int64]

T = TypeVar("T", str, list[int])
log = structlog.get_logger(__name__)

_BATCH_MOST = 32
"""Texts in one inference, where the model takes a batch."""

__all__ = [
    "BlockingEmbedder",
    "Embedder",
    "EmbedderBroken",
    "EmbedderError",
    "EmbedderLate",
    "EmbeddingModelMissing",
]


class EmbedderError(Exception):
    """There is no embedding of this text now. The request can be answered without one."""


class EmbedderLate(EmbedderError):
    """The deadline passed, the queue is full, or the embedder is closed."""


class EmbedderBroken(EmbedderError):
    """The model returned an unusable embedding: NaN, zero, or of the wrong size."""


class BlockingEmbedder(Protocol):
    """Embeds on the calling thread: an Embedder, or one that is opened when it is first used."""

    @property
    def version(self) -> str: ...

    def embed_blocking(self, text: str) -> Vector: ...


class _Work:
    """A text queued for or running in the session, and the number of callers that wait for it."""

    __slots__ = ("future", "given", "text", "waiters")

    def __init__(self, text: str, future: Future[Vector]) -> None:
        self.text = text
        self.future = future
        self.waiters = 0
        self.given: tuple[Pieces, Vector] | None = None
        """The text's word pieces and what the model gave for them, in the batch of a text that was queued before."""


class Embedder:
    """Sentence embeddings from an ONNX model on its own thread. Usable from any thread and any event loop."""

    def __init__(
        self,
        model: EmbeddingModel,
        *,
        deadline_ms: float | None = None,
        max_characters: int = 1500,
        max_tokens: int = 256,
        cache_entries: int = 4_096,
        queue_limit: int = 64,
        gpu: bool = False,
    ) -> None:
        """Loads `model` and runs it once.

        Raises ValueError if `max_tokens` is out of the model's range, and EmbedderBroken.
        """
        if not 3 <= max_tokens <= model.positions:
            raise ValueError(
                f"max_tokens is {max_tokens}; {model.version} reads between 3 and {model.positions}"
            )
        self.version = f"{model.version}/{max_tokens}t{max_characters}c/ends"
        """Changes whenever embeddings would: embeddings of different versions must never be compared."""
        self.dimensions = model.dimensions
        self.deadline_ms = deadline_ms
        """None: the measured one."""
        self.deadline = Deadline()
        self.tokenizer_file = model.tokenizer
        """A `tokenizer.json`; the order of its vocabulary tells how rare words are (router.examples.rarity)."""
        self._max_characters = max_characters
        self._max_tokens = max_tokens
        self._tokenizer = load_tokenizer(model.tokenizer)
        self._recent: LRUCache[bytes, Vector] = LRUCache(cache_entries)
        self._in_flight: dict[bytes, _Work] = {}
        self._lock = threading.Lock()
        # It needs numpy, which a gateway without a memory does without.
        from router.embedding.guess import Guess, word_pieces

        pieces = word_pieces(model.tokenizer.with_name("model.safetensors"))
        self._guess = None if pieces is None else Guess(pieces, model.dimensions)
        self.session = OnnxSession(model.model, name="embedder", queue_limit=queue_limit, gpu=gpu)
        self._batch_most = _BATCH_MOST if MASK in self.session.inputs else 1
        try:
            self.session.submit(lambda infer: self._compute("warm", infer)).result()
        except BaseException:
            self.session.close()
            raise

    @classmethod
    def open(
        cls,
        source: str,
        cache_dir: Path,
        *,
        deadline_ms: float | None = None,
        max_characters: int = 1500,
        max_tokens: int = 256,
        cache_entries: int = 4_096,
        queue_limit: int = 64,
        device: str = "cpu",
    ) -> Embedder:
        """The embedder for `source`: "package", "folder:PATH" or "hub:OWNER/NAME[@REVISION]".

        Blocks for some tenths of a second, or a few seconds when the model must first be built into
        `cache_dir`. `deadline_ms` bounds the wait of `embed`, queue included; None: by what an embedding takes here
        (router.deadline).
        `device`: "cpu", "cuda", or "auto", a GPU where one can be used; the log says where none can. A text is cut to
        `max_characters` before it is tokenised and to `max_tokens` after, both times from its middle. Raises
        EmbeddingModelMissing with the remedy, and what `__init__` raises.
        """
        gpu = _on_gpu(device)
        return cls(
            embedding_model.prepare(source, cache_dir, gpu=gpu),
            deadline_ms=deadline_ms,
            max_characters=max_characters,
            max_tokens=max_tokens,
            cache_entries=cache_entries,
            queue_limit=queue_limit,
            gpu=gpu,
        )

    async def embed(self, text: str) -> Vector:
        """The unit vector of `text`, float32 (dimensions,), read-only. A cached text costs no thread hop.

        Raises EmbedderLate after `deadline_ms`, at once when the queue is full, and after `close`; EmbedderBroken for
        an unusable embedding.
        """
        shortened = self._cut(text)
        key = _key(shortened)
        with self._lock:
            if (recent := self._recent.get(key)) is not None:
                return recent
            work = self._join(key, shortened, bounded=True)
        set_s = None if self.deadline_ms is None else self.deadline_ms / 1000
        try:
            return await self.deadline.wait(work.future, set_s)
        except CancelledError:
            raise EmbedderLate("the embedder was closed") from None
        except TimeoutError as late:
            raise EmbedderLate(str(late)) from None
        finally:
            self._leave(key, work)

    async def embed_later(self, text: str) -> Vector:
        """As `embed`, for work that can wait: it has no deadline and begins when no request's text waits or is embedded.

        Cached texts are found, but this one is not cached: a document must not push out what requests repeat. EmbedderLate
        only after `close`.
        """
        shortened = self._cut(text)
        with self._lock:
            recent = self._recent.get(_key(shortened))
        if recent is not None:
            return recent
        try:
            future = self.session.submit_later(lambda infer: self._compute(shortened, infer))
        except SessionBusy as busy:
            raise EmbedderLate(str(busy)) from None
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Vector] = loop.create_future()

        def wake(future: Future[Vector]) -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, waiter, future)

        future.add_done_callback(wake)
        try:
            return await waiter
        finally:
            future.cancel()

    def guessed(self, text: str) -> Vector | None:
        """The vector that `text` may have, for a request whose own is late (router.embedding.guess). None if not known.

        It is no embedding: nothing keeps it. Takes a tenth of a millisecond, on the calling thread.
        """
        return None if self._guess is None else self._guess.of(self.pieces(self._cut(text)))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Begin and end of each token of a whole text, in characters. Blocks for a millisecond or two per 10,000."""
        # As long as before: half a surrogate pair becomes one character.
        readable = text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
        found: list[tuple[int, int]] = self._tokenizer.encode(readable, add_special_tokens=False).offsets
        return found

    def pieces(self, text: str) -> Pieces:
        """The word pieces of a text, by their numbers in the vocabulary, as the model reads them."""
        import numpy as np

        return np.array(ends(self._tokenizer.encode(text).ids, self._max_tokens), np.int64)

    def embed_blocking(self, text: str) -> Vector:
        """As `embed`, without a deadline, for threads other than the event loop's. EmbedderLate only after `close`."""
        shortened = self._cut(text)
        key = _key(shortened)
        with self._lock:
            if (recent := self._recent.get(key)) is not None:
                return recent
            work = self._join(key, shortened, bounded=False)
        try:
            return work.future.result()
        except CancelledError:
            raise EmbedderLate("the embedder was closed") from None
        finally:
            self._leave(key, work)

    def close(self) -> None:
        """Ends the thread after the inference that runs now (tens of milliseconds). Waiting callers get EmbedderLate."""
        self.session.close()

    def _cut(self, text: str) -> str:
        shortened = ends(text, self._max_characters)
        # JSON can smuggle in half a surrogate pair, which no tokenizer accepts.
        return shortened if shortened.isascii() else shortened.encode("utf-8", "replace").decode("utf-8")

    def _join(self, key: bytes, text: str, *, bounded: bool) -> _Work:
        """The work for `text`, started by another caller or queued now. The caller holds the lock."""
        work = self._in_flight.get(key)
        if work is None:
            try:
                future = self.session.submit(lambda infer: self._embed_job(key, infer), bounded=bounded)
            except SessionBusy as busy:
                raise EmbedderLate(str(busy)) from None
            work = self._in_flight[key] = _Work(text, future)
        work.waiters += 1
        return work

    def _leave(self, key: bytes, work: _Work) -> None:
        """Removes a waiting caller. Work nobody waits for is dropped, unless it has begun: then its result is cached."""
        with self._lock:
            work.waiters -= 1
            if work.waiters == 0 and work.future.cancel() and self._in_flight.get(key) is work:
                del self._in_flight[key]

    def _embed_job(self, key: bytes, infer: Infer) -> Vector:
        with self._lock:
            work = self._in_flight[key]
            # None of them is being computed: there is one thread, and this is it.
            others = (one for one in self._in_flight.values() if one is not work and one.given is None)
            batch = [] if work.given else [work, *islice(others, self._batch_most - 1)]
        try:
            for one, given in zip(batch, self._infer([one.text for one in batch], infer), strict=True):
                one.given = given
            assert work.given is not None
            vector = self._checked(work.text, *work.given)
        except BaseException:
            with self._lock:
                self._in_flight.pop(key, None)
            raise
        with self._lock:
            if self._recent.maxsize > 0:
                self._recent[key] = vector
            self._in_flight.pop(key, None)
        return vector

    def _compute(self, text: str, infer: Infer) -> Vector:
        ((pieces, vector),) = self._infer([text], infer)
        return self._checked(text, pieces, vector)

    def _infer(self, texts: list[str], infer: Infer) -> list[tuple[Pieces, Vector]]:
        """Each text's word pieces and the vector that the model gives for them, by one inference; of no text, none."""
        import numpy as np

        pieces = [self.pieces(text) for text in texts]
        if self._batch_most == 1 or not texts:
            return [(ids, infer({"input_ids": ids[None, :]})[0][0]) for ids in pieces]
        ids = np.zeros((len(texts), max(map(len, pieces))), np.int64)
        mask = np.zeros(ids.shape, np.float32)
        for row, each in enumerate(pieces):
            ids[row, : len(each)], mask[row, : len(each)] = each, 1
        return list(zip(pieces, infer({"input_ids": ids, MASK: mask})[0], strict=True))

    def _checked(self, text: str, pieces: Pieces, vector: Vector) -> Vector:
        """A read-only copy of what the model gave for a text. Raises EmbedderBroken."""
        if vector.shape != (self.dimensions,) or not abs(float(vector @ vector) - 1) < 1e-3:
            raise EmbedderBroken(
                f"{self.version} gave a vector of shape {vector.shape} and squared length {float(vector @ vector)} "
                f"for a text of {len(text)} characters; it should be ({self.dimensions},) and 1"
            )
        # A row of the output would keep it alive, and many callers share one vector.
        vector = vector.copy()
        vector.flags.writeable = False
        if self._guess is not None:
            self._guess.learn(pieces, vector)
        return vector


def _on_gpu(device: str) -> bool:
    """Tell if embeddings are to be computed on a GPU. Raises EmbeddingModelMissing where one is required and absent."""
    if device == "cpu":
        return False
    try:
        require_gpu()
    except NoGPU as none:
        if device == "cuda":
            raise EmbeddingModelMissing(
                f"memory.examples.device is 'cuda', but {none}; 'cpu' is right"
            ) from none
        log.warning("embedder_on_cpu", reason=str(none))
        return False
    return True


def load_tokenizer(path: Path) -> Any:
    """A tokenizer that neither pads nor cuts."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    # The file comes with padding to, and truncation at, a length of its own.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def ends(whole: T, most: int) -> T:
    """The first and the last half of `most` characters or tokens: a prompt often asks its question last."""
    if len(whole) <= most:
        return whole
    head = most // 2
    return whole[:head] + whole[head - most :]


def _key(text: str) -> bytes:
    """The cache key of a text: 16 bytes instead of thousands of characters, and no prompt text kept in memory."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _settle(waiter: asyncio.Future[Vector], future: Future[Vector]) -> None:
    if waiter.done():
        return
    if future.cancelled():
        waiter.set_exception(EmbedderLate("the embedder was closed"))
    elif (failure := future.exception()) is not None:
        waiter.set_exception(failure)
    else:
        waiter.set_result(future.result())
