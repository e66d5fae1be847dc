"""How a running gateway comes to another configuration: it is read anew, and each worker is told when another serves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

import structlog

from understudy.processes.control import REPLACED
from understudy.settings.config import Config
from understudy.settings.file import ConfigError
from understudy.settings.reloading import needs_new_gateway

if TYPE_CHECKING:
    from understudy.memory import Memory

log = structlog.get_logger(__name__)

_STEADY_S = 0.1
_TRIES = 20
_LOOK_EVERY_S = 0.1
_INDEX_WITHIN_S = 300.0


class Changes:
    """Reads the configuration anew, and refuses what a running gateway cannot change.

    `read` gives it as it was at the start, or is None where there is no file.
    """

    def __init__(self, config: Config, read: Callable[[], Config] | None, *, temporary: bool = False) -> None:
        """`temporary`: the data folder is one that the configuration does not name."""
        self.config = config
        """The one in force."""
        self._read = read
        self._temporary = temporary

    def read(self) -> Config:
        """The configuration that is to be in force. Blocks for a tenth of a second. Raises ConfigError."""
        if self._read is None:
            raise ConfigError("it was started without a configuration file: there is nothing to read anew")
        config = self._with_folder(self._settled(self._read))
        fixed = needs_new_gateway(self.config, config)
        if fixed:
            raise ConfigError(f"{', '.join(fixed)} cannot change while the gateway runs: start it anew")
        self.config = config
        return config

    def _settled(self, read: Callable[[], Config]) -> Config:
        """The configuration once it has not changed for a moment: the file may be being written."""
        config = read()
        for _ in range(_TRIES):
            time.sleep(_STEADY_S)
            again = read()
            if again == config:
                return config
            config = again
        raise ConfigError("the configuration file keeps changing: it was not read")

    def _with_folder(self, config: Config) -> Config:
        """Without a data folder of its own it goes on with the temporary one that it began with."""
        memory, before = config.memory, self.config.memory
        if memory is None or memory.data_dir is not None or before is None:
            return config
        if not self._temporary:
            return config
        return config.model_copy(update={"memory": memory.model_copy(update={"data_dir": before.data_dir})})


class Orders:
    """A worker's line to its supervisor; see understudy.processes.supervisor.Work."""

    def __init__(self, line: Connection) -> None:
        self._line = line
        self._sending = threading.Lock()
        self.replaced = False
        """Whether the worker stops because another one serves in its place."""

    @contextmanager
    def taken(
        self, refused: Callable[[str], None], memory: Memory | None, stop: asyncio.Event
    ) -> Iterator[None]:
        """Say when the worker is ready, and carry out orders meanwhile. Inside the running loop.

        `refused` is told why the latest configuration is not taken; `stop` is set when another worker serves.
        """
        loop = asyncio.get_running_loop()
        for run in (lambda: self._follow(refused, loop, stop), lambda: self._say_ready(memory)):
            threading.Thread(target=run, name="supervisor's orders", daemon=True).start()
        yield

    def cannot_start(self, why: str) -> None:
        """Say why this worker ends before it serves."""
        self._send(("cannot start", why))

    def _follow(
        self, refused: Callable[[str], None], loop: asyncio.AbstractEventLoop, stop: asyncio.Event
    ) -> None:
        with suppress(EOFError, OSError, RuntimeError):
            while True:
                message = self._line.recv()
                if message == REPLACED:
                    log.info("stopping", replaced=True)
                    self.replaced = True
                    loop.call_soon_threadsafe(stop.set)
                else:
                    loop.call_soon_threadsafe(refused, message[1])

    def _say_ready(self, memory: Memory | None) -> None:
        end = time.monotonic() + _INDEX_WITHIN_S
        while memory is not None and memory.problems() and time.monotonic() < end:
            time.sleep(_LOOK_EVERY_S)
        self._send(("ready",))

    def _send(self, message: object) -> None:
        with self._sending, suppress(OSError):
            self._line.send(message)
