"""The stage of the demo: its configuration, and the gateway as a child process that is always stopped again."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from prometheus_client.parser import text_string_to_metric_families

MODEL = "demo"
"""The model name that clients of the demo ask for."""
SMALL, LARGE = "small", "large"
PRICES = {SMALL: (0.15, 0.60), LARGE: (2.50, 10.00)}
"""US dollars per million tokens in and out, of the order of what hosted models of the two classes cost."""
THETA, M, MAX_EXAMPLES, SAME_NAMES = 0.77, 1, 5, True
"""The policy's knobs, chosen by the sweep in docs/simulated-world.md."""
_START_S = 60.0
_STOP_S = 10.0


def model_cache() -> Path:
    """The user's cache folder, as XDG has it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy" / "models"


@dataclass(frozen=True, slots=True)
class Stage:
    """What the demo runs on. `requests` are played at `rate_per_s`, or one after the other where that is None."""

    requests: int = 4800
    rate_per_s: float | None = 80.0
    concurrency: int = 128
    seed: int = 7
    facts: int = 3000
    pace: float = 1.0
    port: int = 0
    model_cache: Path = field(default_factory=model_cache)
    """Where the embedding model is kept once built, so that a second demo starts at once."""
    baseline: int = 400
    """Requests of the same traffic that each engine is asked again by itself, at the end."""
    feedback_share: float = 0.0
    """Share of answers that get a score by `POST /v1/feedback`. Above 0 the gateway learns from them (policy in_context);
    at 0 it follows the few_shot rule throughout."""
    admin_port: int | None = None
    """Where the admin pages are served, 0 for a free port; None serves none."""

    @property
    def learns(self) -> bool:
        """Whether there is anything to learn from."""
        return self.feedback_share > 0

    @property
    def sequential(self) -> bool:
        """Whether each answer is remembered before the next question: the same numbers every time."""
        return self.rate_per_s is None


class GatewayDidNotStart(Exception):
    """The child process ended, or was not ready in time. The text holds the end of its log."""


def memory_folder(folder: Path) -> Path:
    """Where the demo's gateway keeps what it remembers."""
    return folder / "memory"


def demo_config(stage: Stage, data_dir: Path) -> dict[str, Any]:
    """The configuration file of the demo's gateway, as data."""

    def engine(name: str, role: str, **pace: float) -> dict[str, Any]:
        price = dict(zip(("input_usd_per_mtok", "output_usd_per_mtok"), PRICES[name], strict=True))
        return {
            "kind": "simulated",
            "role": role,
            "seed": stage.seed,
            "facts": stage.facts,
            "pace": stage.pace,
            "price": price,
            "context_tokens": 16_000,
            **pace,
        }

    few_shot = {"theta": THETA, "m": M, "max_examples": MAX_EXAMPLES, "same_names": SAME_NAMES}
    policy = "in_context" if stage.learns else "few_shot"
    # The usual deadline suits a server. A laptop busy with the demo's other half would often be late, and a late embedding
    # is bypassed; where the numbers must repeat, it must never be.
    deadline_ms = 30_000 if stage.sequential else 500
    return {
        "listen": {"host": "127.0.0.1", "port": stage.port, "grace_s": 2},
        "engines": {
            SMALL: engine(SMALL, "understudy", ttft_ms=90, token_ms=5, capacity=64),
            LARGE: engine(LARGE, "lead", ttft_ms=350, token_ms=18, capacity=96),
        },
        "models": {MODEL: {"engines": [SMALL, LARGE], "policy": policy, "few_shot": few_shot}},
        "memory": {
            "data_dir": str(memory_folder(data_dir)),
            "advanced": {
                "embedding_cache_dir": str(stage.model_cache),
                "embedding_deadline_ms": deadline_ms,
                "retrieve_deadline_ms": deadline_ms,
            },
        },
        # A minute has to show what takes a day elsewhere.
        "learning": {"advanced": {"every_s": 2, "min_new_outcomes": 50}},
        "feedback": {"advanced": {"per_minute": 100_000}},
        "log": {"requests": False},
        "admin": {"enabled": stage.admin_port is not None, "port": stage.admin_port or 0},
    }


@dataclass(frozen=True, slots=True)
class Running:
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

    async def bypassed(self, http: aiohttp.ClientSession) -> int:
        """How many stages of requests so far were late or broken and gone without."""
        async with http.get(f"{self.url}/metrics") as reply:
            families = text_string_to_metric_families(await reply.text())
        samples = (s for f in families for s in f.samples)
        return int(sum(s.value for s in samples if s.name == "understudy_bypassed_total"))


@asynccontextmanager
async def running_gateway(config: Mapping[str, Any], folder: Path) -> AsyncIterator[Running]:
    """`understudy serve` as a child process, ready. Leaving stops it. Raises GatewayDidNotStart."""
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
        yield Running(await _ready(child, log_path), log_path)
    finally:
        await _stop(child)


async def _ready(child: asyncio.subprocess.Process, log_path: Path) -> str:
    try:
        async with asyncio.timeout(_START_S), aiohttp.ClientSession() as http:
            while (url := announced(log_path, "listening")) is None:
                if child.returncode is not None:
                    raise GatewayDidNotStart(_why(f"ended with status {child.returncode}", log_path))
                await asyncio.sleep(0.05)
            while True:
                if child.returncode is not None:
                    raise GatewayDidNotStart(_why(f"ended with status {child.returncode}", log_path))
                with suppress(aiohttp.ClientError):
                    async with http.get(f"{url}/readyz") as reply:
                        if reply.status == 200:
                            return url
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise GatewayDidNotStart(_why(f"was not ready within {_START_S:g} s", log_path)) from None


def announced(log_path: Path, event: str) -> str | None:
    """The URL that the gateway's log tells with this event; None while it does not."""
    for line in log_path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and entry.get("event") == event:
                return str(entry["url"])
    return None


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
