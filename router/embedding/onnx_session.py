"""Runs one ONNX model on its own thread, behind a bounded queue, on the CPU; what can wait on another, of low priority.

Inference blocks for milliseconds, so it must not run on the event loop; two inferences at once on one core only delay
both, so they run one after the other. A job gets a function from named arrays to arrays and knows what the model means.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    import numpy.typing as npt

    Infer = Callable[[Mapping[str, npt.NDArray[Any]]], list[npt.NDArray[Any]]]
    """From input names and arrays to the model's outputs, in their declared order."""

T = TypeVar("T")


class NoGPU(Exception):
    """A GPU was asked for and cannot be used. The text says why."""


class SessionBusy(Exception):
    """The queue of the session is full, or the session is closed."""


_BROKEN_OFF_MOST = 3
"""One that was broken off so often runs to its end: what can wait must not wait for ever."""

_LOWEST_PRIORITY = 19
_CUDA = "CUDAExecutionProvider"


class _Later(Generic[T]):
    """A job that can wait."""

    __slots__ = ("broken_off", "future", "job")

    def __init__(self, job: Callable[[Infer], T]) -> None:
        self.job = job
        self.future: Future[T] = Future()
        self.broken_off = 0


class OnnxSession:
    """Owns an ONNX session and its thread; `close` ends both. Any thread may submit jobs."""

    def __init__(
        self,
        model: Path,
        *,
        name: str,
        intra_threads: int = 1,
        queue_limit: int = 64,
        gpu: bool = False,
    ) -> None:
        """Loads `model` (tens of milliseconds for tens of megabytes)."""
        self._session = load(model, intra_threads, gpu=gpu)
        self.name = name
        self.queue_limit = queue_limit
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"onnx-{name}")
        self._lock = threading.Lock()
        self._pending = 0
        self._later: deque[_Later[Any]] = deque()
        self._gives_way: Any = None
        """The options of the inference under way that can wait."""
        self._later_pool: ThreadPoolExecutor | None = None
        self._later_runs = False
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
            if self._gives_way is not None:
                self._gives_way.terminate = True
        try:
            future = self._pool.submit(job, self._infer)
        except RuntimeError:
            self._leave(None)
            raise SessionBusy(f"{self.name}: the session is closed") from None
        future.add_done_callback(self._leave)
        return future

    def submit_later(self, job: Callable[[Infer], T]) -> Future[T]:
        """As `submit`, for what can wait: `job` begins when no other job waits or runs, on a thread of low priority.

        One that is submitted meanwhile does not wait for it: the inference under way is broken off, and `job` is called
        again later, up to three times. Such jobs are not bounded and not among `pending`. Raises SessionBusy after `close`.
        """
        later: _Later[T] = _Later(job)
        with self._lock:
            if self._closed:
                raise SessionBusy(f"{self.name}: the session is closed")
            self._later.append(later)
        self._begin_later()
        return later.future

    def close(self) -> None:
        """Cancels waiting jobs, lets the running one finish and ends the thread. May be called twice."""
        with self._lock:
            self._closed = True
            later, pool = list(self._later), self._later_pool
            self._later.clear()
            if self._gives_way is not None:
                self._gives_way.terminate = True
        for one in later:
            one.future.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if pool is not None:
            pool.shutdown(wait=True)

    def _begin_later(self) -> None:
        with self._lock:
            if self._pending or self._later_runs or self._closed or not self._later:
                return
            later, self._later_runs = self._later.popleft(), True
            if self._later_pool is None:
                name = f"onnx-{self.name}-later"
                self._later_pool = ThreadPoolExecutor(
                    1, thread_name_prefix=name, initializer=_with_low_priority
                )
            self._later_pool.submit(self._run_later, later)

    def _run_later(self, later: _Later[Any]) -> None:
        try:
            # Not marked as running before it has ended: whoever waits may leave at any time.
            if not later.future.cancelled():
                self._try_later(later)
        finally:
            with self._lock:
                self._later_runs = False
            self._begin_later()

    def _try_later(self, later: _Later[Any]) -> None:
        options = import_onnxruntime().RunOptions() if later.broken_off < _BROKEN_OFF_MOST else None
        with self._lock:
            if options is not None and self._pending:
                options.terminate = True
            self._gives_way = options
        result, error = None, None
        try:
            result = later.job(partial(self._infer, options=options))
        except BaseException as raised:
            error = raised
        with self._lock:
            self._gives_way = None
            if error is not None and options is not None and options.terminate:
                later.broken_off += 1
                if self._closed:
                    later.future.cancel()
                else:
                    self._later.appendleft(later)
                return
        if not later.future.set_running_or_notify_cancel():
            return
        if error is not None:
            later.future.set_exception(error)
        else:
            later.future.set_result(result)

    def _infer(self, feeds: Mapping[str, npt.NDArray[Any]], options: Any = None) -> list[npt.NDArray[Any]]:
        outputs: list[npt.NDArray[Any]] = self._session.run(None, dict(feeds), options)
        return outputs

    def _leave(self, _: object) -> None:
        with self._lock:
            self._pending -= 1
        if self._later:
            self._begin_later()


def _with_low_priority() -> None:
    """Lower this thread's priority, so that everything else on the machine goes before it."""
    # Of a thread on Linux; elsewhere it would be the whole process, and where it may not be changed nothing is lost.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)


def load(model: Path | bytes, intra_threads: int = 1, *, gpu: bool = False) -> Any:
    """An ONNX session for use on the caller's thread: on the CPU, or on a GPU where there is a kernel for it."""
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
    providers = [_CUDA, "CPUExecutionProvider"] if gpu else ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(source, options, providers=providers)


def require_gpu() -> None:
    """Raise NoGPU unless onnxruntime can run a model on a GPU here."""
    if _CUDA not in import_onnxruntime().get_available_providers():
        raise NoGPU("the installed onnxruntime has no CUDA: install the extra gpu (onnxruntime-gpu)")
    from onnx import TensorProto, helper

    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "probe", ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 20)]
    probe = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    # Where its libraries or the GPU are missing, onnxruntime goes on with the CPU without an error.
    if _CUDA not in load(probe, gpu=True).get_providers():
        raise NoGPU("onnxruntime found no GPU, or not the CUDA and cuDNN libraries that it needs")


def import_onnxruntime() -> ModuleType:
    """onnxruntime, imported on first use. Raises ImportError if importing it would crash the process."""
    if "usearch" in sys.modules and "onnxruntime" not in sys.modules:
        # usearch loads its kernels with RTLD_GLOBAL; onnxruntime then binds to them and dies of SIGSEGV.
        raise ImportError("usearch was imported before onnxruntime, which crashes: import onnxruntime first")
    import onnxruntime

    return onnxruntime  # type: ignore[no-any-return]
