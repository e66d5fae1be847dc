"""A real gateway with two workers and admin pages, engines over HTTP that can be killed, and the official SDK.

    with real_gateway(tmp_path, config, engines={"large": Engine("24 hours.")}) as gate:
        page = gate.signed_in(profile())                  # `profile`: the fixture of tests/browser/conftest.py
        given = gate.ask("How long?", model="demo")       # by whichever worker
        again = gate.ask_each_worker("How long?", model="demo")
        gate.engines["large"].kill()

Everything is real: processes, sockets, HTTP, SQLite, the embedder, the browser.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import yaml
from playwright.sync_api import BrowserContext, Page

from admin.passwords import hashed
from store import Store
from tests.flow.line import MODELS
from tests.flow.process import Gateway, running
from tests.flow.upstream import Call, Upstream
from tests.patience import PATIENCE_S, wait_for

OPERATOR, PASSWORD = "ann", "correct horse battery staple"
Says = str | Callable[[dict[str, Any]], str]
"""An answer's text, or what makes it of the request's body."""
Messages = str | Sequence[Mapping[str, Any]]
_numbers = itertools.count(1)


class Engine:
    """An OpenAI-like HTTP engine on a port of its own, which can be killed and started again there.

    `script` answers instead of `says` where it is given, by tests/flow/upstream.py.
    """

    def __init__(self, says: Says = "Forty-two.", script: Callable[[Call], None] | None = None) -> None:
        self.says = says
        self.script = script
        self.fails_with: int | None = None
        """The HTTP status of every answer; None: it answers."""
        self._asked: list[dict[str, Any]] = []
        self._open()
        self._port = self._upstream.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The bodies of all chats that reached it, in order."""
        return list(self._asked)

    def kill(self) -> None:
        """From now on connections to it are refused."""
        self._upstream.close()

    def revive(self) -> None:
        """Start it again on the same port."""
        self._open(self._port)

    close = kill

    def _open(self, port: int = 0) -> None:
        self._upstream = Upstream(port)
        self._upstream.plays(self._play)

    def _play(self, call: Call) -> None:
        if self.fails_with is not None:
            error = {
                "message": f"fails with {self.fails_with}",
                "type": "server_error",
                "param": None,
                "code": None,
            }
            call.answer(json.dumps({"error": error}).encode(), self.fails_with, reason="Error")
        elif call.target.partition(b"?")[0].endswith(b"/models"):
            models = [{"id": "m", "object": "model", "created": 1, "owned_by": "us"}]
            call.answer(json.dumps({"object": "list", "data": models}).encode())
        else:
            body = call.json()
            self._asked.append(body)
            if self.script is not None:
                self.script(call)
            else:
                text = self.says if isinstance(self.says, str) else self.says(body)
                (_stream if body.get("stream") else _whole)(call, body, text)


def _whole(call: Call, body: dict[str, Any], text: str) -> None:
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    answer = _head(body, "chat.completion") | {"choices": [choice], "usage": _usage(body, text)}
    call.answer(json.dumps(answer).encode())


def _stream(call: Call, body: dict[str, Any], text: str) -> None:
    head = _head(body, "chat.completion.chunk")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in re.findall(r"\S+\s*", text)] + [{}]
    chunks = [
        head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}]}
        for delta in deltas
    ]
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append(head | {"choices": [], "usage": _usage(body, text)})
    call.begin()
    for chunk in chunks:
        call.chunk(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    call.chunk(b"data: [DONE]\n\n")
    call.end()


def _head(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{next(_numbers)}", "object": kind, "created": 1, "model": body["model"]}


def _usage(body: dict[str, Any], text: str) -> dict[str, int]:
    """Words as tokens: only their number is looked at."""
    asked = sum(len(str(message.get("content", "")).split()) for message in body["messages"])
    answered = len(text.split())
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}


@dataclass(frozen=True)
class Given:
    """One answer, as the official SDK gave it."""

    text: str
    completion_id: str
    headers: Mapping[str, str]

    @property
    def decision_id(self) -> str:
        return self.headers["x-understudy-decision-id"]

    @property
    def hit(self) -> bool:
        """Whether it came from the cache."""
        return "hit" in self.headers["cache-status"]


@dataclass
class RealGateway:
    """Everything running. `store` is opened on its data folder, as another process would."""

    gateway: Gateway
    admin_url: str
    data: Path
    store: Store
    engines: Mapping[str, Engine]
    key: str = "sk-client"
    """The credential of `ask`; anybody's, where anonymous requests have a memory of their own."""

    @property
    def workers(self) -> list[int]:
        """Process ids."""
        return sorted(int(event["pid"]) for event in self.gateway.events("listening"))

    @contextmanager
    def client(self, worker: int | None = None, *, key: str = "") -> Iterator[openai.OpenAI]:
        """An SDK client with one connection of its own; `worker`: that this process has taken."""
        with (
            self._connection(worker) as http,
            openai.OpenAI(
                base_url=self.gateway.url, api_key=key or self.key, max_retries=0, http_client=http
            ) as client,
        ):
            yield client

    @contextmanager
    def _connection(self, worker: int | None) -> Iterator[openai.DefaultHttpxClient]:
        while True:
            with openai.DefaultHttpxClient(timeout=PATIENCE_S) as http:
                # The connection is kept: what is asked next goes the same way.
                looked = http.get(f"{self.gateway.origin}/healthz")
                port = looked.extensions["network_stream"].get_extra_info("client_addr")[1]
                if worker is None or self._taken_by(port) == worker:
                    yield http
                    return

    def ask(
        self,
        messages: Messages,
        *,
        model: str = "demo",
        worker: int | None = None,
        key: str = "",
        headers: Mapping[str, str] | None = None,
        **fields: Any,
    ) -> Given:
        """One chat completion over the official SDK. Raises openai.APIStatusError and the like."""
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        with self.client(worker, key=key) as client:
            raw = client.chat.completions.with_raw_response.create(
                model=model, messages=said, extra_headers=dict(headers or {}), **fields
            )
            answer = raw.parse()
            return Given(
                answer.choices[0].message.content or "",
                answer.id,
                {name.lower(): value for name, value in raw.headers.items()},
            )

    def ask_each_worker(self, messages: Messages, **fields: Any) -> list[Given]:
        """The same request to every worker, without leaving anything in the cache; one answer for each."""
        headers = {"Cache-Control": "no-store", **fields.pop("headers", {})}
        return [self.ask(messages, worker=worker, headers=headers, **fields) for worker in self.workers]

    def settle(self) -> None:
        """Wait until everything that any worker has answered so far is committed and can be found."""
        for worker in self.workers:
            wait_for(lambda worker=worker: self._is_settled(worker), "settled", log=self.gateway.log)

    def signed_in(self, profile: BrowserContext) -> Page:
        """A page at the overview, signed in by the form as an operator."""
        page = profile.new_page()
        page.goto(self.admin_url + "/sign-in")
        page.get_by_label("Name").fill(OPERATOR)
        page.get_by_label("Password").fill(PASSWORD)
        page.keyboard.press("Enter")
        page.wait_for_url("**/overview")
        return page

    def _is_settled(self, worker: int) -> bool:
        with self._connection(worker) as http:
            return bool(http.get(f"{self.gateway.origin}/readyz?settled=1").status_code == 200)

    def _taken_by(self, port: int) -> int | None:
        """The worker that has the other end of the connection from this local port."""
        ours = f":{self.gateway.port:04X}", f":{port:04X}"
        inodes = {
            columns[9]
            for columns in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
            if columns[1].endswith(ours[0]) and columns[2].endswith(ours[1])
        }
        links = {f"socket:[{inode}]" for inode in inodes}
        return next((pid for pid in self.workers if links & _open_files(pid)), None)


def _open_files(pid: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(descriptor.readlink()))
    return found


@contextmanager
def real_gateway(
    folder: Path,
    config: Mapping[str, Any],
    *,
    workers: int = 2,
    engines: Mapping[str, Engine] | None = None,
    arguments: Sequence[str] = (),
) -> Iterator[RealGateway]:
    """`understudy serve` with workers and admin pages on `config` (as in the file), ended afterwards with its engines.

    `engines`: by name; each is added to the configuration's engine of that name, which may say price and role, or is one
    by itself. The operator `ann` exists. `arguments`: further ones of `serve`.
    """
    made = dict(engines or {})
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(_whole_config(folder, config, workers, made)))
    with ExitStack() as stack:
        for engine in made.values():
            stack.callback(engine.close)
        words = ("--config", str(path), "--admin", "on", *arguments)
        gateway = stack.enter_context(running(*words, workers=workers))
        (listening,) = gateway.wait_for_event("admin_listening")
        store = stack.enter_context(_opened(folder / "data"))
        store.operators.put(OPERATOR, "operator", hashed(PASSWORD))
        gate = RealGateway(gateway, listening["url"], folder / "data", store, made)
        gate.settle()
        yield gate


@contextmanager
def _opened(folder: Path) -> Iterator[Store]:
    store = Store.open(folder)
    try:
        yield store
    finally:
        store.close()


def _whole_config(
    folder: Path, config: Mapping[str, Any], workers: int, engines: Mapping[str, Engine]
) -> dict[str, Any]:
    """With what every such test wants, where the test says nothing else."""
    # What traffic leaves behind must not hang on how busy the machine is.
    patient = {"retrieve_deadline_ms": 10_000, "embedding_deadline_ms": 10_000}
    wanted = {
        "listen": {"workers": workers, "grace_s": 1},
        "engines": {
            name: {"base_url": engine.url, "advanced": {"attempts": 1}} for name, engine in engines.items()
        },
        "memory": {
            "data_dir": str(folder / "data"),
            "anonymous": True,
            "advanced": {**patient, "embedding_cache_dir": str(MODELS)},
        },
        "learning": {"enabled": False},
        "admin": {"port": 0},
    }
    return _merged(wanted, config)


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings, at every depth; where they differ, the other's value."""
    merged = dict(one)
    for name, value in other.items():
        here = merged.get(name)
        both = isinstance(here, Mapping) and isinstance(value, Mapping)
        merged[name] = _merged(here, value) if both else value  # type: ignore[arg-type]
    return merged
