"""The official SDKs run applications unchanged, over two workers, with the results that a client gets call by call."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.flow.test_runs_workers import Site, site
from tests.flow.test_sdk_node import HERE, installed

openai = pytest.importorskip("openai")


def chained(count: int) -> str:
    """What a client gets that carries each answer into the next question by itself."""
    answer = "<0>"
    for i in range(1, count):
        answer = f"<{i} {answer}>"
    return answer


REDUCED = f"<{' '.join(f'<chunk {i}>' for i in range(20))}>"


def message(text: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}]}


def understudy(**more: Any) -> dict[str, Any]:
    return {"understudy": more}


def step(text: str, name: str) -> dict[str, Any]:
    return message(text) | understudy(output={"name": name})


def map_reduce() -> dict[str, Any]:
    names = [f"m{i}" for i in range(20)]
    steps = [step(f"chunk {i}", name) for i, name in enumerate(names)]
    return {"steps": [*steps, step(" ".join(f"{{{{{name}}}}}" for name in names), "all")]}


def walk(url: str) -> dict[str, Any]:
    """Through the synchronous client."""
    seen: dict[str, Any] = {}
    with openai.OpenAI(base_url=url, api_key="sk-ann", max_retries=0) as client:
        create = client.chat.completions.create

        def submit(text: str, name: str, app: str, **more: Any) -> Any:
            said = understudy(app=app, submit=True, output={"name": name}, **more)
            return create(**message(text), extra_body=said)

        def value(id: str) -> Any:
            return client.get(f"/variables/{id}", cast_to=object, options={"params": {"wait_s": 60}})["value"]

        code = submit("Write {{task}}", "code", "py", inputs={"task": "a game"})
        test = submit("Test {{code}}", "test", "py")
        seen["submitted"] = [code.choices, code.understudy["run"][:4]]
        seen["figure7"] = [
            value(code.understudy["outputs"]["code"]),
            value(test.understudy["outputs"]["test"]),
        ]
        for i in range(20):
            last = submit(f"{i} {{{{c{i - 1}}}}}" if i else "0", f"c{i}", "chain")
        seen["chain"] = value(last.understudy["outputs"]["c19"])
        run = client.post("/runs", cast_to=object, body=map_reduce())
        seen["reduced"] = run["variables"]["all"]["value"]
        answer = create(**message("Tell {{code}}"), extra_body=understudy(app="py"))
        seen["answered"] = answer.choices[0].message.content
        chunks = create(**message("Tell {{code}}"), stream=True, extra_body=understudy(app="py"))
        seen["streamed"] = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        path = f"/variables/{code.understudy['outputs']['code']}"
        stream = openai.Stream[dict]
        told = list(
            client.get(
                path, cast_to=dict, stream=True, stream_cls=stream, options={"params": {"stream": True}}
            )
        )
        after = {"stream": True, "starting_after": told[1]["sequence_number"]}
        rest = client.get(path, cast_to=dict, stream=True, stream_cls=stream, options={"params": after})
        seen["told"] = [[event["type"] for event in told], [event["type"] for event in rest]]
        slow = client.post("/runs", cast_to=object, body={"steps": [step("slow", "s")], "background": True})
        client.post(f"/runs/{slow['id']}/cancel", cast_to=object)
        with pytest.raises(openai.APIStatusError) as failed:
            value(slow["variables"]["s"]["id"])
        seen["failed"] = [failed.value.status_code, failed.value.code]
        with pytest.raises(openai.ConflictError) as conflict:
            submit("again", "code", "py")
        seen["conflict"] = conflict.value.code
    return seen


async def walk_async(url: str) -> dict[str, Any]:
    """Through the asynchronous client: leaving, and many at once."""
    seen: dict[str, Any] = {}
    async with openai.AsyncOpenAI(base_url=url, api_key="sk-ann", max_retries=0) as client:
        several = (client.post("/runs", cast_to=object, body=map_reduce()) for _ in range(4))
        seen["reduced"] = {run["variables"]["all"]["value"] for run in await asyncio.gather(*several)}
        name = {"app": "left", "submit": True, "output": {"name": "s"}}
        await client.chat.completions.create(**message("slow"), extra_body=understudy(**name))
        waiting = asyncio.create_task(
            client.chat.completions.create(**message("After {{s}}"), extra_body=understudy(app="left"))
        )
        await asyncio.sleep(0.2)
        waiting.cancel()
        await asyncio.wait([waiting])
        got = await client.get("/apps/left/variables/s", cast_to=object)
        seen["left"] = got["status"]
        gone = await client.delete("/apps/left", cast_to=object)
        seen["forgotten"] = gone["deleted"]
    return seen


async def test_the_python_sdk_runs_applications(tmp_path: Path) -> None:
    async with site(tmp_path) as behind:
        seen = await asyncio.to_thread(walk, behind.run.url)
        check(seen)
        assert seen["answered"] == seen["streamed"] == "<Tell <Write a game>>"
        seen = await walk_async(behind.run.url)
        assert seen.pop("left") in ("pending", "streaming")
        assert seen == {"reduced": {REDUCED}, "forgotten": True}
        assert not any(prompt.startswith("After") for prompt in behind.upstream.asked)


@pytest.mark.slow
@pytest.mark.node
async def test_the_node_sdk_runs_applications(tmp_path: Path) -> None:
    folder = await asyncio.to_thread(installed)
    shutil.copy(HERE / "runs.mjs", folder)
    async with site(tmp_path) as behind:
        seen = await node(folder, behind)
    check(seen | {"reduced": seen["reduced"][1]})
    assert seen["reduced"][0] == "done" and seen["streamed"] == "<Tell <Write a game>>" and seen["cancelled"]


def check(seen: dict[str, Any]) -> None:
    assert seen["figure7"] == ["<Write a game>", "<Test <Write a game>>"] and seen["submitted"][0] == []
    assert seen["chain"] == chained(20) and seen["reduced"] == REDUCED
    whole = ["variable.created", "variable.delta", "variable.done"]
    assert seen["told"] == [whole, whole[2:]]
    assert seen["failed"] == [424, "producer_failed"]
    assert seen["conflict"] in ("variable_exists", ["ConflictError", "variable_exists"])


async def node(folder: Path, behind: Site) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI")}
    process = await asyncio.create_subprocess_exec(
        "node",
        "runs.mjs",
        behind.run.url,
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 180)
    assert process.returncode == 0, err.decode()
    return dict(json.loads(out))
