"""Runs a configured gateway until it is told to stop: in this process, or in several under a supervisor."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import click
import structlog

from gateway.log import WRITER, configure
from understudy.processes.garbage_collection import calm_collector
from understudy.processes.listening import bind, kept_port
from understudy.settings.config import Config

log = structlog.get_logger(__name__)

_REPLAYER = "replayer"


def run(config: Config, config_file: Path | None = None) -> int:
    """Serve until SIGTERM or SIGINT. Returns the process's exit status; 2 when it could not start.

    `config_file`: where the settings came from, for people to see.
    """
    configure(config.log.level, for_terminal=sys.stderr.isatty())
    supervised = config.listen.workers > 1 or bool(_helpers(config, 0, config_file))
    with ExitStack() as held:
        try:
            sock = held.enter_context(_bound(config, supervised))
        except (OSError, OverflowError) as error:
            click.echo(f"understudy: {_cannot_listen(config, error, supervised)}", err=True)
            return 2
        config = held.enter_context(_folder_to_remember_in(config))
        held.callback(WRITER.close)
        if supervised:
            return _supervise(config, sock.getsockname()[1], config_file)
        try:
            with _stopped_at_once():
                return _run_worker(config, sock)
        except _StoppedWhileBuilding:
            log.info("stopped", threads=threading.active_count())
            held.close()
            # Nothing was asked yet, and threads of what was half built would be waited for.
            os._exit(0)


class _StoppedWhileBuilding(BaseException):
    """A signal came before the gateway was built."""


@contextmanager
def _stopped_at_once() -> Iterator[None]:
    """Until something else handles signals, they end what is under way. (A supervised process simply dies of them.)"""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise _StoppedWhileBuilding

    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, stop)
    yield


def _bound(config: Config, supervised: bool) -> AbstractContextManager[socket.socket]:
    listen = config.listen
    if not supervised:
        return bind(listen.host, listen.port)
    return kept_port(listen.host, listen.port, config.memory.data_dir if config.memory is not None else None)


def _cannot_listen(config: Config, error: OSError | OverflowError, supervised: bool) -> str:
    reason = getattr(error, "strerror", None) or str(error)
    text = f"cannot listen on {config.listen.host}:{config.listen.port}: {reason}"
    if supervised and getattr(error, "errno", None) == errno.EADDRINUSE:
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


def learner_wanted(config: Config) -> bool:
    """Whether there is anything to learn, and it is allowed: then a learner runs beside the workers."""
    memory = config.memory
    if memory is None or not memory.examples.enabled or not config.learning.enabled:
        return False
    return any(model.policy == "in_context" or model.may_have_tasks for model in config.models.values())


def admin_wanted(config: Config) -> bool:
    """Whether admin pages are served: where there is a folder that outlives the gateway, unless they are switched off."""
    return config.admin.enabled and config.memory is not None and config.memory.data_dir is not None


def _supervise(config: Config, port: int, config_file: Path | None) -> int:
    from understudy.processes.supervisor import Supervisor

    def work() -> int:
        with bind(config.listen.host, port, shared=True) as sock:
            try:
                return _run_worker(config, sock)
            finally:
                WRITER.close()

    helpers = _helpers(config, port, config_file)
    return Supervisor(
        work,
        config.listen.workers,
        grace_s=config.listen.grace_s,
        helpers=helpers,
        add_up_metrics=_REPLAYER in helpers,
    ).run()


def _helpers(config: Config, port: int, config_file: Path | None) -> dict[str, Callable[[], int]]:
    """The processes beside the workers, by name; `port` is the workers'."""
    wanted: dict[str, Callable[[Config], int]] = {}
    if learner_wanted(config):
        wanted["learner"] = _learn
    if config.replay.enabled:
        wanted[_REPLAYER] = _replay
    if admin_wanted(config):
        wanted["admin"] = partial(_admin, port, config_file)
    return {name: partial(_help, run, config) for name, run in wanted.items()}


def _help(run: Callable[[Config], int], config: Config) -> int:
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


def _run_worker(config: Config, sock: socket.socket) -> int:
    import uvloop

    from understudy.build import CannotStart

    try:
        uvloop.run(_serve(config, sock))
    except CannotStart as error:
        click.echo(f"understudy: cannot start\n{error}", err=True)
        return 2
    return 0


async def _serve(config: Config, sock: socket.socket) -> None:
    from gateway.server import ServerLimits, serve, stop_on_signals
    from understudy.build import Gateway
    from understudy.settings.knobs import knobs_of

    # Signals are handled once there is something to stop in order.
    gateway = Gateway(config)
    stop = asyncio.Event()
    stop_on_signals(stop)
    calm_collector()

    def listening() -> None:
        host, port = sock.getsockname()[:2]
        where = f"[{host}]" if ":" in host else host
        log.info(
            "listening",
            url=f"http://{where}:{port}",
            prefixes=list(config.listen.advanced.prefixes),
            pid=os.getpid(),
        )

    try:
        gateway.start()
        limits = knobs_of(ServerLimits, config.listen, config.listen.advanced)
        await serve(gateway.handle, limits, sock=sock, stop=stop, listening=listening)
    finally:
        await gateway.aclose()
        log.info("stopped", threads=threading.active_count())
