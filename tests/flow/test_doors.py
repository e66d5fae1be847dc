"""Every door of the gateway x every right of a key, over real sockets and two workers: what comes out is documented.

A door is a row: each endpoint of the route table and each caller of gateway.admission has to have one.
"""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import FormData, web

from store import Store
from store.people.limits import Budget, Limits, Terms
from tests.aiohttp_server import aiohttp_server
from tests.flow.line import completion, line
from tests.flow.process import Gateway, running
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROOT = Path(__file__).parent.parent.parent
Q = [{"role": "user", "content": "Q"}]
STEP = {"model": "m", "messages": Q, "understudy": {"output": {"name": "a"}}}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@dataclass(frozen=True)
class Door:
    """A way in. `covers`: endpoints of the route table, and functions that ask for an Admitted."""

    path: str
    body: Any = None
    covers: tuple[str, ...] = ()
    form: bool = False
    headers: Any = ()
    frame: bool = False
    """Its body is said in a frame of a WebSocket."""


OF_MODELS = (
    *("/responses/input_tokens", "/responses/compact", "/messages/count_tokens", "/moderations"),
    *("/images/generations", "/images/edits", "/images/variations", "/audio/speech", "/audio/translations"),
    *("/rerank", "/score", "/classify", "/pooling", "/tokenize", "/detokenize"),
)
DOORS = {
    "chat": Door(
        "/chat/completions",
        {"model": "m", "messages": Q},
        ("POST /chat/completions", "entry.py:_let_in", "admission.py:again"),
    ),
    "azure": Door("/openai/deployments/m/chat/completions?api-version=1", {"messages": Q}),
    "messages": Door("/messages", {"model": "m", "messages": Q, "max_tokens": 9}, ("POST /messages",)),
    "completions": Door(
        "/completions", {"model": "m", "prompt": "Q", "max_tokens": 9}, ("POST /completions",)
    ),
    "responses": Door("/responses", {"model": "m", "input": "Q"}, ("POST /responses",)),
    "a frame": Door("/responses", {"model": "m", "input": "Q"}, ("GET /responses",), frame=True),
    "embeddings": Door("/embeddings", {"model": "m", "input": "Q"}, ("POST /embeddings",)),
    "form": Door("/audio/transcriptions", {"model": "m"}, ("POST /audio/transcriptions",), form=True),
    "one model": Door("/models/m", None, ("GET /models",)),
    "upstream": Door("/chat/completions", {"model": "elsewhere", "messages": Q}),
    "websocket": Door("/realtime?model=m", headers=tuple(UPGRADE.items())),
    "run": Door("/runs", {"steps": [STEP]}, ("step_door.py:ask",)),
    "run of a workflow": Door("/runs", {"workflow": "flow", "inputs": {"question": "Q"}}),
    "workflow": Door("/chat/completions", {"model": "flow", "messages": Q}),
    "call": Door("/chat/completions", STEP, ("steps.py:let_in",)),
    "component": Door(
        "/runs",
        {"workflow": "made", "inputs": {"question": "Q"}},
        ("step_door.py:component",),
    ),
    **{
        path: Door(path, {"model": "m", "input": "Q", "messages": Q}, (f"POST {path}",)) for path in OF_MODELS
    },
    "feedback": Door("/feedback", {"id": "x", "score": 1}, ("POST /feedback",)),
}
WORKFLOWS = {
    "flow": {
        "inputs": {"question": "last_user"},
        "steps": {"answer": {"chat": "{{question}}", "model": "m"}},
        "output": "answer",
    },
    "made": {
        "inputs": {"question": "last_user"},
        "steps": {
            "looked": {"tool": "look", "args": {"q": "{{question}}"}},
            "answer": {"chat": "{{looked}} {{question}}", "model": "m"},
        },
        "output": "answer",
    },
}
RIGHTS: dict[str, dict[str, Any]] = {
    "everything": {},
    "another model": {"limits": Limits(models=("nothing",))},
    "another region": {},
    "another endpoint": {"limits": Limits(endpoints=("/nowhere",))},
    "another component": {"limits": Limits(components=("nothing",))},
    "a user required": {"users_required": True},
    "revoked": {},
    "expired": {"expires_at_s": 1.0},
    "no budget": {"limits": Limits(budgets=(Budget(1e-9, "day"),))},
    "rate used up": {"limits": Limits(requests_per_minute=1)},
    "a guardrail": {},
}
TENANTS = {"another region": "old-world", "a guardrail": "guarded"}


@dataclass
class House:
    """Two workers, the keys by right, and what reached the engines since they were last looked at."""

    gateway: Gateway
    session: aiohttp.ClientSession
    keys: dict[str, dict[str, str]]
    asked: list[str]
    config: dict[str, Any]
    spare: str
    """A folder for another gateway."""

    def revoke(self, name: str) -> None:
        """As `understudy keys revoke` beside the gateway."""
        with closing(Store.open(Path(self.config["memory"]["data_dir"]))) as store:
            (key,) = [each for each in store.keys.list() if each.name == name]
            store.keys.revoke(key.id).result(30)

    async def through(self, door: Door, right: str) -> tuple[int, str]:
        """(status, code of the error) of a request of this key."""
        if door.frame:
            return await self._by_frame(door, right)
        body, method = door.body, "GET" if door.body is None else "POST"
        base = self.gateway.origin if door.path.startswith("/openai") else self.gateway.url
        sent: dict[str, Any] = {"json": body} if body is not None else {}
        if door.form:
            form = FormData()
            form.add_field("model", "m")
            form.add_field("file", b"RIFF", filename="a.wav")
            sent = {"data": form}
        # Each is asked anew.
        headers = {**self.keys[right], "Cache-Control": "no-cache", **dict(door.headers)}
        async with self.session.request(method, base + door.path, headers=headers, **sent) as response:
            raw = await response.read()
        try:
            error = json.loads(raw)["error"]
        except (ValueError, KeyError, TypeError):
            return response.status, ""
        return response.status, str(error.get("code") or error.get("type")) if error else ""

    async def _by_frame(self, door: Door, right: str) -> tuple[int, str]:
        headers = {**self.keys[right], "Cache-Control": "no-cache"}
        try:
            async with self.session.ws_connect(self.gateway.url + door.path, headers=headers) as socket:
                await socket.send_json({"type": "response.create", **door.body})
                said = json.loads(await socket.receive_str(timeout=PATIENCE_S))
        except aiohttp.WSServerHandshakeError:
            return await self.through(Door(door.path, headers=tuple(UPGRADE.items())), right)
        return (said["status"], said["error"]["code"]) if said["type"] == "error" else (200, "")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("doors")
    asked: list[str] = []

    async def engine(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if "Upgrade" in request.headers:
            talk = web.WebSocketResponse()
            await talk.prepare(request)
            async for said in talk:
                await talk.send_str(said.data)
            return talk
        if request.path == "/look":
            return web.json_response("found")
        if request.path == "/guard":
            asked.pop()
            return web.json_response({"action": "block", "reason": "no"})
        stream = b'"stream":true' in (await request.read()).replace(b" ", b"")
        if request.path.endswith("/chat/completions") and stream:
            text = json.dumps({"choices": [{"index": 0, "delta": {"content": "A"}, "finish_reason": "stop"}]})
            return web.Response(
                body=f"data: {text}\n\ndata: [DONE]\n\n".encode(), content_type="text/event-stream"
            )
        return web.json_response(completion("A") | {"output": [], "status": "completed", "data": []})

    async with aiohttp_server(engine) as origin:
        price = {"input_usd_per_mtok": 1000.0, "output_usd_per_mtok": 1000.0}
        big = {"base_url": f"{origin}/v1", "api_key": "sk-up", "price": price, "region": "us"}
        config = {
            "listen": {"workers": 2, "grace_s": 3},
            "log": {"requests": False},
            "health": {"every_s": None},
            "upstream": {"base_url": f"{origin}/up", "api_key": "sk-up", "region": "us"},
            "engines": {"big": big, "far": {**big, "region": "eu"}},
            "models": {"m": {"engines": ["big"], "policy": "fixed", "proof": "off"}},
            "components": {"look": {"kind": "tool", "url": f"{origin}/look"}},
            "workflows": WORKFLOWS,
            "tenants": {"old-world": {"region": "eu"}, "apart": {"partition": "user"}},
            "guardrails": {"no": {"url": f"{origin}/guard", "advanced": {"tenants": ["guarded"]}}},
            "memory": {
                "data_dir": str(folder / "data"),
                "examples": {"enabled": False},
                "exact": {"ttl_s": 1},
            },
        }
        store = Store.open(folder / "data")
        made = {
            right: store.keys.create(TENANTS.get(right, "acme"), right, terms=Terms(**terms))
            for right, terms in RIGHTS.items()
        }
        others = {name: store.keys.create(name, name) for name in ("a stranger", "apart")}
        for right, terms in {**RIGHTS, "later revoked": {}}.items():
            listed = replace(terms.get("limits", Limits()), endpoints=("/realtime",))
            name = right if right not in RIGHTS else f"{right}, realtime"
            tenant = TENANTS.get(right, "acme")
            others[name] = store.keys.create(tenant, name, terms=Terms(**{**terms, "limits": listed}))
        store.keys.revoke(others["revoked, realtime"][0].id).result(30)
        store.keys.revoke(made["revoked"][0].id).result(30)
        store.close()
        (folder / "config.yaml").write_text(json.dumps(config))
        starting = running("--config", str(folder / "config.yaml"), workers=2)
        gateway = await asyncio.to_thread(starting.__enter__)
        try:
            keys = {
                right: {"Authorization": f"Bearer {secret}"} for right, (_, secret) in (made | others).items()
            }
            connector = aiohttp.TCPConnector(limit=0, force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session:
                yield House(gateway, session, keys, asked, config, str(folder / "spare"))
        finally:
            await asyncio.to_thread(starting.__exit__, None, None, None)


SPOKEN = dict.fromkeys(("everything", "another component", "a user required", "a guardrail"), 101) | {
    "another endpoint": 101,
    "another model": 403,
    "another region": 403,
    "no budget": 403,
    "rate used up": 429,
    "revoked": 401,
    "expired": 401,
}
"""What a WebSocket's handshake comes to, with a key that lists the endpoint."""


@pytest.mark.parametrize("right", RIGHTS)
async def test_a_listed_websocket_is_opened_as_documented(house: House, right: str) -> None:
    url = house.gateway.url + "/realtime?model=m"
    key = {**house.keys[f"{right}, realtime"]}
    if right == "rate used up":
        async with house.session.ws_connect(url, headers=key):
            pass
    try:
        async with house.session.ws_connect(url, headers=key) as socket:
            await socket.send_str("Q")
            assert (await socket.receive_str(timeout=PATIENCE_S), SPOKEN[right]) == ("Q", 101)
    except aiohttp.WSServerHandshakeError as refused:
        assert refused.status == SPOKEN[right]


async def test_an_open_websocket_ends_when_its_key_does(house: House) -> None:
    url = house.gateway.url + "/realtime?model=m"
    async with house.session.ws_connect(url, headers=house.keys["later revoked"]) as socket:
        await socket.send_str("Q")
        assert await socket.receive_str(timeout=PATIENCE_S) == "Q"
        await asyncio.to_thread(house.revoke, "later revoked")
        assert (await socket.receive(timeout=PATIENCE_S)).type in (
            aiohttp.WSMsgType.CLOSED,
            aiohttp.WSMsgType.ERROR,
        )


REFUSED = {
    "everything": (200, ""),
    "another model": (403, "model_not_allowed"),
    "another region": (403, "region_not_allowed"),
    "another endpoint": (403, "endpoint_not_allowed"),
    "another component": (200, ""),
    "a user required": (400, "user_required"),
    "revoked": (401, "invalid_api_key"),
    "expired": (401, "expired_api_key"),
    "no budget": (429, "insufficient_quota"),
    "rate used up": (429, "rate_limit_exceeded"),
    "a guardrail": (400, "content_policy_violation"),
}
OK, CLOSED = (200, ""), (403, "endpoint_not_allowed")
UNREAD = (400, "unknown_parameter")
BUT: dict[str, dict[str, tuple[int, str]]] = {
    "component": {"another component": (403, "component_not_allowed")},
    # Nobody is asked anything.
    "one model": dict.fromkeys(("another region", "a user required", "no budget", "a guardrail"), OK),
    # It keeps something in the operator's account: closed until the operator lists it.
    "websocket": dict.fromkeys(
        (
            "everything",
            "another component",
            "another model",
            "another region",
            "a user required",
            "a guardrail",
        ),
        CLOSED,
    )
    | {"no budget": (403, "unpriced")},
    "upstream": {"no budget": (403, "unpriced")},
    # They cost nothing.
    "/messages/count_tokens": {"no budget": OK},
    "/tokenize": {"no budget": OK},
    "/detokenize": {"no budget": OK},
    # The gateway's own, which asks no model. It is let in, and says that its body is not right.
    "feedback": dict.fromkeys(
        (
            "everything",
            "another component",
            "another model",
            "another region",
            "a user required",
            "no budget",
        ),
        UNREAD,
    ),
}


@pytest.mark.parametrize("right", RIGHTS)
async def test_every_door_says_what_is_documented(house: House, right: str) -> None:
    if right == "rate used up":
        await house.through(DOORS["chat"], right)
    found, wanted, passed = {}, {}, {}
    for name, door in DOORS.items():
        house.asked.clear()
        found[name] = await house.through(door, right)
        wanted[name] = BUT.get(name, {}).get(right, REFUSED[right])
        if found[name][0] != 200 and (asked := [path for path in house.asked if path != "/look"]):
            passed[name] = asked
    assert found == wanted
    assert not passed, "nothing of what is refused reaches an engine"


async def test_what_is_a_tenants_or_an_end_users_is_nobody_elses(house: House) -> None:
    ann, bob = {"x-understudy-user": "ann"}, {"x-understudy-user": "bob"}
    for owner, stranger in (
        (house.keys["everything"], house.keys["a stranger"]),
        (house.keys["apart"] | ann, house.keys["apart"] | bob),
        (house.keys["apart"] | ann, house.keys["apart"]),
    ):
        async with house.session.post(
            house.gateway.url + "/runs", json={"steps": [STEP]}, headers=owner
        ) as response:
            run = await response.json()
        assert response.status == 200, run
        objects = [
            ("GET", f"/runs/{run['id']}"),
            ("POST", f"/runs/{run['id']}/cancel"),
            ("GET", f"/variables/{run['variables']['a']['id']}"),
            ("DELETE", f"/runs/{run['id']}"),
        ]
        for who, status in ((stranger, 404), (owner, 200)):
            for method, path in objects:
                async with house.session.request(method, house.gateway.url + path, headers=who) as response:
                    assert response.status == status, (method, path)


async def test_every_endpoint_and_every_caller_of_admission_has_a_row(house: House) -> None:
    covered = {each for door in DOORS.values() for each in door.covers}
    settings = {**house.config, "listen": {}, "memory": {**house.config["memory"], "data_dir": house.spare}}
    async with line(settings) as gate:
        table = {f"{method} {path}" for method, path in gate.gateway.handle._routes._endpoints}  # type: ignore[attr-defined]
    assert table - covered == set(), "an endpoint has no row"
    assert callers() - covered == set(), "who asks to be let in has no row"


def callers() -> set[str]:
    """file:function of everything that asks gateway.admission to let something in."""
    found = set()
    for path in (*(ROOT / "gateway").rglob("*.py"), *(ROOT / "understudy").rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                found |= {f"{path.name}:{function.name}" for node in own(function) if _lets_in(node)}
    return found


def own(function: ast.AST) -> list[ast.AST]:
    """What is in a function, but not in one within it."""
    found, left = [], list(ast.iter_child_nodes(function))
    while left:
        node = left.pop()
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node)
            left += ast.iter_child_nodes(node)
    return found


def _lets_in(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    asks = node.func.attr in ("request", "step", "carried_out", "component", "admit")
    return asks and "admission" in ast.unparse(node.func.value)
