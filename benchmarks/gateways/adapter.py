"""What there is to know about a peer, as plain data; one may be written in YAML.

    name: my-gateway
    program: my-gateway            # must be on PATH, otherwise the peer is left out
    command: [my-gateway, --config, "{config}", --port, "{port}"]
    config: |                      # optional; written to {config}
      upstream: {upstream}/v1
    config_name: my-gateway.yaml   # optional
    ready_path: /health            # polled until it answers 200
    base_path: /v1                 # where /chat/completions is
    headers: {authorization: Bearer anything}
    env: {LOG_LEVEL: error}
    ready_within_s: 60
    note: one worker, as its docs recommend per core

In `command`, `config`, `env` and `headers` these are filled in: {port}, {upstream} (a URL without /v1),
{upstream_address}, {config}, {folder}, {python}, {program}, {model}, and {secret}, a key made up for the occasion.
"""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadtest.errors import LoadError

_PLACE = re.compile(r"\{(port|upstream|upstream_address|config|folder|python|model|program|secret)\}")


@dataclass(frozen=True)
class Peer:
    """One gateway, as data."""

    name: str
    program: str
    command: tuple[str, ...]
    config: str = ""
    config_name: str = "peer.conf"
    ready_path: str = "/health"
    base_path: str = "/v1"
    headers: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    ready_within_s: float = 60.0
    note: str = ""

    def found_at(self) -> str | None:
        """The program's full path, or None where it is not installed."""
        beside_python = str(Path(sys.executable).parent)
        return shutil.which(self.program) or shutil.which(self.program, path=beside_python)


def filled(text: str, values: dict[str, str]) -> str:
    """The text with its places filled in. Braces that are no known place stay: configurations are full of them."""
    return _PLACE.sub(lambda place: values[place[1]], text)


def read_peer(path: Path) -> Peer:
    """A peer from a YAML file. Raises LoadError naming the file and what is wrong with it."""
    import yaml

    try:
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise LoadError(f"cannot read the adapter {path}: {error}") from None
    if not isinstance(said, dict):
        raise LoadError(f"the adapter {path} must be a mapping with name, program and command")
    known = set(Peer.__dataclass_fields__)
    if unknown := set(said) - known:
        raise LoadError(
            f"the adapter {path} has unknown keys {', '.join(sorted(unknown))};"
            f" known are {', '.join(sorted(known))}"
        )
    command = said.get("command")
    if not said.get("name") or not isinstance(command, list) or not command:
        raise LoadError(f"the adapter {path} needs a name and a command (a list of words)")
    given: dict[str, Any] = dict(said)
    given["command"] = tuple(str(word) for word in command)
    given.setdefault("program", given["command"][0])
    for key in ("headers", "env"):
        pairs = said.get(key) or {}
        if not isinstance(pairs, dict):
            raise LoadError(f"the adapter {path}: {key} must be a mapping of names to values")
        given[key] = tuple((str(name), str(value)) for name, value in pairs.items())
    return Peer(**given)
