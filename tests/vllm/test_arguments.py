"""Every command line of vLLM's that documentation and compose file show, read by vLLM's own parser. No GPU is needed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from benchmarks.vllm import environment as vllm_environment
from tests.test_deployment import COMPOSE, ROOT

_PARSE = """
import json, sys
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
told = []
for line in json.load(sys.stdin):
    args = make_arg_parser(FlexibleArgumentParser()).parse_args(line)
    validate_parsed_serve_args(args)
    engine = AsyncEngineArgs.from_cli_args(args)
    kv = engine.kv_transfer_config
    told.append([engine.kv_offloading_size, engine.kv_offloading_backend, kv and kv.kv_connector, engine.scheduling_policy])
print("TOLD " + json.dumps(told))
"""


def documented(page: str) -> list[list[str]]:
    """The `vllm serve` lines of a page's code blocks, continued lines joined, as arguments."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8").replace("\\\n", " ")
    return [shlex.split(line)[2:] for line in re.findall(r"^ *(vllm serve .*)$", text, re.MULTILINE)]


def read_by_vllm(lines: list[list[str]]) -> list[list[object]]:
    """What vLLM makes of each: [kv_offloading_size, kv_offloading_backend, kv_connector, scheduling_policy]."""
    environment = vllm_environment.folder()
    if not vllm_environment.is_installed(environment):
        pytest.skip(f"vLLM is not installed in {environment}: run `make vllm-env`")
    done = subprocess.run(
        [str(environment / "bin" / "python"), "-c", _PARSE],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path("/"),
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = next(line for line in done.stdout.splitlines() if line.startswith("TOLD "))
    parsed = json.loads(told[5:])
    assert isinstance(parsed, list)
    return parsed


def test_vllm_takes_every_command_line_that_is_shown() -> None:
    servers = [service["command"] for service in COMPOSE["services"].values() if "image" in service]
    composed = [[re.sub(r"\$\{\w+:-(.*?)\}", r"\1", word) for word in command] for command in servers]
    shown = documented("how-to/run-real-models.md") + documented("reference/deploying.md")
    told = read_by_vllm([*composed, *shown])
    assert told[0] == [32.0, "native", None, "priority"] and told[1][3] == "priority"
    connectors = {str(connector) for _, _, connector, _ in told[2:] if connector}
    assert connectors == {"OffloadingConnector", "LMCacheConnectorV1", "LMCacheMPConnector"}
    assert {(size, backend) for size, backend, _, _ in told[2:] if size} == {
        (32.0, "native"),
        (32.0, "lmcache"),
    }


def test_vllm_refuses_what_it_does_not_know() -> None:
    """So that the test above means something."""
    with pytest.raises(AssertionError, match="--kv-offloading-sise"):
        read_by_vllm([["--model", "m", "--kv-offloading-sise", "32"]])
