"""Workflows over real sockets: called as a model, run by name, kept by tenants, and apart from other tenants'."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.flow.line import MODELS, Asked, Got, Line, Upstream, line
from tests.flow.line import upstream as scripted
from tests.flow.test_line_runs import EXACT_ONLY, KEY, Slow, event, get, prompt, say
from tests.patience import until

OTHER = {"Authorization": "Bearer sk-bob"}
DOC_QA = {
    "inputs": {"question": "last_user", "documents": "texts"},
    "steps": {
        "chunks": {"split": "{{documents}}", "tokens": 32, "overlap": 4},
        "index": {"ingest": "{{chunks}}"},
        "queries": {
            "chat": "Rewrite in 3 ways, as a JSON list: {{question}}",
            "model": "m",
            "splits": "json",
        },
        "found": {"search": "{{queries}}", "in": "{{index}}", "k": 4},
        "top": {"rerank": "{{found}}", "by": "{{question}}", "k": 2},
        "answer": {"fold": "{{top}}", "chat": "{{question}} {{item}} {{so_far}}", "model": "m"},
    },
    "output": "answer",
}
ECHO = {
    "inputs": {"question": "last_user"},
    "steps": {"answer": {"chat": "Say {{question}}", "model": "m"}},
    "output": "answer",
}
DOCUMENTS = [
    "The harbour of Oslo freezes rarely, because the Gulf Stream warms the coast.",
    "The capital of Norway is Oslo, which lies at the end of a fjord of a hundred kilometres.",
    "Bergen has two hundred and thirty one rainy days a year.",
]


async def answers(request: web.Request, asked: Asked) -> web.StreamResponse:
    """A model that writes lists where it is asked for one, and else says what it was asked."""
    text = prompt(asked)
    if text.startswith("Rewrite"):
        return await say(request, asked, '["capital of Norway", "Norway capital city", "Oslo"]')
    return await say(request, asked, f"<{text}>")


@pytest.fixture
async def behind() -> AsyncIterator[Upstream]:
    async with scripted() as made:
        made.script = answers
        yield made


def config(behind: Upstream, tmp_path: Path, **more: Any) -> dict[str, Any]:
    return {
        "engines": {"big": {"kind": "openai", "base_url": behind.url, "api_key": "sk-up"}},
        "models": {"m": {"engines": ["big"], "policy": "fixed"}},
        "memory": {"data_dir": str(tmp_path / "data"), **EXACT_ONLY},
        "components": {"sim": {"kind": "simulated", "fixed_ms": 1, "item_ms": 0}},
        "workflows": {"doc-qa": DOC_QA, "echo": ECHO},
        **more,
    }


@pytest.fixture
async def gate(behind: Upstream, tmp_path: Path) -> AsyncIterator[Line]:
    async with line(config(behind, tmp_path)) as made:
        yield made


def question(
    text: str = "What is the capital of Norway?", model: str = "doc-qa", **more: Any
) -> dict[str, Any]:
    asked = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    if model == "doc-qa":
        asked.setdefault("understudy", {"inputs": {"documents": DOCUMENTS}})
    return asked


async def call(gate: Line, asked: dict[str, Any], headers: dict[str, str] = KEY) -> Got:
    return await gate.post("/chat/completions", asked, headers)


def the_error(got: Got) -> tuple[int, str, str | None]:
    error = got.json["error"]
    return got.status, error["code"], error["param"]


# ---- called as a model


async def test_questions_about_documents_are_answered_by_a_model_of_that_name(
    gate: Line, behind: Upstream
) -> None:
    got = await call(gate, question())
    assert got.status == 200, got.body
    assert (
        got.text.startswith("<What is the capital of Norway? ")
        and "The capital of Norway is Oslo" in got.text
    )
    whole = got.json
    assert whole["model"] == "doc-qa" and whole["choices"][0]["finish_reason"] == "stop"
    run = (await get(gate, f"/runs/{got.headers['x-understudy-run']}")).json
    assert run["status"] == "done" and whole["understudy"]["run"] == run["id"]
    assert len(behind.asked) == 3, "one call for the queries, and one for each text that was found"
    usage = whole["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (21, 9, 30)
    assert usage["prompt_tokens"] == run["usage"]["prompt_tokens"]


@pytest.mark.parametrize("examples", [False, True])
async def test_the_houses_own_embedder_and_reranker_are_there_without_being_configured(
    behind: Upstream, tmp_path: Path, examples: bool
) -> None:
    local = config(behind, tmp_path, components={})
    local["memory"] |= {"examples": {"enabled": examples}, "advanced": {"embedding_cache_dir": str(MODELS)}}
    async with line(local) as gate:
        got = await call(gate, question())
        assert got.status == 200, got.body
        assert "The capital of Norway is Oslo" in got.text


async def test_the_output_step_is_streamed(gate: Line) -> None:
    plain = await call(gate, question())
    asked = question(stream=True, stream_options={"include_usage": True})
    streamed = await call(gate, asked)
    assert streamed.status == 200 and streamed.headers["x-understudy-run"].startswith("run_")
    *chunks, usage = streamed.events
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content") or "" for delta in deltas) == plain.text
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == [] and usage["usage"] == plain.json["usage"]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    without = await call(gate, question(model="echo", stream=True))
    assert without.text == "<Say What is the capital of Norway?>"
    assert not any("usage" in chunk for chunk in without.events)


@pytest.mark.parametrize("model", ["echo", "doc-qa"])
async def test_a_piece_is_sent_on_before_the_next_one_comes(gate: Line, behind: Upstream, model: str) -> None:
    slow = Slow("Os", "lo")

    async def last_is_slow(request: web.Request, asked: Asked) -> web.StreamResponse:
        last = model == "echo" or "<" in prompt(asked)
        return await (slow.script if last else answers)(request, asked)

    behind.script = last_is_slow
    body = json.dumps(question(model=model, stream=True))
    sent = asyncio.create_task(
        gate.session.post(gate.url + "/chat/completions", data=body, headers=KEY | JSON)
    )
    await slow.begun.wait()
    slow.let.release()
    async with await sent as response:
        seen = b""
        while b'"Os"' not in seen:
            seen += await response.content.readany()
        assert b'"lo"' not in seen
        slow.let.release()
        rest = await response.content.read()
        assert b'"lo"' in rest and rest.endswith(b"data: [DONE]\n\n")


async def test_sampling_fields_reach_the_chat_that_answers_and_no_other(gate: Line, behind: Upstream) -> None:
    got = await call(gate, question(model="echo", temperature=0.25, max_tokens=7, user="someone"))
    assert got.status == 200
    asked = behind.asked[-1].json
    assert asked["temperature"] == 0.25 and asked["max_tokens"] == 7
    assert "understudy" not in asked and asked["model"] == "m"
    await call(gate, question(temperature=0.25))
    rewrites = [each.json for each in behind.asked if prompt(each).startswith("Rewrite")]
    assert len(rewrites) == 1 and "temperature" not in rewrites[0]


async def test_a_length_that_a_step_says_itself_is_said_once(behind: Upstream, tmp_path: Path) -> None:
    short = {**ECHO, "steps": {"answer": {**ECHO["steps"]["answer"], "max_tokens": 5}}}  # type: ignore[dict-item,index]
    async with line(config(behind, tmp_path, workflows={"short": short})) as gate:
        got = await call(gate, question(model="short", max_completion_tokens=7, seed=3))
    assert got.status == 200
    asked = behind.asked[-1].json
    assert (asked["max_tokens"], asked["seed"]) == (5, 3) and "max_completion_tokens" not in asked


async def test_what_is_stored_nowhere_is_in_no_file(gate: Line, tmp_path: Path) -> None:
    secret = "zanzibar-4711"
    asked = question(f"Where is {secret}?", understudy={"inputs": {"documents": [f"{secret} is an island."]}})
    got = await call(gate, asked, KEY | {"Cache-Control": "no-store"})
    assert got.status == 200 and secret in got.text
    run = await get(gate, f"/runs/{got.headers['x-understudy-run']}")
    assert run.json["status"] == "done" and run.json["variables"]["answer"]["value"] is None
    await gate.settled()
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert files and not any(secret.encode() in path.read_bytes() for path in files)


async def test_what_is_to_be_stored_nowhere_is_kept_in_no_collection(
    behind: Upstream, tmp_path: Path
) -> None:
    keep = {
        "inputs": {"pages": "texts"},
        "steps": {
            "kept": {"ingest": "{{pages}}", "collection": "manuals"},
            "said": {"transform": "{{pages}}", "apply": [{"join": " "}], "after": "kept"},
        },
        "output": "said",
    }
    async with line(config(behind, tmp_path, workflows={"keep": keep})) as gate:
        asked = question(model="keep", understudy={"inputs": {"pages": ["zanzibar-4711 is an island."]}})
        got = await call(gate, asked, KEY | {"Cache-Control": "no-store"})
        assert the_error(got) == (400, "collection_not_stored", "kept")
        assert "no-store" in got.json["error"]["message"] and "zanzibar" not in str(got.json)
        assert (await get(gate, "/collections")).json["data"] == []
        assert (await call(gate, asked)).status == 200
        (collection,) = (await get(gate, "/collections")).json["data"]
        assert (collection["id"], collection["texts"]) == ("manuals", 1)


async def test_a_client_without_a_credential_has_no_workflows(behind: Upstream, tmp_path: Path) -> None:
    made = config(behind, tmp_path)
    made["memory"]["anonymous"] = False
    async with line(made) as gate:
        called, kept = await call(gate, question(), {}), await gate.post("/workflows", {"name": "x", **ECHO})
        for got in (called, kept, await get_as(gate, "/collections", {})):
            assert (got.status, got.json["error"]["code"]) == (401, "missing_credential")
        assert [each["id"] for each in (await get_as(gate, "/models", {})).json["data"]] == ["m"]


@pytest.mark.slow
async def test_why_the_last_answer_ended_is_told(gate: Line, behind: Upstream) -> None:
    async def cut_off(request: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(event("Os") + event(None).replace(b'"stop"', b'"length"') + b"data: [DONE]\n\n")
        return response

    behind.script = cut_off
    whole = await call(gate, question(model="echo"))
    assert whole.json["choices"][0]["finish_reason"] == "length"
    streamed = await call(gate, question(model="echo", stream=True))
    assert streamed.events[-1]["choices"][0]["finish_reason"] == "length"


async def test_workflows_stand_among_the_models(gate: Line) -> None:
    listed = [each["id"] for each in (await get(gate, "/models")).json["data"]]
    assert listed == ["m", "doc-qa", "echo"]
    other = await call(gate, question(model="none"))
    assert the_error(other) == (404, "model_not_found", "model")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "code", "param"),
    [
        (question(functions=[{"name": "f"}]), "unsupported_field", "functions"),
        (question(n=2), "unsupported_field", "n"),
        (question(understudy={}), "missing_input", "understudy.inputs.documents"),
        (
            question(understudy={"inputs": {"documents": "one"}}),
            "invalid_input",
            "understudy.inputs.documents",
        ),
        (question(understudy={"inputs": {"documents": [], "x": 1}}), "unused_input", "understudy.inputs.x"),
        (question(understudy={"submit": True}), "unknown_field", "understudy.submit"),
        (
            question(understudy={"inputs": {"documents": ["x"] * 1001}}),
            "too_many_items",
            "understudy.inputs.documents",
        ),
    ],
)
async def test_bad_input_is_refused_before_anything_is_asked(
    gate: Line, behind: Upstream, asked: dict[str, Any], code: str, param: str
) -> None:
    assert the_error(await call(gate, asked)) == (400, code, param)
    assert not behind.asked


async def test_documents_that_are_too_large(behind: Upstream, tmp_path: Path) -> None:
    small = config(behind, tmp_path)
    small["workflows"] = {**small["workflows"], "max_documents_mib": 0.01}
    async with line(small) as gate:
        got = await call(gate, question(understudy={"inputs": {"documents": ["x" * 20_000]}}))
        assert (got.status, got.json["error"]["code"]) == (413, "documents_too_large")


# ---- failures


async def test_a_step_that_fails_is_an_error_that_names_it(gate: Line, behind: Upstream) -> None:
    async def no_list(request: web.Request, asked: Asked) -> web.StreamResponse:
        return await say(request, asked, "I would rather not.")

    behind.script = no_list
    for stream in (False, True):
        got = await call(gate, question(stream=stream))
        assert got.status == 424 and got.headers["x-should-retry"] == "false", got.body
        error = got.json["error"]
        assert error["code"] == "transform_failed" and error["param"] == "queries"
        assert "'queries'" in error["message"]


async def test_a_failure_after_the_first_piece_is_an_event(gate: Line, behind: Upstream) -> None:
    heard = asyncio.Event()

    async def breaks(request: web.Request, asked: Asked) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(event("Osl"))
        await heard.wait()
        error = {"error": {"message": "The GPU is gone.", "type": "server_error", "code": "gone"}}
        await response.write(b"data: " + json.dumps(error).encode() + b"\n\n")
        return response

    behind.script = breaks
    ended: list[Any] = []
    gate.gateway.parts.add(ended, finished=ended.append)
    body = json.dumps(question(model="echo", stream=True))
    async with gate.session.post(gate.url + "/chat/completions", data=body, headers=KEY | JSON) as response:
        seen = b""
        while b'"Osl"' not in seen:
            seen += await response.content.readany()
        heard.set()
        seen += await response.content.read()
    assert response.status == 200 and b"[DONE]" not in seen
    told = json.loads(seen.decode().rpartition("data: ")[2])
    assert told["error"]["code"] == "step_failed" and "GPU is gone" in told["error"]["message"]
    assert [each.error for each in ended if each.model == "echo"] == ["step_failed"], "the log holds no words"


async def test_a_failed_output_ends_only_what_depends_on_it(behind: Upstream, tmp_path: Path) -> None:
    """What else the workflow does is done, so that effects hang on no timing."""
    noted = asyncio.Event()

    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        if request.path.endswith("/note"):
            noted.set()
            return web.json_response("noted")
        if prompt(asked).startswith("Slow"):
            await asyncio.sleep(0.3)
        return await say(request, asked, "no list")

    behind.script = script
    made = config(behind, tmp_path)
    made["components"] = {"note": {"kind": "tool", "url": f"{behind.url}/note"}}
    made["workflows"] = {
        "both": {
            "inputs": {"question": "last_user"},
            "steps": {
                "answer": {"chat": "{{question}}", "model": "m", "splits": "json"},
                "slow": {"chat": "Slow {{question}}", "model": "m"},
                "kept": {"tool": "note", "args": {"text": "{{slow}}"}, "effects": True},
            },
            "output": "answer",
        }
    }
    async with line(made) as gate:
        got = await call(gate, question(model="both"))
        assert got.status == 424 and got.headers["x-understudy-run"].startswith("run_")
        await asyncio.wait_for(noted.wait(), 60)
        await until(lambda: states(gate) == ["failed"], "the run has ended")
        run = (await get(gate, f"/runs/{got.headers['x-understudy-run']}")).json
        assert {step["id"]: step["status"] for step in run["steps"]}["kept"] == "done"
        assert run["workflow"]["id"] == "both"


async def test_an_output_whose_branch_is_not_taken(behind: Upstream, tmp_path: Path) -> None:
    made = config(behind, tmp_path)
    made["workflows"] = {
        "branch": {
            "inputs": {"question": "last_user"},
            "steps": {
                "long": {"when": "{{question}}", "contains": "long"},
                "answer": {"chat": "{{question}}", "model": "m", "if": "long"},
            },
            "output": "answer",
        }
    }
    async with line(made) as gate:
        assert (await call(gate, question("a long one", "branch"))).text == "<a long one>"
        for stream in (False, True):
            got = await call(gate, question("short", "branch", stream=stream))
            assert the_error(got) == (424, "output_skipped", "answer"), got.body


async def test_a_client_that_leaves_cancels_the_run(gate: Line, behind: Upstream) -> None:
    slow = Slow("Os", "lo")
    behind.script = slow.script
    body = json.dumps(question(model="echo", stream=True))
    sent = asyncio.create_task(
        gate.session.post(gate.url + "/chat/completions", data=body, headers=KEY | JSON)
    )
    await slow.begun.wait()
    sent.cancel()
    await asyncio.wait([sent])
    async with asyncio.timeout(30):
        await slow.left.wait()
    await until(lambda: states(gate) == ["cancelled"], "the run is cancelled")


async def test_a_client_that_leaves_cancels_what_components_do(behind: Upstream, tmp_path: Path) -> None:
    slow = config(behind, tmp_path)
    slow["components"] = {"sim": {"kind": "simulated", "fixed_ms": 600_000}}
    async with line(slow) as gate:
        body = json.dumps(question())
        sent = asyncio.create_task(
            gate.session.post(gate.url + "/chat/completions", data=body, headers=KEY | JSON)
        )
        await until(lambda: "running" in states(gate), "the run is under way")
        sent.cancel()
        await asyncio.wait([sent])
        await until(lambda: states(gate) == ["cancelled"], "the run is cancelled")
        figures = (await get_as(gate, "/../metrics", {})).body.decode()
        busy = [each for each in figures.splitlines() if each.startswith("understudy_component_in_flight{")]
        assert busy and all(each.endswith(" 0.0") for each in busy)


JSON = {"Content-Type": "application/json"}


def states(gate: Line) -> list[str]:
    """Of all runs."""
    assert gate.gateway.memory is not None
    return [each.run.state for each in gate.gateway.memory.store.runs.runs()]


# ---- run by name


async def test_a_run_of_a_workflow_by_its_name(gate: Line) -> None:
    asked = {"workflow": "echo", "inputs": {"question": "Oslo?"}}
    got = await gate.post("/runs", asked, KEY)
    assert got.status == 200 and got.json["status"] == "done", got.body
    assert got.json["variables"]["answer"]["value"] == "<Say Oslo?>"
    later = await gate.post("/runs", asked | {"background": True}, KEY)
    assert later.status == 202
    id = later.json["variables"]["answer"]["id"]
    assert (await get(gate, f"/variables/{id}?wait_s=30")).json["value"] == "<Say Oslo?>"
    told = await gate.post("/runs", asked | {"stream": True}, KEY)
    kinds = [each["type"] for each in told.events]
    assert kinds[0] == "run.created" and kinds[-1] == "run.completed"
    deltas = "".join(each["delta"] for each in told.events if each["type"] == "variable.delta")
    assert deltas == "<Say Oslo?>"
    key = KEY | {"Idempotency-Key": "once"}
    first, second = await gate.post("/runs", asked, key), await gate.post("/runs", asked, key)
    assert first.json["id"] == second.json["id"]


@pytest.mark.parametrize(
    ("asked", "status", "code", "param"),
    [
        ({"workflow": "echo"}, 400, "missing_input", "inputs.question"),
        ({"workflow": "none"}, 404, "workflow_not_found", "workflow"),
        ({"workflow": 1}, 400, "invalid_workflow", "workflow"),
        ({"workflow": "echo", "steps": []}, 400, "unknown_field", "steps"),
    ],
)
async def test_runs_of_workflows_that_are_refused(
    gate: Line, asked: dict[str, Any], status: int, code: str, param: str
) -> None:
    assert the_error(await gate.post("/runs", asked, KEY)) == (status, code, param)


# ---- a tenant's own


async def delete(gate: Line, path: str, headers: dict[str, str] = KEY) -> Got:
    async with gate.session.delete(gate.url + path, headers=headers) as response:
        return Got(response.status, response.headers.copy(), await response.read())


async def get_as(gate: Line, path: str, headers: dict[str, str]) -> Got:
    async with gate.session.get(gate.url + path, headers=headers) as response:
        return Got(response.status, response.headers.copy(), await response.read())


async def test_a_tenants_workflow_is_kept_replaced_and_removed(gate: Line) -> None:
    kept = await gate.post("/workflows", {"name": "mine", **ECHO}, KEY)
    assert kept.status == 200 and kept.json["number"] == 1 and kept.json["definition"] == ECHO, kept.body
    assert (await call(gate, question("Oslo?", "wf/mine"))).text == "<Say Oslo?>"
    again = await gate.post("/workflows", {"name": "mine", **ECHO}, KEY)
    assert again.json["number"] == 1
    louder = json.loads(json.dumps(ECHO).replace("Say", "Shout"))
    second = await gate.post("/workflows", {"name": "mine", **louder}, KEY)
    assert second.json["number"] == 2 and second.json["version"] != kept.json["version"]
    assert (await call(gate, question("Oslo?", "wf/mine"))).text == "<Shout Oslo?>"
    first = await get(gate, f"/workflows/mine?version={kept.json['version']}")
    assert first.json["definition"] == ECHO
    listed = (await get(gate, "/workflows")).json["data"]
    assert [each["id"] for each in listed] == ["doc-qa", "echo", "mine"]
    assert listed[0]["inputs"]["documents"] == {"type": "texts", "required": True}
    assert "steps" not in json.dumps(listed[:2]), "an operator's prompts are the operator's"
    assert (await delete(gate, "/workflows/mine")).json["deleted"]
    assert the_error(await call(gate, question("Oslo?", "wf/mine"))) == (404, "model_not_found", "model")
    assert the_error(await get(gate, "/workflows/mine"))[0] == 404


async def test_a_workflow_over_the_default_upstream(behind: Upstream, tmp_path: Path) -> None:
    """No engine and no model is configured; what the upstream lists stays in the list of models."""
    made = config(behind, tmp_path, upstream={"base_url": behind.url})
    del made["engines"], made["models"]
    made["memory"]["exact"] = {"enabled": True}
    behind.script = None
    async with line(made) as gate:
        for stream in (False, True):
            assert (await call(gate, question(model="echo", stream=stream))).text == "Forty-two."
        assert behind.asked[-1].headers["Authorization"] == KEY["Authorization"]
        listed = [each["id"] for each in (await get(gate, "/models")).json["data"]]
        assert listed == ["upstream-model", "doc-qa", "echo"]
        plain = await call(gate, question(model="m"))
        assert plain.text == "Forty-two." and "x-understudy-run" not in plain.headers


@pytest.mark.parametrize("upstream", [False, True])
async def test_a_name_that_another_process_kept_is_found(
    behind: Upstream, tmp_path: Path, upstream: bool
) -> None:
    """Two gateways over one folder, as two workers are; a default upstream has a model of every name."""
    more = {"upstream": {"base_url": behind.url}, "listen": {"workers": 2}} if upstream else {}
    made = config(behind, tmp_path, **more)
    async with line(made) as one, line(made) as other:
        kept = await one.post("/workflows", {"name": "mine", **ECHO}, KEY)
        assert kept.status == 200, kept.body
        assert (await call(other, question("Oslo?", "wf/mine"))).text == "<Say Oslo?>"
        given = {"inputs": {"question": "Bergen?"}}
        assert (await call(other, question("Oslo?", "wf/mine", understudy=given))).text == "<Say Bergen?>"


async def test_a_workflow_takes_over_no_model_that_the_default_upstream_could_serve(
    behind: Upstream, tmp_path: Path
) -> None:
    made = config(behind, tmp_path, upstream={"base_url": behind.url})
    async with line(made) as gate:
        kept = await gate.post("/workflows", {"name": "gpt-4o", **ECHO}, KEY)
        assert kept.status == 200, kept.body
        plain = await call(gate, question("Oslo?", "gpt-4o"))
        assert plain.text == "<Oslo?>" and "x-understudy-run" not in plain.headers
        own = await call(gate, question("Oslo?", "wf/gpt-4o"))
        assert own.text == "<Say Oslo?>" and own.json["model"] == "wf/gpt-4o"
        told = [each["id"] for each in (await get(gate, "/models")).json["data"]]
        assert "wf/gpt-4o" in told and (await get(gate, "/models/wf/gpt-4o")).status == 200


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"steps": {}}, 400, "name"),
        ({"name": "m", **ECHO}, 400, "m"),
        ({"name": "echo", **ECHO}, 400, "echo"),
        ({"name": "x", **ECHO, "output": "none"}, 400, "none"),
        ({"name": "x", **ECHO, "steps": {"answer": {"chat": "{{nothing}}", "model": "gpt"}}}, 400, "nothing"),
        ({"name": "x", **ECHO, "components": {"x": {"kind": "tool", "url": "http://x"}}}, 400, "components"),
        (
            {"name": "x", "steps": {"answer": {"tool": "http://169.254.169.254/"}}, "output": "answer"},
            400,
            "tool",
        ),
    ],
)
async def test_a_definition_that_is_wrong_is_refused_with_what_to_do(
    gate: Line, body: dict[str, Any], status: int, told: str
) -> None:
    got = await gate.post("/workflows", body, KEY)
    assert got.status == status and told in got.json["error"]["message"], got.body


async def test_what_the_configuration_holds_cannot_be_removed(gate: Line) -> None:
    assert (await delete(gate, "/workflows/echo")).status == 403
    assert (await get(gate, "/workflows/echo")).json["owned_by"] == "understudy"
    assert (await gate.session.put(gate.url + "/workflows/echo", headers=KEY)).status == 405


async def test_a_tenants_workflow_collection_and_run_are_nobody_elses(gate: Line) -> None:
    keeps = {
        "inputs": {"documents": "texts"},
        "steps": {
            "index": {"ingest": "{{documents}}", "collection": "notes"},
            "found": {"search": "{{documents}}", "in": "{{index}}", "k": 1, "after": ["index"]},
        },
        "output": "found",
    }
    asks = {
        "inputs": {"question": "last_user"},
        "steps": {"found": {"search": "{{question}}", "in": {"collection": "notes"}, "k": 3}},
        "output": "found",
    }
    for body in ({"name": "keep", **keeps}, {"name": "ask", **asks}):
        got = await gate.post("/workflows", body, KEY)
        assert got.status == 200, got.body
    ran = await gate.post("/runs", {"workflow": "keep", "inputs": {"documents": DOCUMENTS}}, KEY)
    assert ran.json["status"] == "done", ran.body
    mine = await call(gate, question("capital of Norway", "wf/ask"))
    assert "The capital of Norway is Oslo" in mine.text
    collections = (await get(gate, "/collections")).json["data"]
    assert [(each["id"], each["texts"]) for each in collections] == [("notes", 3)]
    id = ran.json["id"]
    for path in ("/workflows/keep", "/collections/notes", f"/runs/{id}"):
        assert (await get(gate, path)).status == 200
        other, none = await get_as(gate, path, OTHER), await get_as(gate, path.replace("e", "x"), OTHER)
        assert (other.status == 404 and other.json["error"]["code"] == none.json["error"]["code"]) or path
    assert (await delete(gate, "/collections/notes", OTHER)).status == 404
    assert (await delete(gate, "/workflows/keep", OTHER)).status == 404
    assert the_error(await call(gate, question("x", "wf/keep"), OTHER)) == (404, "model_not_found", "model")
    refused = await gate.post("/runs", {"workflow": "keep", "inputs": {"documents": []}}, OTHER)
    assert the_error(refused) == (404, "workflow_not_found", "workflow")
    step = await gate.post(f"/runs/{id}/steps/found", {"action": "skip"}, OTHER)
    assert the_error(step)[:2] == (404, "run_not_found")
    assert [each["id"] for each in (await get_as(gate, "/models", OTHER)).json["data"]] == [
        "m",
        "doc-qa",
        "echo",
    ]
    assert (await get_as(gate, "/collections", OTHER)).json["data"] == []
    await gate.post("/workflows", {"name": "ask", **asks}, OTHER)
    theirs = await call(gate, question("capital of Norway", "wf/ask"), OTHER)
    assert "Oslo" not in theirs.body.decode()


async def test_a_step_that_waits_for_nobody_is_not_resolved(gate: Line) -> None:
    ran = await gate.post("/runs", {"workflow": "echo", "inputs": {"question": "x"}}, KEY)
    path = f"/runs/{ran.json['id']}/steps"
    assert the_error(await gate.post(f"{path}/answer", {"action": "skip"}, KEY)) == (
        409,
        "step_not_unknown",
        "step",
    )
    assert the_error(await gate.post(f"{path}/other", {"action": "skip"}, KEY))[:2] == (404, "step_not_found")
    assert the_error(await gate.post(f"{path}/answer", {"action": "no"}, KEY)) == (
        400,
        "invalid_value",
        "action",
    )


# ---- models fail


@pytest.mark.parametrize(
    ("on_error", "said", "expected"),
    [
        (None, ["no list", '["a", "b"]'], "a\nb"),
        (None, ["no list", '["a", "b'], None),
        ({"retry": 1}, ["no list", '["a", "b"]'], "a\nb"),
        ({"retry": 1}, ["no list", "no list", '["a", "b"]'], None),
        ({"retry": 1, "default": ["plain"]}, ["no list", "no list"], "plain"),
        ({"default": ["plain"]}, [500, 500, 500, 500], "plain"),
        ({"default": ["plain"]}, ["no list", "no list"], "plain"),
        ({"skip": True}, ["no list", "no list"], "left out"),
    ],
)
async def test_what_becomes_of_a_list_that_cannot_be_read(
    behind: Upstream, tmp_path: Path, on_error: Any, said: list[Any], expected: str | None
) -> None:
    left = list(said)

    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        if isinstance(left[0], int):
            return web.json_response({"error": {"message": "out of order"}}, status=left.pop(0))
        return await say(request, asked, left.pop(0))

    behind.script = script
    made = config(behind, tmp_path)
    listed = {"chat": "List {{question}}", "model": "m", "splits": "json"} | (
        {"on_error": on_error} if on_error else {}
    )
    steps = {
        "list": listed,
        "joined": {"transform": "{{list}}", "apply": [{"join": "\n"}]},
        "answer": {"first_of": ["{{joined}}", "{{instead}}"]},
        "instead": {"transform": "{{rest}}", "apply": ["strip"]},
    }
    inputs = {"question": "last_user", "rest": {"kind": "text", "default": "left out"}}
    made["workflows"] = {"listing": {"inputs": inputs, "steps": steps, "output": "answer"}}
    async with line(made) as gate:
        got = await call(gate, question(model="listing"))
        if expected is None:
            assert the_error(got)[:2] == (424, "transform_failed"), got.body
        else:
            assert got.status == 200 and got.text == expected, got.body
        prompts = [one.json["messages"] for one in behind.asked if one.json]
        if said[0] == "no list":
            assert "could not be read" in prompts[1][-1]["content"] and len(prompts) == 2


@pytest.mark.parametrize(
    ("more", "rounds"),
    [({}, 3), ({"max_rounds": 2}, 2), ({"first": "DONE at once: {{question}}"}, 1)],
)
async def test_a_loop_asks_until_its_test_holds_and_no_more_often_than_it_may(
    behind: Upstream, tmp_path: Path, more: dict[str, Any], rounds: int
) -> None:
    async def script(request: web.Request, asked: Asked) -> web.StreamResponse:
        last = len(behind.asked) == 3 or prompt(asked).startswith("DONE")
        return await say(request, asked, f"round {len(behind.asked)}{' DONE' if last else ''}")

    behind.script = script
    made = config(behind, tmp_path)
    better = {"loop": "Go {{so_far}}", "until": {"contains": "DONE"}, "model": "m", "initial": "", **more}
    answer = {"transform": "{{better}}", "apply": ["strip"]}
    inputs = {"question": "last_user"}
    made["workflows"] = {
        "looping": {"inputs": inputs, "steps": {"better": better, "answer": answer}, "output": "answer"}
    }
    async with line(made) as gate:
        got = await call(gate, question(model="looping"))
        assert got.status == 200, got.body
        assert len(behind.asked) == rounds
        assert ("DONE" in got.text) is (rounds != 2)
        run = (await get(gate, f"/runs/{got.headers['x-understudy-run']}")).json
        chats = [step for step in run["steps"] if step["name"].startswith("better[")]
        assert [step["status"] for step in chats].count("done") == rounds
