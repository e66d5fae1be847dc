"""Runs one ONNX model on its own thread, behind a bounded queue, on the CPU.

Inference blocks for milliseconds, so it must not run on the event loop; two inferences at once on one core only delay
both, so they run one after the other. A job gets a function from named arrays to arrays and knows what the model means.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy.typing as npt

    Infer = Callable[[Mapping[str, npt.NDArray[Any]]], list[npt.NDArray[Any]]]
    """From input names and arrays to the model's outputs, in their declared order."""

T = TypeVar("T")


class SessionBusy(Exception):
    """The queue of the session is full, or the session is closed."""


class OnnxSession:
    """Owns an ONNX session and its thread; `close` ends both. Any thread may submit jobs."""

    def __init__(
        self,
        model: Path,
        *,
        name: str,
        intra_threads: int = 1,
        queue_limit: int = 64,
    ) -> None:
        """Loads `model` (tens of milliseconds for tens of megabytes)."""
        self._session = load(model, intra_threads)
        self.name = name
        self.queue_limit = queue_limit
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"onnx-{name}")
        self._lock = threading.Lock()
        self._pending = 0
        self._later: deque[tuple[Callable[[Infer], Any], Future[Any]]] = deque()
        self._closed = False

    @property
    def pending(self) -> int:
        """Number of jobs waiting or running."""
        return self._pending

    @property
    def inputs(self) -> dict[str, list[Any]]:
        """Shapes of the model's inputs by name; an axis of any length is a name or None."""
        return {port.name: list(port.shape) for port in self._session.get_inputs()}

    def submit(self, job: Callable[[Infer], T], *, bounded: bool = True) -> Future[T]:
        """Queues `job`, which is called on the session's thread with a function that runs the model.

        Cancelling the future frees its place at once, unless the job has begun. Raises SessionBusy after `close`, and
        when `queue_limit` jobs are pending unless `bounded` is False (for background threads that wait for each result
        and so limit themselves).
        """
        with self._lock:
            if bounded and self._pending >= self.queue_limit:
                raise SessionBusy(
                    f"{self.name}: {self._pending} jobs are waiting, the limit is {self.queue_limit}"
                )
            self._pending += 1
        try:
            future = self._pool.submit(job, self._infer)
        except RuntimeError:
            self._leave(None)
            raise SessionBusy(f"{self.name}: the session is closed") from None
        future.add_done_callback(self._leave)
        return future

    def submit_later(self, job: Callable[[Infer], T]) -> Future[T]:
        """As `submit`, behind everything else: `job` begins when no other job waits or runs, so that one that is submitted
        waits for at most one of these. They are not bounded and not among `pending` before they begin. Raises SessionBusy
        after `close`."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise SessionBusy(f"{self.name}: the session is closed")
            self._later.append((job, future))
        self._begin_later()
        return future

    def close(self) -> None:
        """Cancels waiting jobs, lets the running one finish and ends the thread. May be called twice."""
        with self._lock:
            self._closed = True
            later = list(self._later)
            self._later.clear()
        for _, future in later:
            future.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _begin_later(self) -> None:
        with self._lock:
            if self._pending or not self._later:
                return
            job, future = self._later.popleft()
            self._pending += 1
        try:
            begun = self._pool.submit(self._run_later, job, future)
        except RuntimeError:
            future.cancel()
            self._leave(None)
            return
        # One that `close` cancels before it began tells nobody by itself.
        begun.add_done_callback(lambda ended: ended.cancelled() and future.cancel())
        begun.add_done_callback(self._leave)

    def _run_later(self, job: Callable[[Infer], T], future: Future[T]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = job(self._infer)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _infer(self, feeds: Mapping[str, npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
        outputs: list[npt.NDArray[Any]] = self._session.run(None, dict(feeds))
        return outputs

    def _leave(self, _: object) -> None:
        with self._lock:
            self._pending -= 1
        if self._later:
            self._begin_later()


def load(model: Path | bytes, intra_threads: int = 1) -> Any:
    """An ONNX session on the CPU, for use on the caller's thread."""
    onnxruntime = import_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = intra_threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Inputs of every length pass through, so an arena would keep room for the longest; without it nothing is slower.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    # A large model comes by path: given as bytes it stays in memory a second time.
    source = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def import_onnxruntime() -> ModuleType:
    """onnxruntime, imported on first use. Raises ImportError where importing it would crash the process."""
    if "usearch" in sys.modules and "onnxruntime" not in sys.modules:
        # usearch loads its kernels with RTLD_GLOBAL; onnxruntime then binds to them and dies of SIGSEGV.
        raise ImportError("usearch was imported before onnxruntime, which crashes: import onnxruntime first")
    import onnxruntime

    return onnxruntime  # type: ignore[no-any-return]
