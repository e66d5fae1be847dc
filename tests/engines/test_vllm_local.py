"""The life of an engine in this process: coming up, dying, coming up again, and what requests meet meanwhile.

The engine proper is stood in for by an application that answers and can be told to die; tests/vllm runs the real one.
"""

from __future__ import annotations

import asyncio
import importlib.machinery
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest

from engines.engine import EngineInfo, Starts
from engines.errors import Unavailable
from engines.vllm_core import INSTALL, CannotStartEngine, Figures, installed, start_blocking
from engines.vllm_local import VLLMLocal
from tests.engines.asking import asked
from tests.knobs import limits, servers_of


@dataclass
class Life:
    """One engine's life: answers until it dies."""

    window_tokens: int = 2048
    figures: Figures = field(default_factory=Figures)
    dead: bool = False
    ended: bool = False
    gate: threading.Event = field(default_factory=threading.Event)

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})

    def shutdown(self) -> None:
        # Ending what is left of a dead engine takes its time.
        assert self.gate.wait(60)
        self.ended = True


class Lives:
    """Starts them; says no, or takes its time, while told to."""

    def __init__(self) -> None:
        self.all: list[Life] = []
        self.says: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.told: list[tuple[str, str, Mapping[str, Any]]] = []

    def start(self) -> Life:
        assert self.gate.wait(60)
        if self.says is not None:
            raise self.says
        self.all.append(Life())
        self.all[-1].gate.set()
        return self.all[-1]

    async def open(self, started: Life) -> Life:
        return started

    def tell(self, level: str, event: str, fields: Mapping[str, Any]) -> None:
        self.told.append((level, event, fields))

    def events(self) -> list[str]:
        return [event for _, event, _ in self.told]


@pytest.fixture
def lives() -> Lives:
    return Lives()


@asynccontextmanager
async def local(lives: Lives, context_tokens: int | None = None) -> AsyncIterator[VLLMLocal]:
    info = EngineInfo("local", model="tiny", context_tokens=context_tokens)
    engine = VLLMLocal(info, start=lives.start, open_=lives.open, tell=lives.tell, first_pause_s=0.01)
    try:
        yield engine
    finally:
        await engine.aclose()


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)


async def test_while_it_starts_requests_are_refused_with_the_reason_and_the_breaker_learns_nothing(
    lives: Lives,
) -> None:
    lives.gate.clear()
    async with local(lives) as engine:
        single = servers_of(engine, limits())
        engine.start()
        for _ in range(10):
            with pytest.raises(Unavailable, match=r"'local' is starting \(\d+ s so far\)") as error:
                await asked(single)
            assert error.value.status == 503 and error.value.retry_after_s
        assert single.servers[0].breaker.gate.lets_through and not single.load().open
        with pytest.raises(Unavailable, match="starting"):
            await single.health()
        lives.gate.set()
        await until(lambda: single.problem is None)
        assert await asked(single) == (200, b"/v1/chat/completions")
        assert single.load().open
        await single.health()


async def test_it_tells_its_window_unless_one_is_configured(lives: Lives) -> None:
    for configured, expected in ((None, 2048), (100, 100)):
        async with local(lives, configured) as engine:
            engine.start()
            await until(lambda: engine.problem is None)
            assert engine.info.context_tokens == expected
            assert engine.info.continues and isinstance(engine, Starts)


async def test_its_load_is_what_the_engine_said_last(lives: Lives) -> None:
    async with local(lives) as engine:
        engine.start()
        await until(lambda: engine.problem is None)
        lives.all[0].figures.running, lives.all[0].figures.waiting, lives.all[0].figures.kv_use = 3, 2, 0.4
        load = engine.load()
        assert (load.in_flight, load.queued, load.kv_use) == (3, 2, 0.4)


async def test_one_that_dies_is_reported_and_brought_up_again(lives: Lives) -> None:
    async with local(lives) as engine:
        engine.start()
        await until(lambda: engine.problem is None)
        lives.gate.clear()
        lives.all[0].gate.clear()
        lives.all[0].dead = True
        assert engine.problem == "its processes died" and not engine.load().open
        await until(lambda: "engine_died" in lives.events())
        with pytest.raises(Unavailable, match="starting again"):
            await asked(engine)
        lives.all[0].gate.set()
        await until(lambda: lives.all[0].ended)
        with pytest.raises(Unavailable, match="starting again"):
            await asked(engine)
        lives.gate.set()
        await until(lambda: len(lives.all) == 2 and engine.problem is None)
        assert (await asked(engine))[0] == 200
    assert lives.events() == ["engine_up", "engine_died", "engine_restarting", "engine_up"]
    assert lives.all[1].ended


async def test_a_failed_start_is_tried_again_and_told_with_its_reason(lives: Lives) -> None:
    lives.says = RuntimeError("no memory")
    async with local(lives) as engine:
        engine.start()
        await until(lambda: len(lives.told) >= 4)
        lives.says = None
        await until(lambda: engine.problem is None)
    assert lives.told[0] == (
        "error",
        "engine_failed_to_start",
        {"engine": "local", "reason": "RuntimeError: no memory"},
    )
    pauses = [fields["pause_s"] for _, event, fields in lives.told if event == "engine_restarting"]
    assert pauses[1] == 2 * pauses[0]


async def test_what_trying_again_would_not_mend_is_told_once(lives: Lives) -> None:
    lives.says = CannotStartEngine("vLLM does not take these arguments: --nonsense")
    async with local(lives) as engine:
        engine.start()
        await until(lambda: lives.told)
        await asyncio.sleep(0.05)
        assert lives.events() == ["engine_cannot_start"]
        with pytest.raises(Unavailable, match="--nonsense"):
            await asked(engine)


async def test_closing_while_it_starts_ends_what_comes_up_too_late(lives: Lives) -> None:
    lives.gate.clear()
    async with local(lives) as engine:
        engine.start()
        await asyncio.sleep(0.01)
        closing = asyncio.create_task(engine.aclose())
        await asyncio.sleep(0.01)
        lives.gate.set()
        await closing
    assert [life.ended for life in lives.all] == [True]


async def test_it_is_not_up_before_anybody_starts_it(lives: Lives) -> None:
    async with local(lives) as engine:
        with pytest.raises(Unavailable, match="was not started"):
            await asked(engine)
        assert await engine.count_tokens("x") is None


@pytest.mark.skipif(installed(), reason="vLLM is installed here")
def test_without_vllm_it_says_how_to_install_it() -> None:
    with pytest.raises(CannotStartEngine) as error:
        start_blocking("org/model", (), "model")
    assert INSTALL in str(error.value)


class FindsVLLM:
    """Finds a vLLM that cannot be loaded, and notes the environment that it was first imported in."""

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self) if name == "vllm" else None  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """A module as any."""

    def exec_module(self, module: ModuleType) -> None:
        self.environment = dict(os.environ)
        raise ImportError("that is enough")


@pytest.mark.parametrize(("operator", "then"), [(None, "spawn"), ("fork", "fork")])
def test_vllm_is_imported_where_its_processes_are_spawned_unless_the_operator_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, operator: str | None, then: str
) -> None:
    variable, finder = "VLLM_WORKER_MULTIPROC_METHOD", FindsVLLM()
    monkeypatch.setattr(os, "environ", {**os.environ} | ({} if operator is None else {variable: operator}))
    if operator is None:
        os.environ.pop(variable, None)
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    with pytest.raises(ImportError, match="enough"):
        start_blocking("m", [], "e")
    assert finder.environment[variable] == then
