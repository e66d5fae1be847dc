"""How a worker comes to change its configuration: by its supervisor; alone, by signals and orders that it takes itself."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Protocol

import structlog

from understudy.processes.control import ORDERS, REPLACED, Verdict
from understudy.processes.wanted import Role, helpers_wanted
from understudy.settings.config import Config
from understudy.settings.file import ConfigError
from understudy.settings.reloading import needs_new_gateway, needs_new_workers

if TYPE_CHECKING:
    from understudy.memory import Memory
    from understudy.processes.reloading import Message

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

    def read(self, order: str) -> Config:
        """What is to be in force after "reload", or "restart". Blocks for a tenth of a second. Raises ConfigError."""
        if self._read is None:
            raise ConfigError("it was started without a configuration file: there is nothing to read anew")
        config = self._with_folder(self._settled(self._read))
        fixed = needs_new_gateway(self.config, config)
        if fixed:
            raise ConfigError(f"{_named(fixed)} cannot change while the gateway runs: start it anew")
        fixed = needs_new_workers(self.config, config) if order == "reload" else []
        if fixed:
            raise ConfigError(f"{_named(fixed)} cannot change by a reload: use `understudy restart`")
        return config

    def taken_up(self, config: Config) -> Config:
        """Note that it is in force now."""
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


def _named(settings: list[str]) -> str:
    return ", ".join(settings)


class Changing(Protocol):
    """What takes another configuration: understudy.processes.reloading."""

    async def told(self, message: Message) -> str | None:
        """Do what a supervisor says; gives why it failed."""
        ...


class Orders(Protocol):
    """What changes a worker."""

    replaced: bool
    """Whether it stops because another one serves in its place."""

    def taken(
        self, reloading: Changing, memory: Memory | None, stop: asyncio.Event
    ) -> AbstractAsyncContextManager[None]:
        """A context manager: meanwhile orders are carried out."""
        ...


class Supervised:
    """Orders of a supervisor, over a line to it; see understudy.processes.supervisor.Work."""

    def __init__(self, line: Connection) -> None:
        self._line = line
        self._sending = threading.Lock()
        self.replaced = False

    @asynccontextmanager
    async def taken(
        self, reloading: Changing, memory: Memory | None, stop: asyncio.Event
    ) -> AsyncIterator[None]:
        """See Orders."""
        loop = asyncio.get_running_loop()
        for run in (lambda: self._follow(reloading, loop, stop), lambda: self._say_ready(memory)):
            threading.Thread(target=run, name="supervisor's orders", daemon=True).start()
        yield

    def _follow(self, reloading: Changing, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        with suppress(EOFError, OSError, RuntimeError):
            while True:
                message = self._line.recv()
                if message == REPLACED:
                    log.info("stopping", replaced=True)
                    self.replaced = True
                    loop.call_soon_threadsafe(stop.set)
                    continue
                told = reloading.told(message)
                self._send(("answer", asyncio.run_coroutine_threadsafe(told, loop).result()))

    def _say_ready(self, memory: Memory | None) -> None:
        end = time.monotonic() + _INDEX_WITHIN_S
        while memory is not None and memory.problems() and time.monotonic() < end:
            time.sleep(_LOOK_EVERY_S)
        with suppress(OSError):
            self._send(("ready",))

    def _send(self, message: object) -> None:
        with self._sending:
            self._line.send(message)


class Alone:
    """SIGHUP, and orders over the control socket, to a gateway that is one process."""

    def __init__(self, changes: Changes, control: socket.socket | None, role: Role = "all") -> None:
        self._changes = changes
        self._role = role
        self._control = control
        self.replaced = False
        self._had_terminal = os.isatty(2)
        self._wanted = asyncio.Event()
        self._waiting: list[asyncio.Future[Verdict]] = []

    @asynccontextmanager
    async def taken(
        self, reloading: Changing, memory: Memory | None, stop: asyncio.Event
    ) -> AsyncIterator[None]:
        """See Orders."""
        loop = asyncio.get_running_loop()

        def hung_up() -> None:
            # A terminal that was closed sends the same signal as somebody who wants a reload.
            if self._had_terminal and not os.isatty(2):
                stop.set()
            self._wanted.set()

        loop.add_signal_handler(signal.SIGHUP, hung_up)
        tasks = [loop.create_task(self._reload_when_wanted(reloading), name="reload")]
        if self._control is not None:
            tasks.append(loop.create_task(self._take_orders(self._control), name="orders"))
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGHUP)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _take_orders(self, control: socket.socket) -> None:
        server = await asyncio.start_unix_server(self._client, sock=control)
        async with server:
            await server.serve_forever()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            word = (await asyncio.wait_for(reader.readline(), 1.0)).decode("ascii", "replace").strip()
            if word in ORDERS:
                writer.write((await self._carried_out(word)).line())
                await writer.drain()
        except (OSError, TimeoutError, ValueError):
            return
        finally:
            writer.close()

    async def _carried_out(self, word: str) -> Verdict:
        if word == "restart":
            why = "it is a single process, without a supervisor: start another one on the same port and stop this one"
            return Verdict(False, why)
        verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting.append(verdict)
        self._wanted.set()
        return await verdict

    async def _reload_when_wanted(self, reloading: Changing) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            waiting, self._waiting = self._waiting, []
            verdict = await self._reload(reloading)
            for each in waiting:
                if not each.done():
                    each.set_result(verdict)

    async def _reload(self, reloading: Changing) -> Verdict:
        changes = self._changes
        try:
            config = await asyncio.to_thread(changes.read, "reload")
            self._stays_alone(config)
        except ConfigError as error:
            return await self._refused(reloading, str(error))
        if config == changes.config:
            await reloading.told(("give up", ""))
            return Verdict(True, "nothing has changed")
        failed = await reloading.told(("prepare", config)) or await reloading.told(("commit",))
        if failed:
            return await self._refused(reloading, failed)
        changes.taken_up(config)
        log.info("config_reloaded")
        return Verdict(True, "reloaded")

    async def _refused(self, reloading: Changing, why: str) -> Verdict:
        log.error("reload_refused", reason=why)
        await reloading.told(("give up", why))
        return Verdict(False, why)

    def _stays_alone(self, config: Config) -> None:
        """Raises ConfigError where it takes processes beside the worker, and there is nobody to look after them."""
        wanted = helpers_wanted(config, self._role)
        if wanted:
            raise ConfigError(f"it takes further processes ({', '.join(wanted)}): start the gateway anew")
