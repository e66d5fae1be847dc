"""What a newcomer tries first: help and the version, and one command for a small and a large engine that loses nothing."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from tests.flow.line import Asked, completion, line, upstream
from tests.flow.process import ran
from understudy.__main__ import main
from understudy.commands.serve import config_of_options


@pytest.mark.parametrize("arguments", [["-h"], ["check", "-h"], ["keys", "create", "-h"], ["serve", "-h"]])
def test_h_is_help(arguments: list[str]) -> None:
    # In a process of its own: click keeps the help option of a command that was first asked without its group.
    status, said, _ = ran(*arguments)
    assert status == 0 and said.startswith("Usage: ")


def test_the_version_is_told() -> None:
    told = CliRunner().invoke(main, ["--version"])
    assert told.exit_code == 0 and told.stdout.startswith("understudy, version ")


def test_a_command_misspelt_is_told() -> None:
    told = CliRunner().invoke(main, ["srve"])
    assert told.exit_code == 2 and "srve" in told.stderr


async def test_small_and_large_pass_everything_else_to_the_large_one() -> None:
    async with upstream() as small, upstream() as large:
        small.script = large.script = _says
        options = {"small": f"{small.url}=s", "large": f"{large.url}=gpt-4o", "memory": "off", "port": 0}
        config = config_of_options(options).model_dump(by_alias=True)
        async with line(config) as gate:
            asked: list[tuple[str, str, dict[str, Any] | None]] = [
                ("POST", "/chat/completions", {"model": "another", "messages": []}),
                ("POST", "/embeddings", {"model": "e", "input": "x"}),
                ("POST", "/responses", {"model": "o3", "input": "x"}),
                ("POST", "/completions", {"model": "i", "prompt": "x"}),
                ("POST", "/messages", {"model": "c", "messages": []}),
                ("GET", "/files", None),
                ("POST", "/chat/completions", {"model": "gpt-4o", "messages": []}),
            ]
            for method, path, body in asked:
                async with gate.session.request(method, gate.url + path, json=body) as response:
                    assert response.status == 200, path
        assert [one.path.removeprefix("/v1") for one in large.asked] == [path for _, path, _ in asked]
        assert small.asked == []


async def _says(request: web.Request, asked: Asked) -> web.Response:
    if request.path.endswith("/chat/completions"):
        return web.json_response(completion("Fine."))
    return web.json_response({"object": "list", "data": [], "output": [], "id": "x"})
