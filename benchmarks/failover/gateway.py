"""The gateway under test, as a process of its own, with the engines of all scenarios in its configuration."""

from __future__ import annotations

import http.client
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from benchmarks import processes
from benchmarks.failover.scenario import Behind, Model
from benchmarks.failover.wall import Wall
from benchmarks.processes import free_port
from benchmarks.recorded import ROOT

PAGE = ROOT / "docs" / "how-to" / "failover.md"
_READY_S = 180.0


def documented(page: Path = PAGE) -> dict[str, Any]:
    """The settings of an engine that the page has to copy: of its first block of YAML, without where the engine is.

    Raises SystemExit where there is no such block.
    """
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    block = text.partition("```yaml\n")[2].partition("```")[0]
    engines = (yaml.safe_load(block) or {}).get("engines") or {}
    if not engines:
        raise SystemExit(f"{page} has no block of YAML with engines")
    found = dict(next(iter(engines.values())))
    for name in ("base_url", "api_key", "model", "price"):
        found.pop(name, None)
    return found


def configuration(
    models: Sequence[Model], wall: Wall, common: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """What `understudy serve` is given: each model with its engines, and nothing else but `common` for each of them."""
    engines: dict[str, Any] = {}
    served: dict[str, Any] = {}
    for one in models:
        served[one.name] = {"engines": list(one.engines)}
        for name, behind in one.engines.items():
            engines[name] = _merged(
                {
                    **_where(name, behind, wall),
                    "api_key": f"sk-of-{name}",
                    "model": name,
                },
                common,
                behind.settings,
            )
    return {
        "listen": {"grace_s": 1},
        "engines": engines,
        "models": served,
        "memory": {"data_dir": str(folder / "data")},
    }


def _where(name: str, behind: Behind, wall: Wall) -> dict[str, Any]:
    if behind.replicas:
        scripts = {f"{name}-{number}": script for number, script in enumerate(behind.replicas)}
        wall.scripts.update(scripts)
        return {"base_urls": [wall.base_url(one) for one in scripts]}
    wall.scripts[name] = behind.script
    return {"base_url": behind.base_url() if behind.base_url else wall.base_url(name)}


def _merged(*parts: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            found[key] = _merged(found.get(key) or {}, value) if isinstance(value, dict) else value
    return found


@contextmanager
def running(config: dict[str, Any], folder: Path) -> Iterator[str]:
    """The gateway's origin, once it is ready. Raises NotReady."""
    port, file, log = free_port(), folder / "config.yaml", folder / "gateway.log"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [sys.executable, "-m", "understudy", "serve", "--config", str(file), "--admin", "off"]
    with processes.started([*command, "--port", str(port)], log) as process:
        processes.wait_until(
            lambda: _ready(port), "the gateway", process, log, within_s=_READY_S, pause_s=0.1
        )
        # What is loaded at the beginning is not what is measured.
        time.sleep(1.0)
        yield f"http://127.0.0.1:{port}"


def _ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
