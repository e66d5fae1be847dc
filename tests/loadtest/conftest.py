"""A real mock upstream in its own process, and the command line, for the tests of this room."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


class MockServer:
    """A running `serve-mock`."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=60) as answer:
            return json.load(answer)


@contextmanager
def _serve(*options: str) -> Iterator[MockServer]:
    process = subprocess.Popen(
        [sys.executable, "-m", "loadtest", "serve-mock", "--port", "0", "--max-seconds", "600", *options],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert "ready at http://127.0.0.1:" in line, line
        yield MockServer(line.split()[-1])
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


@pytest.fixture
def serve_mock() -> Iterator[Callable[..., MockServer]]:
    """Start a mock with the given options; all are stopped after the test."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda *options: stack.enter_context(_serve(*options))


@pytest.fixture(scope="session")
def mock() -> Iterator[MockServer]:
    """One mock at full speed, shared by all tests that only need an endpoint."""
    with _serve("--tokens", "8") as server:
        yield server


@pytest.fixture
def load() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `python -m loadtest ...` to its end."""

    def run(*words: object, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "loadtest", *map(str, words)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=timeout_s,
            check=False,
        )

    return run


@pytest.fixture
def small_server() -> Callable[..., Any]:
    """`async with small_server(answer) as url`: a TCP server whose connections are answered by a coroutine."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def serve(
        answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], **options: Any
    ) -> Any:
        async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await answer(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(guarded, "127.0.0.1", 0, **options)
        async with server:
            scheme = "https" if options.get("ssl") else "http"
            yield f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    return serve
