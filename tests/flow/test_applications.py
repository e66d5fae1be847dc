"""The example of Parrot's Figure 7, asked in each way that openai-python can ask it, of a gateway with two workers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fences import fences
from tests.flow.process import Gateway, running
from tests.flow.upstream import Call, Upstream
from tests.patience import PATIENCE_S
from understudy.apps import App, Variable, VariableFailed, semantic_function

openai = pytest.importorskip("openai")

CODE = "You are an expert software engineer. Write python code of {{task}}. Code:"
TEST = "You are an experienced QA engineer. You write test code for {{task}}. Code: {{code}}. Your test code:"
FENCED = [{"regex": "```python\n([\\s\\S]*?)```"}, "strip"]
TASK = "a snake game"
GUIDE = Path(__file__).parents[2] / "docs" / "reference" / "applications.md"
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def prompt(call: Call) -> str:
    return str(call.json()["messages"][-1]["content"])


def answer_to(text: str) -> str:
    """What the engine says, and nothing else: a program that names its prompt."""
    return f"Here you are:\n```python\nprint({text!r})\n```\nEnjoy."


def code_in(answer: str) -> str:
    return answer.partition("```python\n")[2].partition("```")[0].strip()


def answers(call: Call) -> None:
    """An engine that answers the same to the same prompt, and refuses what it is asked to refuse."""
    asked, text = call.json(), prompt(call)
    if "refuse" in text:
        error = {"message": "No.", "type": "invalid_request_error", "param": None, "code": "refused"}
        call.answer(json.dumps({"error": error}).encode(), 400)
    elif asked.get("stream"):
        call.begin()
        said = answer_to(text)
        for at in range(0, len(said), 20):
            call.chunk(event({"content": said[at : at + 20]}))
        call.chunk(event({}, "stop"))
        if (asked.get("stream_options") or {}).get("include_usage"):
            call.chunk(b"data: " + json.dumps(chunk([]) | {"usage": USAGE}).encode() + b"\n\n")
        call.chunk(b"data: [DONE]\n\n")
        call.end()
    else:
        message = {"role": "assistant", "content": answer_to(text)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        whole = {**chunk([choice]), "object": "chat.completion", "usage": USAGE}
        call.answer(json.dumps(whole).encode())


def event(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: " + json.dumps(chunk([choice])).encode() + b"\n\n"


def chunk(choices: list[Any]) -> dict[str, Any]:
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-4o",
        "choices": choices,
    }


@pytest.fixture(scope="module")
def behind() -> Iterator[Upstream]:
    made = Upstream()
    made.plays(answers)
    yield made
    made.close()


@pytest.fixture(scope="module")
def two_workers(behind: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("applications")
    path = folder / "config.yaml"
    path.write_text(
        "listen: {workers: 2, grace_s: 2}\n"
        f"engines: {{big: {{kind: openai, base_url: '{behind.url}', api_key: sk-up}}}}\n"
        "models: {gpt-4o: {engines: [big]}}\n"
        f"memory: {{data_dir: '{folder / 'data'}', examples: {{enabled: false}}, exact: {{enabled: false}}}}\n"
    )
    with running("--config", str(path), workers=2) as process:
        yield process


@pytest.fixture
def client(two_workers: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=two_workers.url, api_key="sk-ann", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def by_the_client(two_workers: Gateway) -> tuple[str, str]:
    """The code and its test, each call made by the client, who waits for one to ask the other."""
    with openai.OpenAI(base_url=two_workers.url, api_key="sk-ann", max_retries=0) as client:

        def ask(text: str) -> str:
            messages = [{"role": "user", "content": text}]
            answer = client.chat.completions.create(model="gpt-4o", messages=messages)
            return code_in(answer.choices[0].message.content)

        code = ask(CODE.replace("{{task}}", TASK))
        return code, ask(TEST.replace("{{task}}", TASK).replace("{{code}}", code))


@semantic_function(model="gpt-4o", output="code", transform=FENCED)
def write_python_code(task: str) -> None:
    """You are an expert software engineer. Write python code of {{task}}. Code:"""


@semantic_function(model="gpt-4o", output="test", transform=FENCED)
def write_test_code(task: str, code: Variable) -> None:
    """You are an experienced QA engineer. You write test code for {{task}}. Code: {{code}}. Your test code:"""


@pytest.mark.slow
def test_figure_7_as_semantic_functions(client: openai.OpenAI, by_the_client: tuple[str, str]) -> None:
    with App(client):
        code = write_python_code(TASK)
        test = write_test_code(TASK, code)
        assert (code.get(), test.get()) == by_the_client
        # What was sent is known by its id; a later call may read it.
        assert code_in(answer_to("x")) and write_test_code(TASK, code).get("throughput") == by_the_client[1]


@semantic_function(model="gpt-4o", output="part", transform=[*FENCED, {"truncate": 40}], max_tokens=50)
def summarise(text: str, before: str | Variable) -> None:
    """So far: {{before}} Now summarise: {{text}}"""


def summarised_by_the_client(client: openai.OpenAI, text: str, before: str) -> str:
    messages = [{"role": "user", "content": f"So far: {before} Now summarise: {text}"}]
    answer = client.chat.completions.create(model="gpt-4o", messages=messages, max_tokens=50)
    return code_in(answer.choices[0].message.content)[:40]


def test_a_chain_of_20(client: openai.OpenAI) -> None:
    texts = [f"chapter {n}" for n in range(20)]
    expected: str = "nothing."
    for text in texts:
        expected = summarised_by_the_client(client, text, expected)
    with App(client, "chain-of-20") as app:
        last: str | Variable = "nothing."
        for text in texts:
            last = summarise(text, last)
        assert isinstance(last, Variable) and last.get(timeout_s=PATIENCE_S) == expected
    assert last.name == "part_20"
    found: Any = client.get("/apps/chain-of-20/variables/part_19", cast_to=object)
    assert found["status"] == "ready" and app is last.app


@semantic_function(model="gpt-4o", output="all", transform=[*FENCED, {"truncate": 40}], max_tokens=50)
def summarise_all(parts: list[str | Variable], words: int) -> None:
    """Of {{words}} words: {{parts}}"""


def of_all(parts: list[str]) -> str:
    return code_in(answer_to("Of 40 words: " + "\n".join(parts)))[:40]


def test_a_map_of_20_and_its_reduce(client: openai.OpenAI) -> None:
    texts = [f"chapter {n}" for n in range(20)]
    parts = [summarised_by_the_client(client, text, "") for text in texts]
    with App(client):
        mapped = [summarise(text, "") for text in texts]
        whole = summarise_all([*mapped, "and a text."], 40)
        assert whole.get(timeout_s=PATIENCE_S) == of_all([*parts, "and a text."])
        assert [each.get("throughput") for each in mapped] == parts
        assert summarise_all([], 40).get() == of_all([])


@semantic_function(model="gpt-4o", output="said")
async def say(what: Any) -> None:
    """Say {{what}}."""


async def test_asynchronous_calls_are_awaited_and_sent_together(two_workers: Gateway) -> None:
    async with openai.AsyncOpenAI(base_url=two_workers.url, api_key="sk-ann", max_retries=0) as client:
        async with App(client) as app:
            first, second = say({"n": [1, 2.5, True]}), say("b")
            assert await asyncio.gather(first, second) == [
                answer_to('Say {"n": [1, 2.5, true]}.'),
                answer_to("Say b."),
            ]
            third = say(first)
            pieces = [piece async for piece in third.astream()]
            assert pieces and "".join(pieces) == await third.aget()
            with pytest.raises(VariableFailed, match="said"):
                await say("refuse")
            with pytest.raises(VariableFailed, match="said"):
                await anext(say("refuse").astream())
        assert first.app is app


async def test_a_variable_that_is_set_later(two_workers: Gateway, client: openai.OpenAI) -> None:
    with App(client, "set-later") as app:
        topic = app.variable("topic")
        said = say(topic)
        app.send()
        topic.set("this")
        assert said.get() == answer_to("Say this.") and topic.get() == "this"
        assert "".join(said.stream()) == answer_to("Say this.")
    async with openai.AsyncOpenAI(base_url=two_workers.url, api_key="sk-ann", max_retries=0) as other:
        async with App(other, "set-later-too") as app:
            topic = app.variable("topic")
            said = say(topic)
            await topic.aset("that")
            assert await said == answer_to("Say that.")


def test_a_failure_names_the_variables_it_came_through(client: openai.OpenAI) -> None:
    with App(client):
        code = write_python_code("refuse this")
        test = write_test_code(TASK, code)
        with pytest.raises(VariableFailed, match="test <- code") as caught:
            test.get()
        assert caught.value.code == "producer_failed"


def test_figure_7_by_submits_and_gets(client: openai.OpenAI, by_the_client: tuple[str, str]) -> None:
    app = "figure-7-submits"
    outputs = {}
    for template, name, inputs in ((CODE, "code", {"task": TASK}), (TEST, "test", {"task": TASK})):
        answer = client.chat.completions.create(
            model="gpt-4o",
            messages=[{"role": "user", "content": template}],
            extra_body={
                "understudy": {
                    "app": app,
                    "inputs": inputs,
                    "submit": True,
                    "output": {"name": name, "transform": FENCED},
                }
            },
        )
        assert answer.choices == []
        outputs |= answer.model_extra["understudy"]["outputs"]
    found = [
        client.get(path, cast_to=object, options={"params": {"wait_s": 60, "criteria": "latency"}})
        for path in (f"/variables/{outputs['code']}", f"/apps/{app}/variables/test")
    ]
    assert tuple(each["value"] for each in found) == by_the_client
    assert [each["status"] for each in found] == ["ready", "ready"]


def test_the_last_step_streams_as_ever(client: openai.OpenAI, by_the_client: tuple[str, str]) -> None:
    app = "figure-7-stream"
    client.chat.completions.create(
        model="gpt-4o",
        messages=[{"role": "user", "content": CODE}],
        extra_body={
            "understudy": {
                "app": app,
                "inputs": {"task": TASK},
                "submit": True,
                "output": {"name": "code", "transform": FENCED},
            }
        },
    )
    chunks = client.chat.completions.create(
        model="gpt-4o",
        messages=[{"role": "user", "content": TEST}],
        stream=True,
        extra_body={"understudy": {"app": app, "inputs": {"task": TASK}}},
    )
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert code_in(said) == by_the_client[1]


def test_the_examples_of_the_guide_run(
    two_workers: Gateway, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", two_workers.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-reader")
    names: dict[str, Any] = {}
    blocks = list(fences(GUIDE, "python"))
    for block in blocks:
        exec(compile(block.text, str(GUIDE), "exec"), names)
    names["client"].close()
    told = capsys.readouterr().out
    assert (
        len(blocks) == 5 and "You are an expert software engineer. Write Python code of a snake game." in told
    )
    assert "ready print(" in told and "Make one summary of: Here you are:" in told


@pytest.mark.slow
async def test_figure_7_as_one_run_asked_by_the_asynchronous_client(
    two_workers: Gateway, by_the_client: tuple[str, str]
) -> None:
    def step(template: str, name: str) -> dict[str, Any]:
        return {
            "model": "gpt-4o",
            "messages": [{"role": "user", "content": template}],
            "understudy": {"output": {"name": name, "transform": FENCED}},
        }

    body = {
        "steps": [step(TEST, "test"), step(CODE, "code")],
        "inputs": {"task": TASK},
        "get": {"code": "latency", "test": "latency"},
    }
    async with openai.AsyncOpenAI(base_url=two_workers.url, api_key="sk-ann", max_retries=0) as client:
        runs = await asyncio.gather(*(client.post("/runs", cast_to=object, body=body) for _ in range(4)))
    for run in runs:
        assert run["status"] == "done"
        assert tuple(run["variables"][name]["value"] for name in ("code", "test")) == by_the_client
