"""The demo's gateway: `understudy serve` as a child process, which is always stopped at the end."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gateway.log_texts import text_of

Report = Callable[[str], None]
"""Takes a sentence about what is being done."""

_START_S = 300.0
"""Time to be ready: on a slow machine, with nothing compiled yet, building the embedding model takes a minute or two."""
_STOP_S = 10.0
_POLL_S = 0.05


class GatewayDidNotStart(Exception):
    """The child process ended, or was not ready in time. The text holds the end of its log."""


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway that is ready."""

    url: str
    """Without a path, e.g. http://127.0.0.1:8080."""
    log: Path

    async def settled(self, http: aiohttp.ClientSession) -> None:
        """Wait until everything answered so far is remembered and can be found."""
        while True:
            async with http.get(f"{self.url}/readyz", params={"settled": "1"}) as reply:
                if reply.status == 200:
                    return
            await asyncio.sleep(0.002)

    def logged(self, event: str, **fields: str) -> int:
        """How many lines of its log have this event, with these fields."""
        wanted = {"event": event, **fields}.items()
        return sum(wanted <= entry.items() for entry in _log_entries(self.log) if entry.get("event") == event)

    async def bypassed(self, http: aiohttp.ClientSession) -> int:
        """How many stages of requests so far were late or failed, so that the requests continued without them."""
        async with http.get(f"{self.url}/metrics") as reply:
            families = text_string_to_metric_families(await reply.text())
        samples = (s for f in families for s in f.samples)
        return int(sum(s.value for s in samples if s.name == "understudy_bypassed_total"))


def _no_report(text: str) -> None:
    pass


@asynccontextmanager
async def running_gateway(
    config: Mapping[str, Any], folder: Path, report: Report = _no_report
) -> AsyncIterator[RunningGateway]:
    """`understudy serve` as a child process, ready. Leaving stops it. Raises GatewayDidNotStart.

    `report` is told what the gateway is doing while it starts.
    """
    config_path, log_path = folder / "config.yaml", folder / "gateway.log"
    config_path.write_text(yaml.safe_dump(dict(config), sort_keys=False), encoding="utf-8")
    with log_path.open("wb") as log:
        # A session of its own: Ctrl-C reaches the demo alone, which then stops the gateway in order.
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "understudy", "serve", "--config", str(config_path)),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield RunningGateway(await _ready(child, log_path, report), log_path)
    finally:
        await _stop(child)


async def _ready(child: asyncio.subprocess.Process, log_path: Path, report: Report) -> str:
    try:
        async with asyncio.timeout(_START_S), aiohttp.ClientSession() as http:
            url = await _listening(child, log_path, report)
            while not await _answers(http, f"{url}/readyz"):
                _check_alive(child, log_path)
                await asyncio.sleep(_POLL_S)
            return url
    except TimeoutError:
        raise GatewayDidNotStart(_why(f"was not ready within {_START_S:g} s", log_path)) from None


async def _listening(child: asyncio.subprocess.Process, log_path: Path, report: Report) -> str:
    """Where the gateway listens, once it does. Until then its log is read, and what it does is reported."""
    reported = 0
    while True:
        entries = _log_entries(log_path)
        for entry in entries[reported:]:
            text = text_of(entry.get("event"), entry)
            if text is not None:
                report(text)
        reported = len(entries)
        url = _url_in(entries, "listening")
        if url is not None:
            return url
        _check_alive(child, log_path)
        await asyncio.sleep(_POLL_S)


async def _answers(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(url) as reply:
            return reply.status == 200
    except aiohttp.ClientError:
        return False


def _check_alive(child: asyncio.subprocess.Process, log_path: Path) -> None:
    if child.returncode is not None:
        raise GatewayDidNotStart(_why(f"ended with status {child.returncode}", log_path))


def announced_url(log_path: Path, event: str) -> str | None:
    """The URL that the gateway's log has with this event; None while it has none."""
    return _url_in(_log_entries(log_path), event)


def _url_in(entries: Sequence[Mapping[str, Any]], event: str) -> str | None:
    """The URL of the first entry with this event; None without one."""
    return next((str(entry["url"]) for entry in entries if entry.get("event") == event), None)


def _log_entries(log_path: Path) -> list[dict[str, Any]]:
    """The events in the log, in order. A last line that is still being written is left out."""
    entries = []
    for line in log_path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                entries.append(entry)
    return entries


def _why(what: str, log_path: Path) -> str:
    tail = log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
    return "\n".join([f"the demo's gateway {what}; the end of its log:", *tail])


async def _stop(child: asyncio.subprocess.Process) -> None:
    if child.returncode is not None:
        return
    with suppress(ProcessLookupError):
        child.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await child.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
