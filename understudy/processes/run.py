"""Runs a configured gateway until it is told to stop: its workers and helpers under a supervisor."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import click
import structlog

from gateway.log import WRITER, configure
from understudy.processes.control import control_folder, listening
from understudy.processes.garbage_collection import calm_collector, few_arenas
from understudy.processes.listening import bind, kept_port, unix_socket
from understudy.processes.orders import Changes, Orders
from understudy.processes.wanted import ADMIN, LEARNER, REPLAYER, Role, helpers_wanted
from understudy.settings.config import Config
from understudy.settings.doubts import doubts
from understudy.settings.engines import VLLMLocalEngine
from understudy.settings.file import ConfigError

if TYPE_CHECKING:
    from understudy.build import Gateway
    from understudy.processes.background import Background

log = structlog.get_logger(__name__)


_LINGER_S = 1.0
"""At the end, for a client that is just about to send another request on its connection."""
_REPLACED_LINGER_S = 6.0
"""The same of a worker whose successor serves. SDKs of OpenAI close what has been idle for 4 or 5 seconds, so that
by then nobody sends another request."""
_TURN_S = 0.0005
"""Instead of 5 ms: so long a thread that records, screens or follows what was learnt keeps the interpreter from the event
loop and from retrieval, which give it up several times a request."""
_IN_BACKGROUND, _BEHIND = 10, 5
"""Niceness of helpers: beside a worker that needs all of a core, about a tenth and a quarter of it."""
Reread = Callable[[], Config]
"""Gives the configuration as it is now, as it was given at the start. Raises ConfigError."""


def run(
    config: Config, config_file: Path | None = None, reread: Reread | None = None, role: Role = "all"
) -> int:
    """Serve until SIGTERM or SIGINT. Returns the process's exit status; 2 when it could not start.

    `config_file`: where the settings came from, for people to see. `reread`: for a reload; None where there is no file.
    `role`: which of the processes run here.
    """
    few_arenas()
    configure(config.log.level, for_terminal=sys.stderr.isatty())
    for told in doubts(config):
        log.warning("setting_doubtful", told=told)
    with ExitStack() as held:
        try:
            sock = held.enter_context(_bound(config, role))
            at = None if role == "background" else config.listen.unix_socket
            unix = held.enter_context(unix_socket(at))
        except (OSError, OverflowError) as error:
            click.echo(f"understudy: {_cannot_listen(config, error)}", err=True)
            return 2
        folder = config.memory.data_dir if config.memory is not None else None
        config = held.enter_context(_folder_to_remember_in(config))
        held.callback(WRITER.close)
        control = held.enter_context(listening(control_folder(folder)))
        changes = Changes(config, reread, temporary=folder is None)
        return _supervise(config, sock.getsockname()[1], unix, config_file, changes, control, role)


def _workers(config: Config, role: Role) -> int:
    """Of a background one is enough."""
    return 1 if role == "background" else config.listen.workers


def _bound(config: Config, role: Role) -> AbstractContextManager[socket.socket]:
    listen = config.listen
    # What answers no requests must not share a port with what does.
    joined = config.memory is not None and role != "background"
    return kept_port(listen.host, listen.port, config.memory.data_dir if joined and config.memory else None)


def _cannot_listen(config: Config, error: OSError | OverflowError) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    where = f"{config.listen.host}:{config.listen.port}"
    if config.listen.unix_socket is not None:
        where += f" and at {config.listen.unix_socket}"
    text = f"cannot listen on {where}: {reason}"
    if config.memory is not None and getattr(error, "errno", None) == errno.EADDRINUSE:
        return text + ". Only a gateway with the same memory.data_dir may join one that is there already"
    return text


@contextmanager
def _folder_to_remember_in(config: Config) -> Iterator[Config]:
    """The configuration with a data folder: without one of its own, a temporary one that all workers share."""
    memory = config.memory
    if memory is None or memory.data_dir is not None:
        yield config
        return
    with tempfile.TemporaryDirectory(prefix="understudy-") as folder:
        yield config.model_copy(update={"memory": memory.model_copy(update={"data_dir": Path(folder)})})


def _supervise(
    config: Config,
    port: int,
    unix: socket.socket | None,
    config_file: Path | None,
    changes: Changes,
    control: socket.socket | None,
    role: Role,
) -> int:
    from understudy.processes.supervisor import CannotChange, Crew, Supervisor

    def crew(config: Config) -> Crew:
        def work(sock: socket.socket | None, line: Connection) -> int:
            assert sock is not None, "the supervisor binds it"
            try:
                return _run_worker(config, sock, unix, Orders(line), role)
            finally:
                WRITER.close()

        local = any(isinstance(engine, VLLMLocalEngine) for engine in config.engines.values())
        return Crew(work, _helpers(config, port, config_file, role), one_at_a_time=local)

    def reread() -> Crew:
        try:
            config = changes.read()
        except ConfigError as error:
            raise CannotChange(str(error)) from error
        configure(config.log.level, for_terminal=sys.stderr.isatty())
        return crew(config)

    first = crew(config)
    return Supervisor(
        first,
        _workers(config, role),
        grace_s=config.listen.grace_s,
        add_up_metrics=REPLAYER in first.helpers,
        bind=partial(bind, config.listen.host, port, shared=True),
        reread=reread,
        control=control,
    ).run()


def _helpers(config: Config, port: int, config_file: Path | None, role: Role) -> dict[str, Callable[[], int]]:
    """The processes beside the workers, by name; `port` is the workers'."""
    runs: dict[str, tuple[Callable[[Config], int], int]] = {
        LEARNER: (_learn, _IN_BACKGROUND),
        REPLAYER: (_replay, _IN_BACKGROUND),
        ADMIN: (partial(_admin, port, config_file), _BEHIND),
    }
    return {name: partial(_help, *runs[name], config) for name in helpers_wanted(config, role)}


def _help(run: Callable[[Config], int], niceness: int, config: Config) -> int:
    os.nice(niceness)
    try:
        return run(config)
    finally:
        WRITER.close()


def _learn(config: Config) -> int:
    # Imported in the process that needs it, as everything of a helper is.
    from understudy.processes.learner import learn

    return learn(config)


def _replay(config: Config) -> int:
    from understudy.processes.replayer import replay

    return replay(config)


def _admin(port: int, config_file: Path | None, config: Config) -> int:
    from understudy.processes.admin import serve_admin

    return serve_admin(config, port, config_file)


def _run_worker(
    config: Config, sock: socket.socket, unix: socket.socket | None, orders: Orders, role: Role
) -> int:
    import uvloop

    from understudy.cannot_start import CannotStart

    try:
        uvloop.run(_serve(config, sock, unix, orders, role))
    except CannotStart as error:
        orders.cannot_start(str(error))
        click.echo(f"understudy: cannot start\n{error}", err=True)
        return 2
    return 0


def _served(config: Config, role: Role) -> Background | Gateway:
    if role == "background":
        from understudy.processes.background import Background

        return Background(config)
    from understudy.build import Gateway

    return Gateway(config, chores=role != "gateway")


async def _serve(
    config: Config, sock: socket.socket, unix: socket.socket | None, orders: Orders, role: Role
) -> None:
    from gateway.server import ServerLimits, serve, stop_on_signals
    from understudy.settings.knobs import knobs_of

    # Signals are handled once there is something to stop in order.
    served = _served(config, role)
    stop = asyncio.Event()
    stop_on_signals(stop)
    calm_collector()
    sys.setswitchinterval(_TURN_S)

    def serving() -> None:
        host, port = sock.getsockname()[:2]
        where = f"[{host}]" if ":" in host else host
        log.info(
            "listening",
            url=f"http://{where}:{port}",
            prefixes=list(config.listen.advanced.prefixes),
            pid=os.getpid(),
        )

    try:
        served.start()
        limits = knobs_of(ServerLimits, config.listen, config.listen.advanced)
        with orders.taken(served.refuse, served.memory, stop):
            await serve(
                served.handle,
                limits,
                sock=sock,
                unix=unix,
                stop=stop,
                listening=serving,
                linger_s=lambda: _REPLACED_LINGER_S if orders.replaced else _LINGER_S,
            )
    finally:
        await served.aclose()
        log.info("stopped", threads=threading.active_count())
