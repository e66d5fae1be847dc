"""The replayer's process: improves stored examples when a replay is due, until it is told to stop."""

from __future__ import annotations

import asyncio
import signal

import structlog

from understudy.settings.config import Config
from understudy.setup.replayer import replayer

log = structlog.get_logger(__name__)


def replay(config: Config) -> int:
    """The process: replays what is due until SIGTERM or SIGINT. Returns its exit status."""

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, stop.set)
        async with replayer(config) as parts:
            async with asyncio.TaskGroup() as group:
                working = [group.create_task(part) for part in parts]
                log.info("replaying")
                await stop.wait()
                for task in working:
                    task.cancel()

    asyncio.run(main())
    return 0
