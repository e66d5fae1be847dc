"""A gateway with a task, a teacher that answers by script, and the learner at hand. All else is real."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from learning.tasks.trainer import StudentLearner
from store import Store
from tests.flow.line import Asked, Got, Line, Upstream, completion, line, upstream
from understudy.settings.file import parse_config
from understudy.setup.learner import learning

SYSTEM = "Classify what the customer wants. Answer with one label."
WORDS = {
    "refund": ("money back", "refund me", "return the payment", "reimburse what I paid", "charge reversed"),
    "delivery": (
        "where is the parcel",
        "has it shipped",
        "tracking says nothing",
        "when does it arrive",
        "courier lost it",
    ),
    "password": (
        "cannot log in",
        "reset my password",
        "locked out of the account",
        "sign-in fails",
        "forgot my login",
    ),
}
THINGS = ("lamp", "bicycle", "kettle", "sofa", "camera", "tent", "radio", "ladder", "piano", "drill")
SCHEMA = {
    "type": "object",
    "properties": {"intent": {"type": "string", "enum": list(WORDS)}},
    "required": ["intent"],
}
ENUM = {"type": "json_schema", "json_schema": {"name": "intent", "strict": True, "schema": SCHEMA}}
INTENT = {"labels": list(WORDS), "system": "^Classify", "max_loss": 0.2, "retrain_every": 60}
QUICK = INTENT | {"budget": {"share": 0.3}}
"""Where nothing has to be proven first."""
MOST = 1200
"""Requests after which a student that has not taken over never will."""


def right(text: str) -> str:
    return next(label for label, ways in WORDS.items() if any(way in text for way in ways))


@dataclass
class Flow:
    """A gateway with a task, its learner at hand, and a teacher that answers by script."""

    gate: Line
    teacher: Upstream
    learner: StudentLearner
    asked: int = 0
    taught: int = 0
    random: random.Random = field(default_factory=lambda: random.Random(1))

    @property
    def store(self) -> Store:
        assert self.gate.gateway.memory is not None
        return self.gate.gateway.memory.store

    def text(self) -> str:
        self.asked += 1
        label = self.random.choice(list(WORDS))
        way, thing = self.random.choice(WORDS[label]), self.random.choice(THINGS)
        return f"Order {self.asked:04d}, the {thing}: {way}, please."

    async def ask(
        self,
        text: str | None = None,
        headers: Mapping[str, str] | None = None,
        system: str = SYSTEM,
        **fields: Any,
    ) -> Got:
        text = text or self.text()
        messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        body = {"model": "gpt-4o", "messages": messages} | fields
        url = f"{self.gate.url}/chat/completions"
        async with self.gate.session.post(url, json=body, headers=headers) as response:
            return Got(response.status, response.headers.copy(), await response.read())

    async def learn(self) -> None:
        await self.gate.settled()
        await asyncio.to_thread(self.learner.step)

    async def taken_over(self, *, times: int = 5, **asking: Any) -> list[Got]:
        """Ask until the student has answered so often; gives those answers."""
        found: list[Got] = []
        for _ in range(MOST // 10):
            for got in await asyncio.gather(*(self.ask(**asking) for _ in range(10))):
                assert got.status == 200, got.body
                found += [got] if by_student(got) else []
            if len(found) >= times:
                await self.gate.settled()
                return found
            await self.learn()
        raise AssertionError(f"the student answered {len(found)} of {self.asked} requests")


def logprobs(label: str, top: int) -> dict[str, Any]:
    """A teacher's that is quite sure."""

    def token(text: str, probability: float) -> dict[str, Any]:
        return {"token": text, "logprob": math.log(probability), "bytes": list(text.encode())}

    others = [other for other in WORDS if other != label][: max(0, top - 1)]
    ranked = [token(label.capitalize(), 0.9), *(token(other.capitalize(), 0.05) for other in others)]
    return {
        "content": [
            token(label.capitalize(), 0.9) | {"top_logprobs": ranked[:top]},
            token(".", 1.0) | {"top_logprobs": [token(".", 1.0)] if top else []},
        ],
        "refusal": None,
    }


def by_student(got: Got) -> bool:
    return got.headers.get("x-understudy-engine") == "student"


@asynccontextmanager
async def flow(data: Path, task: Any = None, **model: Any) -> AsyncIterator[Flow]:
    async with upstream() as behind:
        served = {"engines": ["large"], "tasks": {"intent": INTENT if task is None else task}} | model
        config = {
            "engines": {"large": {"base_url": behind.url, "advanced": {"attempts": 1}}},
            "models": {"gpt-4o": served},
            "memory": {"data_dir": str(data)},
        }
        async with line(config) as gate:
            with learning(parse_config(config), lambda: False) as parts:
                made = Flow(gate, behind, parts.students)

                async def teach(request: web.Request, asked: Asked) -> web.StreamResponse:
                    if request.path.endswith("/models"):
                        # Whether it lives, asked when it was not heard of for a while.
                        return web.json_response({"data": []})
                    made.taught += 1
                    label = right(asked.json["messages"][-1]["content"])
                    in_json = asked.json.get("response_format")
                    behind.says = json.dumps({"intent": label}) if in_json else label.capitalize() + "."
                    if asked.json.get("stream"):
                        return await behind.stream(request, asked)
                    body = completion(behind.says)
                    if asked.json.get("logprobs"):
                        body["choices"][0]["logprobs"] = logprobs(label, asked.json.get("top_logprobs") or 0)
                    return web.json_response(body)

                behind.script = teach
                yield made
