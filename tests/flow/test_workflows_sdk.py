"""The official SDKs call a workflow as a model, unchanged, over two workers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from tests.flow.line import Asked
from tests.flow.line import upstream as scripted
from tests.flow.process import Gateway, running
from tests.flow.test_line_runs import event, prompt
from tests.flow.test_line_workflows import DOC_QA, DOCUMENTS, ECHO, answers, config, question
from tests.flow.test_sdk_node import HERE, installed
from tests.patience import PATIENCE_S

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")

FAILS = {
    "inputs": {"question": "last_user"},
    "steps": {"list": {"chat": "Not a list: {{question}}", "model": "m", "splits": "json"}},
    "output": "list",
}


BREAKS = {
    "inputs": {"question": "last_user"},
    "steps": {"said": {"chat": "Break: {{question}}", "model": "m"}},
    "output": "said",
}


HEARD = threading.Event()
"""The first piece of the answer that breaks has come to its client."""


async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
    """The same answers; but one that is to break ends with an error once its first piece was heard."""
    if not prompt(asked).startswith("Break"):
        return await answers(request, asked)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(event("Osl"))
    await asyncio.to_thread(HEARD.wait, PATIENCE_S)
    await response.write(b'data: {"error": {"message": "The GPU is gone.", "code": "gone"}}\n\n')
    return response


@asynccontextmanager
async def site(tmp_path: Path) -> AsyncIterator[Gateway]:
    """A gateway of two workers with workflows."""
    async with scripted() as behind:
        behind.script = script
        settings = config(behind, tmp_path)
        settings["workflows"] = {"doc-qa": DOC_QA, "echo": ECHO, "fails": FAILS, "breaks": BREAKS}
        settings |= {"listen": {"port": 0, "workers": 2, "grace_s": 2}, "log": {"requests": False}}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
        starting = running("--config", str(tmp_path / "config.yaml"), workers=2)
        run = await asyncio.to_thread(starting.__enter__)
        try:
            yield run
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)


def walk(url: str) -> dict[str, Any]:
    """Through the synchronous client."""
    seen: dict[str, Any] = {}
    asked = question()
    more = {"extra_body": {"understudy": asked.pop("understudy")}}
    with openai.OpenAI(base_url=url, api_key="sk-ann", max_retries=0) as client:
        seen["models"] = [model.id for model in client.models.list()]
        raw = client.chat.completions.with_raw_response.create(**asked, **more)
        answer = raw.parse()
        seen["answer"], seen["usage"] = answer.choices[0].message.content, answer.usage.total_tokens
        seen["run"] = raw.headers["x-understudy-run"]
        seen["status"] = client.get(f"/runs/{seen['run']}", cast_to=object)["status"]
        chunks = list(
            client.chat.completions.create(
                **asked, **more, stream=True, stream_options={"include_usage": True}
            )
        )
        seen["streamed"] = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        seen["streamed_usage"] = chunks[-1].usage.total_tokens
        with client.chat.completions.stream(**asked, **more) as stream:
            seen["final"] = stream.get_final_completion().choices[0].message.content
        said = client.responses.create(model="echo", input="Oslo?")
        with client.responses.stream(model="echo", input="Bergen?") as stream:
            final = stream.get_final_response()
        text = client.completions.create(model="echo", prompt="Oslo?").choices[0].text
        seen["other_apis"] = [said.output_text, final.output_text, text]
        bad = {"extra_body": {"understudy": {"inputs": {"x": "y"}}}}
        for name, body in (("refused", asked | bad), ("failed", asked | {"model": "fails"})):
            with pytest.raises(openai.APIStatusError) as caught:
                client.chat.completions.create(**body)
            error = caught.value
            seen[name] = [type(error).__name__, error.status_code, error.code, error.param]
        said: list[str] = []
        with pytest.raises(openai.APIError, match="GPU is gone") as broken:
            for chunk in client.chat.completions.create(**asked | {"model": "breaks", "stream": True}):
                said += [choice.delta.content or "" for choice in chunk.choices]
                if "".join(said):
                    HEARD.set()
        seen["broken"] = ["".join(said), broken.value.code, broken.value.param]
    return seen


def check(seen: dict[str, Any]) -> None:
    assert seen["models"] == ["m", "breaks", "doc-qa", "echo", "fails"]
    assert seen["answer"].startswith("<What is the capital of Norway? ")
    assert "The capital of Norway is Oslo" in seen["answer"]
    assert seen["streamed"] == seen["final"] == seen["answer"]
    assert seen["usage"] == seen["streamed_usage"] == 30
    assert seen["run"].startswith("run_") and seen["status"] == "done"
    assert seen["refused"] == ["BadRequestError", 400, "unused_input", "understudy.inputs.x"]
    assert seen["failed"][1:] == [424, "transform_failed", "list"]


def walk_messages(url: str) -> list[str]:
    """Through Anthropic's client."""
    asked: Any = {"model": "echo", "max_tokens": 50, "messages": [{"role": "user", "content": "Narvik?"}]}
    with anthropic.Anthropic(base_url=url.removesuffix("/v1"), api_key="sk-ann", max_retries=0) as client:
        with client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
        whole = client.messages.create(**asked)
    return [each.text for message in (streamed, whole) for each in message.content if each.type == "text"]


async def walk_async(url: str) -> None:
    """Through the asynchronous client: many at once, and one that leaves."""
    asked = question()
    more = {"extra_body": {"understudy": asked.pop("understudy")}}
    async with openai.AsyncOpenAI(base_url=url, api_key="sk-ann", max_retries=0) as client:
        create = client.chat.completions.create
        several = await asyncio.gather(*(create(**asked, **more) for _ in range(8)))
        assert len({answer.choices[0].message.content for answer in several}) == 1
        stream = await create(**asked, **more, stream=True)
        async for _ in stream:
            await stream.close()
            break
        name = "mine"
        made = await client.post("/workflows", cast_to=object, body={"name": name, **ECHO})
        assert made["number"] == 1
        async with asyncio.timeout(30):
            # Any worker may have the connection; each knows of it within a moment.
            said = await create(model=f"wf/{name}", messages=[{"role": "user", "content": "Oslo?"}])
        assert said.choices[0].message.content == "<Say Oslo?>"


async def test_the_python_sdk_calls_a_workflow_as_a_model(tmp_path: Path) -> None:
    async with site(tmp_path) as run:
        seen = await asyncio.to_thread(walk, run.url)
        check(seen)
        assert seen["other_apis"] == ["<Say Oslo?>", "<Say Bergen?>", "<Say Oslo?>"]
        assert await asyncio.to_thread(walk_messages, run.url) == ["<Say Narvik?>"] * 2
        assert seen["broken"] == ["Osl", "step_failed", "said"]
        await walk_async(run.url)


@pytest.mark.slow
@pytest.mark.node
async def test_the_node_sdk_calls_a_workflow_as_a_model(tmp_path: Path) -> None:
    folder = await asyncio.to_thread(installed)
    shutil.copy(HERE / "workflows.mjs", folder)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI")}
    async with site(tmp_path) as run:
        process = await asyncio.create_subprocess_exec(
            "node",
            "workflows.mjs",
            run.url,
            json.dumps(DOCUMENTS),
            cwd=folder,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 180)
    assert process.returncode == 0, err.decode()
    check(json.loads(out))
