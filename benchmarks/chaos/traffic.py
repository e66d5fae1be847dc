"""The load: clients that ask, judge, correct, demonstrate and leave, as SDKs do, and what came of each request."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from benchmarks.chaos.site import KEYS
from benchmarks.chaos.upstream import MOST_TOKENS, pieces

RETRIES = 2
"""How often SDKs try again after a connection that failed before the answer's head came."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 8.0
_REQUEST_WITHIN_S = 60.0
_SERVES_AGAIN_WITHIN_S = 120.0
_PASSED_OVER_S = 3.0
"""A gateway that could not be reached is asked again after so long, as balancers do."""
_KINDS = {
    "chat": 30,
    "chat stream": 25,
    "response": 8,
    "response stream": 7,
    "leaves": 6,
    "feedback": 10,
    "correction": 6,
    "example": 8,
}
_ASKED_BY = {"open": 50, "wide": 25, "tight": 20, "rated": 5}
_VERBS = (
    "paint",
    "repair",
    "measure",
    "move",
    "clean",
    "store",
    "compare",
    "insure",
    "draw",
    "lift",
    "sell",
    "heat",
)
_SUBJECTS = (
    "fences",
    "boats",
    "bridges",
    "violins",
    "gardens",
    "kettles",
    "maps",
    "tunnels",
    "lamps",
    "ovens",
    "kites",
)
_PLACES = (
    "in spring",
    "at sea",
    "on a hill",
    "under a roof",
    "near a river",
    "in a museum",
    "at night",
    "in the desert",
)


@dataclass
class Asked:
    """One request of a client and how it ended."""

    kind: str
    key: str
    began_s: float
    ended_s: float = 0.0
    outcome: str = ""
    """answered, left; limited (429 of a limit), refused (503 of the store or of limits that it keeps), unknown (404 for an
    answer that no row is kept of), cut (broken off after its head); failed: anything else."""
    note: str = ""
    tries: int = 1
    waited: bool = False
    """For the supervisor to be started again."""
    about_s: float = 0.0
    """When the answer that it is about had ended."""


@dataclass(frozen=True)
class Acknowledged:
    """What the gateway said it has kept, and how to ask for it again."""

    kind: str
    key: str
    id: str
    body: dict[str, Any] | None = None
    """Of feedback: said again, it must be known already."""


@dataclass(frozen=True)
class _Answer:
    """One that may be judged."""

    key: str
    decision: str
    question: str
    ended_s: float


@dataclass
class Traffic:
    """Asks at a rate until it is told to stop, one gateway or, by turns, several."""

    urls: list[str]
    """Where gateways serve, as a balancer knows: an address that is taken out is asked nothing more."""
    rate: float
    seed: int
    asked: list[Asked] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
    bills: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Key and dollars by decision, as the gateway told them of a settled request."""
    serving: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared while the harness knows that nobody listens: the supervisor was killed."""
    stopping: bool = False
    left: Counter[str] = field(default_factory=Counter)
    """Clients that left, by key."""

    def __post_init__(self) -> None:
        """Draws come from the seed."""
        self._dice = random.Random(self.seed)
        self._number = 0
        self._answers: deque[_Answer] = deque(maxlen=50)
        self._turn = 0
        self._unreachable: dict[str, float] = {}
        self.serving.set()

    async def run(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=5)
        async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
            while not self.stopping:
                tasks.create_task(self._one(session))
                await asyncio.sleep(self._dice.expovariate(self.rate))

    def address(self) -> str:
        """Of the gateway whose turn it is, of those that could be reached lately."""
        now = time.monotonic()
        there = [url for url in self.urls if self._unreachable.get(url, 0.0) < now] or self.urls
        self._turn += 1
        return there[self._turn % len(there)]

    async def _one(self, session: aiohttp.ClientSession) -> None:
        kind = self._dice.choices(list(_KINDS), list(_KINDS.values()))[0]
        key = self._dice.choices(list(_ASKED_BY), list(_ASKED_BY.values()))[0]
        self._number += 1
        asked = Asked(kind, key, time.monotonic())
        try:
            async with asyncio.timeout(_SERVES_AGAIN_WITHIN_S + _REQUEST_WITHIN_S):
                if kind in ("feedback", "correction"):
                    await self._judge(session, asked)
                elif kind == "example":
                    await self._demonstrate(session, asked)
                else:
                    await self._ask(session, asked)
        except Exception as error:
            asked.outcome = asked.outcome or "failed"
            asked.note = asked.note or f"{type(error).__name__}: {error}"[:300]
        asked.ended_s = asked.ended_s or time.monotonic()
        if asked.outcome:
            self.asked.append(asked)

    # ---- kinds of requests

    async def _ask(self, session: aiohttp.ClientSession, asked: Asked) -> None:
        tag = f"{asked.key}-{self._number}"
        question = f"#{tag} {self._question()}"
        body: dict[str, Any] = {"model": self._dice.choice(("three", "three", "pair"))}
        path = "/chat/completions"
        if asked.kind.startswith("response"):
            path = "/responses"
            body |= {"input": question, "max_output_tokens": MOST_TOKENS}
        else:
            body |= {"messages": [{"role": "user", "content": question}], "max_tokens": MOST_TOKENS}
        streamed = "stream" in asked.kind or asked.kind == "leaves"
        got = await self._sent(session, asked, path, body | {"stream": streamed})
        if got is None:
            return
        head, read = got
        said = _said(asked.kind, read)
        if said != "".join(pieces(tag)):
            asked.outcome = "cut" if streamed else "failed"
            asked.note = f"not the whole answer: {read[-300:]!r}"
            return
        asked.outcome = "answered"
        decision = head.get("x-understudy-decision-id", "")
        if path == "/chat/completions":
            self._answers.append(_Answer(asked.key, decision, question, time.monotonic()))
        if self._dice.random() < 0.1:
            asked.ended_s = time.monotonic()
            await self._note_bill(session, asked.key, decision)

    async def _note_bill(self, session: aiohttp.ClientSession, key: str, decision: str) -> None:
        for _ in range(3):
            await asyncio.sleep(1.0)
            try:
                async with session.get(
                    f"{self.address()}/v1/usage/{decision}", headers=bearer(key)
                ) as answer:
                    if answer.status == 200:
                        self.bills[decision] = (key, (await answer.json())["cost_usd"])
                        return
            except (aiohttp.ClientError, OSError, TimeoutError):
                continue

    async def _judge(self, session: aiohttp.ClientSession, asked: Asked) -> None:
        if not self._answers:
            return
        about = self._dice.choice(self._answers)
        self._answers.remove(about)
        asked.key, asked.about_s = about.key, about.ended_s
        body: dict[str, Any] = {"decision_id": about.decision, "score": round(self._dice.random(), 3)}
        if asked.kind == "correction":
            right = f"It is said in chapter {self._number}: {self._question()}"
            messages = [{"role": "user", "content": about.question}]
            body = {"decision_id": about.decision, "correction": right, "messages": messages}
        got = await self._sent(session, asked, "/feedback", body)
        if got is not None:
            asked.outcome = "answered"
            self.acknowledged.append(Acknowledged(asked.kind, asked.key, about.decision, body))

    async def _demonstrate(self, session: aiohttp.ClientSession, asked: Asked) -> None:
        messages = [{"role": "user", "content": f"Case {self._number}: {self._question()}"}]
        body = {"model": "pair", "messages": messages, "answer": f"See page {self._number} of the manual."}
        got = await self._sent(session, asked, "/examples", body)
        if got is not None:
            asked.outcome = "answered"
            self.acknowledged.append(Acknowledged(asked.kind, asked.key, json.loads(got[1])["id"]))

    def _question(self) -> str:
        draw = self._dice.choice
        return (
            f"How does one {draw(_VERBS)} {draw(_SUBJECTS)} {draw(_PLACES)}, and {draw(_VERBS)} them later?"
        )

    # ---- sending

    async def _sent(
        self, session: aiohttp.ClientSession, asked: Asked, path: str, body: dict[str, Any]
    ) -> tuple[dict[str, str], bytes] | None:
        """Head and body of a good answer; None where there is none, with the outcome noted."""
        pause_s = _FIRST_PAUSE_S
        while True:
            head, url = False, self.address()
            try:
                async with asyncio.timeout(_REQUEST_WITHIN_S):
                    async with session.post(
                        f"{url}/v1{path}", json=body, headers=bearer(asked.key)
                    ) as answer:
                        head = True
                        if asked.kind == "leaves" and answer.status == 200:
                            await answer.content.readany()
                            self.left[asked.key] += 1
                            asked.outcome = "left"
                            answer.close()
                            return None
                        read = await answer.read()
                if answer.status < 300:
                    return {name.lower(): value for name, value in answer.headers.items()}, read
                _note(asked, answer.status, read)
                return None
            except (aiohttp.ClientError, ConnectionError) as error:
                if head:
                    asked.outcome, asked.note = "cut", repr(error)
                    return None
                if asked.tries > RETRIES and self.serving.is_set():
                    raise
                asked.note = f"tried again: {error!r}"[:200]
                if isinstance(error, aiohttp.ClientConnectorError):
                    self._unreachable[url] = time.monotonic() + _PASSED_OVER_S
            if self.serving.is_set():
                asked.tries += 1
            else:
                # Nobody can answer before the harness has started the supervisor again: such tries do not count.
                asked.waited = True
            await asyncio.sleep(pause_s * self._dice.uniform(0.75, 1.0))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def bearer(key: str) -> dict[str, str]:
    """The header of a client's key."""
    return {"Authorization": f"Bearer {KEYS[key]}"}


def _note(asked: Asked, status: int, read: bytes) -> None:
    try:
        code = str(json.loads(read)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        code = ""
    asked.note = f"{status} {code}: {read[:300]!r}"
    outcomes = {
        (429, "rate_limit_exceeded"): "limited",
        (429, "insufficient_quota"): "limited",
        (503, "limits_unavailable"): "refused",
        (503, "store_unavailable"): "refused",
        (503, "store_busy"): "refused",
        (404, "answer_not_found"): "unknown",
    }
    asked.outcome = outcomes.get((status, code), "failed")


def _said(kind: str, read: bytes) -> str | None:
    """The text of a whole answer; None of one that broke off."""
    if kind == "chat":
        return str(json.loads(read)["choices"][0]["message"]["content"])
    if kind == "response":
        return str(json.loads(read)["output"][0]["content"][0]["text"])
    events = [line[6:] for line in read.split(b"\n") if line.startswith(b"data: ")]
    if kind == "response stream":
        last = json.loads(events[-1]) if events else {}
        done = last.get("type") == "response.completed"
        return str(last["response"]["output"][0]["content"][0]["text"]) if done else None
    if not events or events[-1] != b"[DONE]":
        return None
    chunks = [json.loads(event) for event in events[:-1]]
    if any("error" in chunk for chunk in chunks):
        return None
    return "".join(
        choice["delta"].get("content") or "" for chunk in chunks for choice in chunk.get("choices", ())
    )
