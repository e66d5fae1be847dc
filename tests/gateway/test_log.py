"""The log: JSON lines from a thread of its own, that never slow a request and never tell a secret."""

from __future__ import annotations

import io
import json
import threading

import pytest
import structlog

from engines.chat import Usage
from gateway import log as module
from gateway.log import LineWriter, configure
from gateway.request_log import RequestLog
from router.asked import Arrival
from router.finished import Journey, Outcome
from tests.finished import finished
from tests.gateway.keepers.test_choice import WITH


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What is logged, in order."""
    read: list[dict[str, object]] = []

    class Direct(LineWriter):
        def write(self, line: bytes | object) -> None:
            read.append(json.loads(line if isinstance(line, bytes) else line()))  # type: ignore[operator]

    monkeypatch.setattr(module, "WRITER", Direct(io.BytesIO()))
    configure()
    yield read
    configure()


def test_lines_from_many_threads_arrive_whole_and_in_each_ones_order() -> None:
    sink = io.BytesIO()
    writer = LineWriter(sink)

    def write(name: int) -> None:
        for n in range(200):
            writer.write(b"%d %d" % (name, n))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    rows = [tuple(map(int, row.split())) for row in sink.getvalue().splitlines()]
    assert len(rows) == 1000
    for name in range(5):
        assert [n for who, n in rows if who == name] == list(range(200))


def test_on_a_terminal_the_events_of_starting_are_sentences_and_others_stay_json(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sink = io.BytesIO()
    writer = LineWriter(sink)
    monkeypatch.setattr(module, "WRITER", writer)
    configure(for_terminal=True)
    try:
        log = structlog.get_logger()
        log.info("listening", url="http://127.0.0.1:8080", pid=1)
        log.info("listening", pid=1)
        log.info("something_else", count=2)
        writer.close()
    finally:
        configure()
    sentence, without_url, other = sink.getvalue().decode().splitlines()
    assert sentence == "understudy: listening at http://127.0.0.1:8080"
    assert json.loads(without_url)["pid"] == 1
    assert json.loads(other)["count"] == 2


class _Stuck(io.RawIOBase):
    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()

    def write(self, data: object) -> int:
        self.entered.set()
        self.go.wait(60)
        return 0


def test_a_sink_that_blocks_blocks_nobody_and_what_is_lost_is_counted() -> None:
    sink = _Stuck()
    writer = LineWriter(sink)  # type: ignore[arg-type]
    writer.write(b"first")
    assert sink.entered.wait(60)
    for _ in range(30_000):
        writer.write(b"x")
    assert writer.dropped >= 10_000
    sink.go.set()
    writer.close()


def test_a_sink_that_is_gone_ends_nothing() -> None:
    sink = io.BytesIO()
    writer = LineWriter(sink)
    sink.close()
    writer.write(b"x")
    writer.close()
    assert writer.dropped >= 1


def test_a_line_that_cannot_be_made_is_counted_and_the_next_is_written() -> None:
    sink = io.BytesIO()
    writer = LineWriter(sink)
    writer.write(lambda: b"%d" % (1 // 0))
    writer.write(b"next")
    writer.close()
    assert sink.getvalue() == b"next\n" and writer.dropped == 1


def test_levels(lines: list[dict[str, object]]) -> None:
    log = structlog.get_logger()
    log.debug("unseen")
    log.warning("seen", name="x")
    configure("error")
    log.warning("unseen")
    assert [(line["level"], line["event"]) for line in lines] == [("warning", "seen")]


def test_an_exception_is_named_and_placed_but_never_quoted(lines: list[dict[str, object]]) -> None:
    try:
        raise ValueError("Bearer sk-canary")
    except ValueError as error:
        structlog.get_logger().error("failed", error=error)
    assert lines[0]["error"] == "ValueError" and "test_log.py" in str(lines[0]["at"])
    assert "canary" not in json.dumps(lines)


def test_a_request_is_one_line(lines: list[dict[str, object]]) -> None:
    one = finished(
        began=1.0,
        id="id1",
        engine="big",
        model="gpt",
        waited_s=0.1,
        ended_at=1.25,
        first_chunk_at=1.2,
        policy="few_shot",
        reason="familiar",
        attempt=WITH,
        stages_s={"embed": 0.003},
        usage=Usage(10, 2),
        cost_usd=0.5,
        bypassed=["exact:OSError"],
    )
    RequestLog().write(one)
    (line,) = lines
    assert line["event"] == "request" and line["request"] == "id1" and line["status"] == 200
    assert line["total_ms"] == 250 and line["waited_ms"] == 100 and line["ttft_ms"] == 200
    assert line["examples"] == 2 and line["stages_ms"] == {"embed": 3} and line["cost_usd"] == 0.5
    assert line["bypassed"] == ["exact:OSError"] and line["outcome"] == "answered"


def test_long_paths_and_models_are_cut(lines: list[dict[str, object]]) -> None:
    long = Arrival("id1", 1.0, 1_700_000_000.0, "GET", "/" + "x" * 5000)
    RequestLog().write(Journey(arrival=long, outcome=Outcome.REFUSED, model="m" * 5000))
    assert len(str(lines[0]["path"])) == 200 and len(str(lines[0]["model"])) == 200
