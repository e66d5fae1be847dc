"""One session, one thread, a bounded queue, and the processor that was asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from router.embedding.onnx_session import OnnxSession, SessionBusy


@pytest.fixture
def doubler(tmp_path: Path) -> Path:
    """A model that gives twice its input."""
    two = numpy_helper.from_array(np.array(2, np.float32), "two")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "two"], ["y"])], "doubler", ports[:1], ports[1:], [two]
    )
    path = tmp_path / "doubler.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


@pytest.fixture
def session(doubler: Path) -> Iterator[OnnxSession]:
    session = OnnxSession(doubler, name="doubler", queue_limit=3)
    yield session
    session.close()


class Gate:
    """Keeps a session's thread busy until it is opened."""

    def __init__(self, session: OnnxSession) -> None:
        self._begun, self._open = threading.Event(), threading.Event()
        self.future: Future[None] = session.submit(self._stand)
        assert self._begun.wait(60)

    def _stand(self, _: object) -> None:
        self._begun.set()
        assert self._open.wait(30)

    def open(self) -> None:
        self._open.set()
        self.future.result(30)


def doubled(value: float) -> Callable[..., float]:
    return lambda infer: float(infer({"x": np.array([value], np.float32)})[0][0])


def threads_of(name: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(f"onnx-{name}")]


def test_a_job_runs_the_model_on_the_sessions_own_thread(session: OnnxSession) -> None:
    assert session.submit(doubled(21)).result() == 42
    names = {session.submit(lambda _: threading.current_thread().name).result() for _ in range(5)}
    assert names == set(threads_of("doubler"))
    assert len(names) == 1


def test_an_error_in_a_job_reaches_who_asked_and_spares_the_next(session: OnnxSession) -> None:
    with pytest.raises(ZeroDivisionError):
        session.submit(lambda _: 1 / 0).result()
    assert session.submit(doubled(1)).result() == 2


def test_a_full_queue_refuses_at_once_and_takes_again_when_there_is_room(session: OnnxSession) -> None:
    gate = Gate(session)
    waiting = [session.submit(doubled(n)) for n in (1, 2)]
    with pytest.raises(SessionBusy, match="the limit is 3"):
        session.submit(doubled(3))
    unbounded = session.submit(doubled(4), bounded=False)
    gate.open()
    assert [future.result() for future in [*waiting, unbounded]] == [2, 4, 8]
    assert session.submit(doubled(5)).result() == 10


def test_a_cancelled_job_gives_up_its_place_at_once_and_never_runs(session: OnnxSession) -> None:
    gate, ran = Gate(session), []
    first = session.submit(lambda _: ran.append("first"))
    second = session.submit(lambda _: ran.append("second"))
    assert first.cancel()
    third = session.submit(lambda _: ran.append("third"))
    gate.open()
    second.result()
    third.result()
    assert ran == ["second", "third"]


def test_close_lets_the_running_job_finish_cancels_the_rest_and_ends_the_thread(doubler: Path) -> None:
    session = OnnxSession(doubler, name="closing")
    gate = Gate(session)
    waiting = session.submit(doubled(1))
    closer = threading.Thread(target=session.close)
    closer.start()
    with pytest.raises(CancelledError):
        waiting.result(30)
    assert closer.is_alive()
    gate.open()
    closer.join(60)
    assert threads_of("closing") == []
    assert session.pending == 0
    with pytest.raises(SessionBusy, match="closed"):
        session.submit(doubled(1))
    session.close()


def test_usearch_loaded_too_early_is_an_error_and_not_a_crash(doubler: Path) -> None:
    script = (
        "import sys, usearch; from pathlib import Path; from router.embedding.onnx_session import OnnxSession\n"
        "try: OnnxSession(Path(sys.argv[1]), name='x')\n"
        "except ImportError as error: print(error)"
    )
    result = subprocess.run([sys.executable, "-c", script, str(doubler)], capture_output=True, text=True)
    assert result.returncode == 0
    assert "import onnxruntime first" in result.stdout


def test_what_can_wait_begins_when_nothing_else_waits(session: OnnxSession) -> None:
    order: list[str] = []
    gate = Gate(session)
    later = [session.submit_later(lambda _, n=n: order.append(f"later {n}")) for n in (1, 2)]
    now = [session.submit(lambda _, n=n: order.append(f"now {n}")) for n in (1, 2)]
    assert session.pending == 3, "what can wait takes nobody's place in the queue"
    gate.open()
    for future in (*later, *now):
        future.result(30)
    assert order == ["now 1", "now 2", "later 1", "later 2"]


def test_nobody_waits_for_what_can_wait(session: OnnxSession) -> None:
    order: list[str] = []
    begun, go = threading.Event(), threading.Event()

    def first(_: object) -> None:
        begun.set()
        assert go.wait(30)
        order.append("later 1")

    later = [session.submit_later(first), session.submit_later(lambda _: order.append("later 2"))]
    assert begun.wait(30)
    session.submit(lambda _: order.append("now")).result(30)
    go.set()
    for future in later:
        future.result(30)
    assert order == ["now", "later 1", "later 2"]


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
def test_what_can_wait_runs_at_low_priority_and_nothing_else_does(session: OnnxSession) -> None:
    def priority(_: object) -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    usual = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert session.submit_later(priority).result(30) == 19
    assert session.submit(priority).result(30) == usual


def test_what_can_wait_may_be_cancelled_fail_and_be_closed(doubler: Path) -> None:
    session = OnnxSession(doubler, name="closing")
    assert session.submit_later(doubled(4)).result(30) == 8
    with pytest.raises(ZeroDivisionError):
        session.submit_later(lambda _: 1 / 0).result(30)
    gate = Gate(session)
    cancelled, waiting = session.submit_later(doubled(1)), session.submit_later(doubled(2))
    assert cancelled.cancel()
    gate.open()
    assert waiting.result(30) == 4 and session.pending == 0
    gate = Gate(session)
    left = session.submit_later(doubled(3))
    closing = threading.Thread(target=session.close)
    closing.start()
    with pytest.raises(CancelledError):
        left.result(30)
    gate.open()
    closing.join(30)
    with pytest.raises(SessionBusy):
        session.submit_later(doubled(5))


def test_an_inference_that_can_wait_is_broken_off_three_times_and_then_no_more(session: OnnxSession) -> None:
    turns = [(threading.Event(), threading.Event()) for _ in range(4)]
    called = 0

    def job(infer: Callable[..., object]) -> float:
        nonlocal called
        begun, go = turns[called]
        called += 1
        begun.set()
        assert go.wait(30)
        return doubled(21)(infer)

    later = session.submit_later(job)
    for begun, go in turns:
        assert begun.wait(30)
        assert session.submit(doubled(1)).result(30) == 2
        go.set()
    assert later.result(30) == 42 and called == 4
