"""Two tenants behind one upstream account: no endpoint, and no field that takes an id, brings one what is the other's.

The endpoints are those that OpenAI's and Anthropic's own Python clients know, read from their source; the fields of bodies
those of their parameter types. Both grow with the clients, and what is new has to be closed by itself.
"""

from __future__ import annotations

import asyncio
import gzip
import inspect
import json
import re
import types
import typing
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import typing_extensions
from aiohttp import FormData, web

from store.people.limits import Limits, Terms
from store.people.owned import Owned
from tests.flow.line import Asked, Got, Line, Upstream, completion, line, upstream
from tests.patience import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

FOREIGN = "FOREIGN-9f3b2c"
"""Stands in every id of the other tenant."""
_CALL = re.compile(
    r'self\._(get|post|delete|patch|put|get_api_list)\(\s*(?:path_template\(\s*)?f?"(?:/v1)?(/[^"]*)"'
)
STATELESS = {
    ("POST", path)
    for path in (
        *(
            "/chat/completions",
            "/completions",
            "/embeddings",
            "/moderations",
            "/responses",
            "/responses/compact",
        ),
        *(
            "/responses/input_tokens",
            "/images/generations",
            "/images/edits",
            "/images/variations",
            "/audio/speech",
        ),
        *("/audio/transcriptions", "/audio/translations", "/messages", "/messages/count_tokens"),
    )
} | {("GET", "/models"), ("GET", "/models/{model}"), ("GET", "/models/{model_id}")}
"""What keeps nothing. Everything else that the clients know has to be closed."""
NO_IDS = {
    *("call_id", "tool_call_id", "tool_use_id", "caller_id", "tool_id", "tab_id", "approval_request_id"),
    *("connector_id", "user_id"),
}
"""Names that refer to another part of the same request, to a connector that the request brings the credential of, or are
what the client calls its user."""


def known_endpoints() -> list[tuple[str, str]]:
    """(method, path with names in braces) of all calls in both clients."""
    import anthropic
    import openai

    found = set()
    for package in (openai, anthropic):
        for file in (Path(inspect.getfile(package)).parent / "resources").rglob("*.py"):
            for verb, path in _CALL.findall(file.read_text()):
                found.add(("GET" if verb == "get_api_list" else verb.upper(), path.partition("?")[0]))
    return sorted(found)


def id_fields(
    body: Any, prefix: tuple[str, ...] = (), seen: frozenset[Any] = frozenset()
) -> Iterator[tuple[str, ...]]:
    """Paths of names to every field of a parameter type that can hold an id; a list is left out of the path."""
    origin = typing.get_origin(body)
    if origin in (typing_extensions.Required, typing_extensions.NotRequired, typing.Annotated):
        yield from id_fields(typing.get_args(body)[0], prefix, seen)
    elif origin in (typing.Union, types.UnionType) or (
        isinstance(origin, type) and issubclass(origin, Iterable)
    ):
        for each in typing.get_args(body):
            yield from id_fields(each, prefix, seen)
    elif typing_extensions.is_typeddict(body) and body not in seen and len(prefix) < 8:
        for name, hint in typing_extensions.get_type_hints(body, include_extras=True).items():
            here = (*prefix, name)
            if (name.endswith(("_id", "_ids")) and name not in NO_IDS) or name in (
                "container",
                "conversation",
            ):
                yield here
            yield from id_fields(hint, here, seen | {body})


def body_types() -> dict[str, Any]:
    """The parameter type of each endpoint's body."""
    from anthropic.types import message_create_params as messages
    from anthropic.types.beta import message_create_params as beta_messages
    from openai.types import completion_create_params as completions
    from openai.types import embedding_create_params as embeddings
    from openai.types import image_edit_params, image_generate_params
    from openai.types import moderation_create_params as moderations
    from openai.types.audio import speech_create_params, transcription_create_params
    from openai.types.chat import completion_create_params as chat
    from openai.types.responses import response_create_params as responses

    return {
        "/chat/completions": chat.CompletionCreateParamsNonStreaming,
        "/completions": completions.CompletionCreateParamsNonStreaming,
        "/embeddings": embeddings.EmbeddingCreateParams,
        "/moderations": moderations.ModerationCreateParams,
        "/responses": responses.ResponseCreateParamsNonStreaming,
        "/images/generations": image_generate_params.ImageGenerateParamsNonStreaming,
        "/images/edits": image_edit_params.ImageEditParamsNonStreaming,
        "/audio/speech": speech_create_params.SpeechCreateParams,
        "/audio/transcriptions": transcription_create_params.TranscriptionCreateParamsNonStreaming,
        "/messages": (
            messages.MessageCreateParamsNonStreaming | beta_messages.MessageCreateParamsNonStreaming
        ),
    }


BY_HAND: list[tuple[str, dict[str, Any]]] = [
    ("/chat/completions", {"messages": [{"role": "assistant", "audio": {"id": FOREIGN}}]}),
    ("/chat/completions", {"audio": {"voice": {"id": FOREIGN}, "format": "mp3"}}),
    ("/chat/completions", {"store": True, "metadata": {"of": FOREIGN}}),
    ("/chat/completions", {"model": f"ft:gpt-4o:{FOREIGN}"}),
    (
        "/chat/completions",
        {"data_sources": [{"type": "azure_search", "parameters": {"index_name": FOREIGN}}]},
    ),
    ("/chat/completions", {"kv_transfer_params": {"remote_engine_id": FOREIGN}}),
    ("/chat/completions", {"messages": [{"role": "user", "content": [{"a": [[{"file_id": [FOREIGN]}]]}]}]}),
    ("/audio/speech", {"voice": {"id": FOREIGN}}),
    ("/responses", {"conversation": {"id": FOREIGN}}),
    ("/responses", {"prompt": {"id": FOREIGN, "variables": {}}}),
    ("/responses", {"input": [{"type": "item_reference", "id": FOREIGN}]}),
    ("/responses", {"input": [{"id": FOREIGN}]}),
    ("/responses", {"input": [{"type": "reasoning", "id": FOREIGN, "summary": []}]}),
    ("/responses", {"input": [{"type": "image_generation_call", "id": FOREIGN}]}),
    ("/responses", {"tools": [{"type": "file_search", "vector_store_ids": [FOREIGN]}]}),
    ("/responses", {"tools": [{"type": "code_interpreter", "container": FOREIGN}]}),
    ("/responses", {"prompt": {"variables": {"a": {"type": "input_file", "file_id": FOREIGN}}}}),
    ("/messages", {"container": {"id": FOREIGN}}),
    ("/messages", {"container": {"skills": [{"type": "custom", "skill_id": FOREIGN, "version": "1"}]}}),
    (
        "/messages",
        {"messages": [{"role": "user", "content": [{"type": "document", "source": {"file_id": FOREIGN}}]}]},
    ),
    ("/images/edits", {"images": [{"file_id": FOREIGN}], "mask": {"file_id": FOREIGN}}),
    ("/chat/completions", {"store": 1, "metadata": {"of": FOREIGN}}),
    ("/chat/completions", {"store": "true", "metadata": {"of": FOREIGN}}),
    ("/chat/completions?file_id=" + FOREIGN + "&file_id=", {}),
    ("/responses", {"Previous_Response_Id": FOREIGN}),
    ("/responses", {"previousResponseId": FOREIGN}),
    ("/responses", {"type": "tool_use", "input": [{"role": "user", "content": [{"file_id": FOREIGN}]}]}),
    (
        "/runs",
        {
            "steps": [
                {"model": "m", "messages": [{"role": "user", "content": [{"file": {"file_id": FOREIGN}}]}]}
            ]
        },
    ),
    (
        "/examples",
        {"messages": [{"role": "user", "content": [{"file": {"file_id": FOREIGN}}]}], "answer": "A"},
    ),
]
"""Ids that stand under a name of another kind, and where types do not say it."""


def nested(names: tuple[str, ...]) -> Any:
    """The smallest body with an id at this place: every other level also within a list."""
    name, below = names[0], names[1:]
    if not below:
        return {name: [FOREIGN] if name.endswith("_ids") else FOREIGN}
    value = nested(below)
    return {name: [value] if len(names) % 2 else value}


@dataclass
class Two:
    """A gateway, its upstream, and keys of two tenants."""

    gate: Line
    behind: Upstream
    acme: dict[str, str]
    beta: dict[str, str]

    async def send(self, method: str, path: str, key: dict[str, str], body: Any = None) -> Got:
        """A request, as JSON where it has a body."""
        url = self.gate.url + path
        async with self.gate.session.request(method, url, headers=key, json=body) as response:
            return Got(response.status, response.headers.copy(), await response.read())

    async def key(self, tenant: str, **terms: Any) -> dict[str, str]:
        """Headers of a new key."""
        memory = self.gate.gateway.memory
        assert memory is not None
        keys = memory.store.keys
        secret = (await asyncio.to_thread(keys.create, tenant, "test", terms=Terms(**terms)))[1]
        await until(lambda: keys.lookup(secret) is not None, "the key known")
        return {"Authorization": f"Bearer {secret}"}

    def leaked(self) -> list[str]:
        """Of what reached the upstream, what names something foreign."""
        told = (
            f"{one.path} {dict(one.headers)} {one.body.decode('utf-8', 'replace')}"
            for one in self.behind.asked
        )
        return [each[:300] for each in told if FOREIGN in each]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Two]:
    async with upstream() as behind:
        behind.script = _says
        config = {
            "upstream": {"base_url": behind.url, "api_key": "sk-operator"},
            "engines": {"large": {"base_url": behind.url, "api_key": "sk-operator"}},
            "models": {"served": {"engines": ["large"]}},
            "memory": {"data_dir": str(tmp_path_factory.mktemp("matrix")), "examples": {"enabled": False}},
        }
        async with line(config) as gate:
            made = Two(gate, behind, {}, {})
            made.acme, made.beta = await made.key("acme"), await made.key("beta")
            yield made


async def _says(request: web.Request, asked: Asked) -> web.Response:
    if request.path.endswith("/chat/completions"):
        return web.json_response(completion("Fine."))
    return web.json_response(
        {"id": "resp_1", "object": "list", "data": [], "output": [], "status": "completed"}
    )


def spelt(path: str) -> Iterator[str]:
    """A path with foreign ids, in the spellings that a forgiving server might take for it."""
    plain = re.sub(r"\{[^}]*\}", FOREIGN, path)
    yield plain
    yield plain.replace("/", "//", 1) + "/"
    yield (
        "/"
        + "".join(f"%{ord(letter):02x}" for letter in plain[1:3])
        + plain[3:].upper().replace(FOREIGN.upper(), FOREIGN)
    )
    yield plain + ";x=1?limit=1"


async def test_every_endpoint_that_keeps_something_is_closed(two: Two) -> None:
    endpoints = known_endpoints()
    assert len(endpoints) > 200
    two.behind.asked.clear()
    opened = []
    for number, (method, path) in enumerate(endpoints):
        if (method, path) in STATELESS:
            continue
        # Each in the usual spelling, and in one of the others.
        usual, *others = spelt(path)
        for written, key in ((usual, two.acme), (usual, two.beta), (others[number % len(others)], two.beta)):
            got = await two.send(method, written, key, {} if method in ("POST", "PUT", "PATCH") else None)
            if got.status not in (403, 404):
                opened.append((method, written, got.status))
    assert opened == []
    assert two.behind.asked == []


async def test_every_stateless_endpoint_is_open(two: Two) -> None:
    for method, path in sorted(STATELESS):
        body = {"model": "m", "messages": [], "input": "x", "prompt": "x"} if method == "POST" else None
        got = await two.send(method, re.sub(r"\{[^}]*\}", "m", path), two.acme, body)
        assert got.status == 200, (path, got.body)


def bodies() -> list[tuple[str, Any]]:
    """(path, body) for every field with an id."""
    found = [(path, nested(names)) for path, body in body_types().items() for names in id_fields(body)]
    unique = {json.dumps(one, sort_keys=True): one for one in (*found, *BY_HAND)}
    return list(unique.values())


async def test_every_field_with_an_id_is_refused_to_a_stranger(two: Two) -> None:
    asked = bodies()
    assert len(asked) > 60
    two.behind.asked.clear()
    passed = []
    for path, body in asked:
        for model in ("m", "served"):
            for stream in (False, True):
                whole = {"model": model, "messages": [], "stream": stream, **body}
                got = await two.send("POST", path, two.beta, whole)
                if got.status not in (403, 404):
                    passed.append((path, body, got.status, got.body[:200]))
    assert passed == []
    assert two.leaked() == []


async def test_a_form_with_an_id_is_refused(two: Two) -> None:
    two.behind.asked.clear()
    for path in ("/images/edits", "/audio/transcriptions", "/audio/translations", "/images/variations"):
        for name in ("file_id", "vector_store_ids", "container", "previous_response_id", "unheard_of_id"):
            form = FormData()
            form.add_field("model", "m")
            form.add_field(name, FOREIGN)
            form.add_field("file", b"x", filename="x")
            async with two.gate.session.post(two.gate.url + path, data=form, headers=two.beta) as response:
                assert response.status in (403, 404), (path, name)
    assert two.behind.asked == []


async def test_websockets_are_closed(two: Two) -> None:
    two.behind.asked.clear()
    for path in ("/realtime?model=m", f"/realtime?call_id={FOREIGN}", "/chat/completions"):
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        headers = {**two.beta, **upgrade, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        async with two.gate.session.get(two.gate.url + path, headers=headers) as response:
            assert response.status == 403
    assert two.behind.asked == []


async def test_what_is_ones_own_passes_and_a_strangers_is_not_found(two: Two) -> None:
    memory = two.gate.gateway.memory
    assert memory is not None
    store = memory.store
    acme = store.keys.tenant_named("acme")
    for id, kind in (
        (f"resp_{FOREIGN}", "response"),
        (f"conv_{FOREIGN}", "conversation"),
        (f"rs_{FOREIGN}", "item"),
    ):
        await asyncio.wrap_future(store.owned.note(id, Owned(kind, acme, "", "", "upstream")))
    named: list[dict[str, Any]] = [
        {"previous_response_id": f"resp_{FOREIGN}"},
        {"conversation": f"conv_{FOREIGN}"},
        {"conversation": {"id": f"conv_{FOREIGN}"}},
        {"input": [{"type": "item_reference", "id": f"rs_{FOREIGN}"}]},
    ]
    two.behind.asked.clear()
    for body in named:
        got = await two.send("POST", "/responses", two.beta, {"model": "m", "input": "x", **body})
        assert got.status == 404 and FOREIGN in got.json["error"]["message"]
    assert two.behind.asked == []
    for body in named:
        assert (
            await two.send("POST", "/responses", two.acme, {"model": "m", "input": "x", **body})
        ).status == 200
    assert len(two.leaked()) == len(named)
    two.behind.asked.clear()
    assert (await two.send("GET", f"/responses/resp_{FOREIGN}", two.beta)).status == 404
    assert two.behind.asked == []
    assert (await two.send("GET", f"/responses/resp_{FOREIGN}", two.acme)).status == 200


async def test_a_key_that_lists_a_family_has_that_family_only(two: Two) -> None:
    key = await two.key("beta", limits=Limits(endpoints=("/chat/completions", "/responses", "/files*")))
    two.behind.asked.clear()
    file = {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": FOREIGN}}]}]}
    assert (await two.send("POST", "/chat/completions", key, {"model": "m", **file})).status == 200
    assert (await two.send("GET", f"/files/{FOREIGN}", key)).status == 200
    stores = {"tools": [{"type": "file_search", "vector_store_ids": [FOREIGN]}], "input": "x"}
    assert (await two.send("POST", "/responses", key, {"model": "m", **stores})).status == 403
    for path in (f"/vector_stores/{FOREIGN}", "/organization/projects", "/batches"):
        assert (await two.send("GET", path, key)).status == 403
    assert len(two.behind.asked) == 2


async def test_what_a_client_calls_its_own_is_no_id(two: Two) -> None:
    schema = {"type": "object", "properties": {"file_id": {"type": "string"}}, "required": ["file_id"]}
    tool = {"type": "function", "function": {"name": "open", "parameters": schema}}
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "open", "arguments": '{"file_id": "file-1"}'},
    }
    body: dict[str, Any] = {
        "model": "m",
        "tools": [tool],
        "messages": [
            {"role": "user", "content": 'What is "file_id": "file-1"?'},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "x"},
        ],
        "metadata": {"customer_id": "7"},
    }
    assert (await two.send("POST", "/chat/completions", two.acme, body)).status == 200
    use = {"type": "tool_use", "id": "toolu_1", "name": "open", "input": {"file_id": "file-1"}}
    said = [{"role": "assistant", "content": [use]}, {"role": "user", "content": "x"}]
    assert (await two.send("POST", "/messages", two.acme, {"model": "m", "messages": said})).status == 200
    items = [
        {"type": "message", "role": "assistant", "id": "msg_1", "content": []},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "x"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
    ]
    assert (await two.send("POST", "/responses", two.acme, {"model": "m", "input": items})).status == 200


async def test_a_packed_form_is_read_unpacked(two: Two) -> None:
    raw = (
        b'--B\r\nContent-Disposition: form-data; name="file_id"\r\n\r\n' + FOREIGN.encode() + b"\r\n--B--\r\n"
    )
    form = {"Content-Type": "multipart/form-data; boundary=B", "Content-Encoding": "gzip"}
    # Whoever unpacks all of it reads the second part, too.
    for packed in (gzip.compress(raw), gzip.compress(b"--B--\r\n") + gzip.compress(raw)):
        two.behind.asked.clear()
        got = await two.gate.post("/images/edits", packed, two.acme | form)
        assert got.status in (400, 403) and not two.behind.asked, got.body


async def test_the_operators_other_projects_are_out_of_reach(two: Two) -> None:
    two.behind.asked.clear()
    headers = two.acme | {"OpenAI-Organization": FOREIGN, "OpenAI-Project": FOREIGN}
    body = {"model": "m", "messages": [{"role": "user", "content": "Which project?"}]}
    assert (await two.gate.post("/chat/completions", body, headers)).status == 200
    assert two.behind.asked and not two.leaked()


async def test_a_key_of_some_models_names_one(two: Two) -> None:
    key = await two.key("narrow", limits=Limits(models=("served",)))
    for path, body in [
        ("/images/generations", {"prompt": "x"}),
        ("/moderations", {"input": "x", "model": None}),
        ("/chat/completions", {"model": "served", "models": ["dear"], "messages": []}),
    ]:
        two.behind.asked.clear()
        got = await two.send("POST", path, key, body)
        assert got.status == 403 and got.json["error"]["code"] == "model_not_allowed"
        assert not two.behind.asked
