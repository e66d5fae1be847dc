"""A real gateway in front of real vLLM servers, and a traveller who asks it about the towns of the tiny models' world."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.tiny_models.world import Fact, World
from benchmarks.vllm.serving import Served
from tests.flow.line import MODELS
from tests.flow.process import Gateway, running

WAIT_S = 120.0
MODEL = "town-guide"
WORLD = World()


@dataclass
class Said:
    """One answer, whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        parsed = json.loads(self.body)
        assert isinstance(parsed, dict)
        return parsed

    @property
    def text(self) -> str:
        assert self.status == 200, self.body
        return str(self.json["choices"][0]["message"]["content"])

    @property
    def engine(self) -> str:
        """Who answered; empty where nobody was asked."""
        return self.headers.get("x-understudy-engine", "")

    @property
    def examples(self) -> int:
        return int(self.headers["x-understudy-examples"])

    @property
    def decision(self) -> str:
        return self.headers["x-understudy-decision-id"]

    @property
    def hit(self) -> bool:
        return "; hit" in self.headers.get("Cache-Status", "")

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that the engine found in its prefix cache."""
        return int((self.json["usage"]["prompt_tokens_details"] or {}).get("cached_tokens") or 0)


@dataclass
class Guide:
    """Asks a gateway, blocking. `key` is the client's credential, and so its tenant; without one, the default tenant."""

    gateway: Gateway
    key: str = "sk-traveller"
    fields: dict[str, Any] = field(
        default_factory=lambda: {"model": MODEL, "temperature": 0, "max_tokens": 24}
    )

    def ask(
        self,
        asked: str | list[dict[str, Any]],
        *,
        engine: str = "",
        fresh: bool = False,
        again: bool = False,
        **more: Any,
    ) -> Said:
        """A chat completion, whole. `engine` must answer it; `fresh`: nothing kept is used, and nothing of it is kept;
        `again`: no kept answer is used. `more` are fields of the body."""
        headers = {"x-understudy-engine": engine} if engine else {}
        if fresh or again:
            headers["Cache-Control"] = "no-store, no-cache" if fresh else "no-cache"
        return self.send("POST", "/chat/completions", self.body(asked, **more), headers)

    def body(self, asked: str | list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """A request's body."""
        messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
        return self.fields | {"messages": messages} | more

    @contextmanager
    def streaming(self, asked: str | list[dict[str, Any]], **more: Any) -> Iterator[Stream]:
        """A streamed chat completion; leaving the context hangs up."""
        body = self.body(asked, stream=True, **more)
        connection = self._connection()
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body), self._headers())
            yield Stream(connection.getresponse())
        finally:
            connection.close()

    def teach(self, question: str, answer: str) -> None:
        """A demonstration; it can be retrieved when this returns."""
        body = {"messages": [{"role": "user", "content": question}], "answer": answer}
        given = self.send("POST", "/examples", body)
        assert given.status == 201, given.body

    def teach_fact(self, fact: Fact, phrasing: int) -> None:
        """The right answer to a fact's question in one phrasing."""
        self.teach(fact.question(phrasing), fact.answer)

    def bank(self) -> list[dict[str, Any]]:
        """This tenant's examples, oldest first."""
        found: list[dict[str, Any]] = []
        after = ""
        while True:
            page = self.send("GET", f"/examples?limit=100{after}").json
            found += page["data"]
            if not page["has_more"]:
                return found
            after = f"&after={page['last_id']}"

    def score(self, said: Said, quality: float) -> None:
        """Feedback on an answer."""
        told = self.send("POST", "/feedback", {"decision_id": said.decision, "score": quality})
        assert told.status in (200, 201), told.body

    def send(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Said:
        """One exchange on a connection of its own."""
        connection = self._connection()
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, "/v1" + path, data, self._headers() | dict(headers or {}))
            response = connection.getresponse()
            return Said(response.status, response.headers, response.read())
        finally:
            connection.close()

    def figures(self) -> str:
        """The gateway's own series."""
        connection = self._connection()
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=WAIT_S)

    def _headers(self) -> dict[str, str]:
        whose = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {"Content-Type": "application/json"} | whose


class Stream:
    """The events of a streamed answer, as they come."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers = response.status, response.headers
        self._response = response

    def lines(self) -> Iterator[str]:
        """The data of each event, `[DONE]` included."""
        for line in self._response:
            if line.startswith(b"data: "):
                yield line[6:].strip().decode()

    def rest(self) -> list[str]:
        """What still comes, be it events or nothing, until the stream ends or breaks."""
        found: list[str] = []
        with contextlib.suppress(http.client.HTTPException, OSError):
            found.extend(self.lines())
        return found

    def deltas(self) -> Iterator[str]:
        """What is said, piece by piece."""
        for line in self.lines():
            if line != "[DONE]":
                for choice in json.loads(line).get("choices", ()):
                    if text := choice["delta"].get("content"):
                        yield text


def settings(data: Path, small: Served, large: Served, **model: Any) -> dict[str, Any]:
    """A gateway's configuration: both engines, one served model with `model`'s fields, a bank in `data`, no deadline that a
    busy machine could miss."""
    return {
        "engines": {
            "small": _engine(small, input_usd=0.1, output_usd=0.4),
            "large": _engine(large, input_usd=1.0, output_usd=4.0),
        },
        "models": {MODEL: {"engines": ["small", "large"]} | model},
        "memory": {
            "data_dir": str(data),
            "advanced": {
                "embedding_cache_dir": str(MODELS),
                "embedding_deadline_ms": 10_000,
                "retrieve_deadline_ms": 10_000,
            },
        },
        "listen": {"grace_s": 2},
    }


def pooled(*replicas: Served, **advanced: Any) -> dict[str, Any]:
    """Settings that replace the engines and models of `settings`: one engine with these replicas, asked by policy fixed."""
    pool = {
        "kind": "vllm",
        "api_key": "none",
        "base_urls": [served.url for served in replicas],
        "model": replicas[0].model,
        "advanced": {"poll_s": 0.2} | advanced,
    }
    return {"engines": {"pool": pool}, "models": {MODEL: {"engines": ["pool"], "policy": "fixed"}}}


def _engine(served: Served, *, input_usd: float, output_usd: float) -> dict[str, Any]:
    price = {"input_usd_per_mtok": input_usd, "output_usd_per_mtok": output_usd}
    return {
        "kind": "vllm",
        "api_key": "none",
        "base_url": served.url,
        "model": served.model,
        "price": price,
        "advanced": {"poll_s": 0.2},
    }


@contextmanager
def guided(folder: Path, config: dict[str, Any], module: str = "understudy") -> Iterator[Guide]:
    """`understudy serve` with that configuration, and someone to ask it; stopped at the end. `module`: as in `running`."""
    path = folder / "config.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    with running("--config", str(path), module=module) as gateway:
        yield Guide(gateway)


def until(condition: Callable[[], object], what: str, timeout_s: float = WAIT_S) -> None:
    """Waits for what takes its time in another process."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.1)
