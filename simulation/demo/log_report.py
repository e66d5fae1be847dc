"""What a log would have saved: the demo's first requests, replayed by the command that does so with anybody's log."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import yaml

from simulation.demo.settings import MODEL, DemoSettings, gateway_config

_REQUESTS = 200
_USD = 0.05
_MOST_S = 120.0


async def report_on(log: bytes, settings: DemoSettings, folder: Path) -> bool:
    """Leave the report on a log of chats, as JSON lines, in the memory of the demo in this folder.

    False: the command failed, or took too long.
    """
    recorded, config = folder / "recorded.jsonl", folder / "recorded.yaml"
    recorded.write_bytes(b"".join(log.splitlines(keepends=True)[:_REQUESTS]))
    # Requests are replayed one by one, and nobody waits for their answers.
    config.write_text(yaml.safe_dump(gateway_config(replace(settings, pace=0.0), folder)), encoding="utf-8")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "understudy", "learn", "logs", str(recorded), "--config", str(config)),
        *("--model", MODEL, "--budget-usd", str(_USD)),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        # As the gateway's: Ctrl-C reaches the demo alone.
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_MOST_S):
            await child.wait()
    except TimeoutError:
        pass
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return child.returncode == 0
