"""Askers who differ in one thing only, in any order, across restarts and configurations: nothing of one reaches another.

A dimension is one thing in which two requests may differ; an asker is a choice in each. A further dimension is one more
entry of DIMENSIONS, with what must not cross along it: answers, examples and feedback, or only answers.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from aiohttp import web
from hypothesis import strategies as st

from tests.flow.histories import property_of
from tests.flow.line import Asked, Got, Line, completion
from tests.flow.test_line_demonstrations import ask, give
from tests.flow.test_line_examples import Stage, stage
from tests.patience import until

QUESTIONS = (
    "How do I list all files in a directory on Linux, including hidden ones?",
    "How do I list all files in a directory on Linux, including the hidden ones?",
    "How do I list all files in a directory on Linux, excluding hidden ones?",
)
MARK = re.compile(r"mark-([a-z0-9.]+)-end")
BY_MODEL = re.compile(r"by-(model-\d)-end")


@dataclass(frozen=True)
class Choice:
    """What a request carries."""

    headers: dict[str, str] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Dimension:
    """In what two requests may differ. `apart`: what must not cross between two choices."""

    choices: tuple[Choice, ...]
    apart: Literal["everything", "answers"] = "everything"


NOBODY = Choice()
CREDENTIALS = Dimension(
    (
        Choice({"Authorization": "Bearer sk-one"}),
        Choice({"Authorization": "Bearer sk-two"}),
        Choice({"api-key": "sk-three"}),
        Choice({"x-api-key": "sk-one"}),
        Choice({"x-goog-api-key": "sk-one"}),
        Choice({"Cookie": "session=sk-one"}),
        Choice({"Authorization": "Bearer sk-one", "Cookie": "session=sk-two"}),
        NOBODY,
    )
)
GATEWAY_KEYS = Dimension(
    (
        Choice({"Authorization": "Bearer KEY-0"}),
        Choice({"x-api-key": "KEY-1"}),
        Choice({"api-key": "KEY-2"}),
    )
)
END_USERS = Dimension(
    (
        Choice(),
        Choice({"x-understudy-user": "ann"}),
        Choice(fields={"safety_identifier": "ben"}),
        Choice(fields={"user": "cem"}),
    )
)
# Not OpenAI-Organization: whoever has a gateway key does not choose the account.
FEATURES = Dimension((Choice(), Choice({"OpenAI-Beta": "x=1"})), apart="answers")
DIMENSIONS: dict[str, tuple[Dimension, ...]] = {
    "without keys": (CREDENTIALS, END_USERS),
    "with keys": (GATEWAY_KEYS, END_USERS, FEATURES),
}

_Step = tuple[str, int, int, int]
STEPS: st.SearchStrategy[_Step] = st.tuples(
    st.sampled_from(
        ["ask"] * 8 + ["give"] * 2 + ["judge"] * 2 + ["correct", "list", "delete", "restart", "reconfigure"]
    ),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.integers(0, len(QUESTIONS) - 1),
)
HISTORIES = st.lists(STEPS, min_size=10, max_size=40)


@dataclass(frozen=True)
class Asker:
    """A choice in each dimension."""

    name: str
    places: tuple[int, ...]
    headers: dict[str, str]
    fields: dict[str, Any]
    anonymous: bool


class World:
    """One data folder through many lives of the gateway."""

    def __init__(self, data: Path, dimensions: tuple[Dimension, ...]) -> None:
        self._data = data
        self._dimensions = dimensions
        self._open = AsyncExitStack()
        self._here: Stage | None = None
        self._secrets: list[str] = []
        self._asking = ""
        self._model = 0
        """Which of two models the large engine is configured to ask."""
        self._decisions: list[tuple[Asker, str]] = []
        self.askers: list[Asker] = []
        self.hits = self.offloaded = self.refused = 0

    async def start(self) -> None:
        memory = {"data_dir": str(self._data), "exact": {"enabled": True}, "anonymous": False}
        large = {"model": f"model-{self._model}"}
        self._here = await self._open.enter_async_context(stage(self._data, memory=memory, large=large))
        self._here.small.script = self._here.large.script = self._answer
        if GATEWAY_KEYS in self._dimensions and not self._secrets:
            await self._make_keys(len(GATEWAY_KEYS.choices))
        self.askers = self.askers or list(self._everybody())

    async def stop(self) -> None:
        await self._open.aclose()

    async def live(self, history: list[_Step]) -> None:
        """One history among the traces of all earlier ones."""
        for what, one, other, question in history:
            asker, target = self.askers[one % len(self.askers)], self.askers[other % len(self.askers)]
            await self._step(what, asker, target, QUESTIONS[question])

    async def _step(self, what: str, asker: Asker, target: Asker, question: str) -> None:
        if what == "ask":
            await self.ask(asker, question)
        elif what == "give":
            answer = f"Given as mark-{asker.name}-end."
            got = await give(self.gate, question, answer, headers=asker.headers, **asker.fields)
            assert got.status == (401 if asker.anonymous else 201)
        elif what in ("judge", "correct"):
            await self._judge(asker, target, question, correct=what == "correct")
        elif what == "list":
            self._only_own(asker, await self._list(asker))
        elif what == "delete":
            await self._delete(asker, target)
        else:
            self._model ^= what == "reconfigure"
            await self.stop()
            await self.start()

    @property
    def gate(self) -> Line:
        assert self._here is not None
        return self._here.gate

    async def ask(self, asker: Asker, question: str) -> Got:
        assert self._here is not None
        self._asking = asker.name
        before = len(self._here.small.asked), len(self._here.large.asked)
        got = await self.gate.chat(question, asker.headers, **asker.fields)
        assert got.status == 200
        self._only_own(asker, got, of="answers")
        assert set(BY_MODEL.findall(got.text)) <= {f"model-{self._model}"}, "of another configuration"
        for sent in (*self._here.small.asked[before[0] :], *self._here.large.asked[before[1] :]):
            self._only_own(asker, sent)
        assert not (asker.anonymous and (got.hit or got.headers["x-understudy-examples"] != "0"))
        self.hits += got.hit
        self.offloaded += got.headers["x-understudy-examples"] != "0"
        self._decisions.append((asker, got.headers["x-understudy-decision-id"]))
        return got

    async def _judge(self, asker: Asker, target: Asker, question: str, *, correct: bool) -> None:
        """Speak of the latest answer to `target`."""
        ids = [id for of, id in self._decisions if of is target]
        if not ids:
            return
        user = {n: v for n, v in asker.fields.items() if n in ("user", "safety_identifier")}
        said: dict[str, Any] = {"decision_id": ids[-1], "score": 1.0} | user
        if correct:
            # It becomes the asker's own or, where they name no user, that of whose answer it was.
            owner = asker if user or "x-understudy-user" in asker.headers else target
            said["correction"] = f"Corrected as mark-{owner.name}-end."
            said["messages"] = [{"role": "user", "content": question}]
        got = await self.gate.post("/feedback", said, asker.headers)
        if asker.anonymous:
            assert got.status == 401
        elif target.anonymous or self._apart(asker, target):
            # Whoever holds the key, and names nobody, speaks for all of its users.
            assert got.status == 404 or self._differs_in_user_only(asker, target)
            self.refused += got.status == 404

    async def _list(self, asker: Asker) -> Got:
        return await ask(self.gate, "GET", "/examples?limit=100", asker.headers)

    async def _delete(self, asker: Asker, target: Asker) -> None:
        """Try to delete what `target` has."""
        listed = await self._list(target)
        for shown in listed.json.get("data", [])[-1:]:
            got = await ask(self.gate, "DELETE", f"/examples/{shown['id']}", asker.headers)
            if asker.anonymous:
                assert got.status == 401
            elif asker.places[0] != target.places[0]:
                assert got.status == 404

    def _only_own(self, asker: Asker, got: Got | Asked, of: str = "everything") -> None:
        """Nothing that was made for an asker who is apart from this one."""
        marks = set(MARK.findall(got.body.decode()))
        others = {a.name for a in self.askers if a is not asker and self._apart(asker, a, of)}
        if isinstance(got, Got) and of == "everything":
            # A list of who names nobody in a header is the tenant's.
            others = {a.name for a in self.askers if a.places[0] != asker.places[0]}
        assert not marks & others, f"{asker.name} got what is {sorted(marks & others)}'s"

    def _apart(self, one: Asker, other: Asker, of: str = "everything") -> bool:
        """Whether nothing may cross between them, or at least no answer."""
        places = zip(self._dimensions, one.places, other.places, strict=True)
        return any(a != b and (d.apart == "everything" or of == "answers") for d, a, b in places)

    def _differs_in_user_only(self, one: Asker, other: Asker) -> bool:
        places = zip(self._dimensions, one.places, other.places, strict=True)
        return all(a == b for d, a, b in places if d is not END_USERS and d.apart == "everything")

    def _everybody(self) -> Iterator[Asker]:
        ranges = [range(len(d.choices)) for d in self._dimensions]
        for places in itertools.product(*ranges):
            chosen = [d.choices[at] for d, at in zip(self._dimensions, places, strict=True)]
            headers = {n: self._with_secret(v) for c in chosen for n, v in c.headers.items()}
            fields = {n: v for c in chosen for n, v in c.fields.items()}
            yield Asker(".".join(map(str, places)), places, headers, fields, NOBODY is chosen[0])

    def _with_secret(self, value: str) -> str:
        return re.sub(r"KEY-(\d)", lambda found: self._secrets[int(found[1])], value)

    async def _make_keys(self, count: int) -> None:
        memory = self.gate.gateway.memory
        assert memory is not None
        keys = memory.store.keys
        for number in range(count):
            self._secrets.append((await asyncio.to_thread(keys.create, f"tenant {number}", "test"))[1])
        await until(lambda: all(map(keys.lookup, self._secrets)), "the keys known")

    async def _answer(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        by = f", by-{asked.json['model']}-end" if asked.json["model"].startswith("model-") else ""
        return web.json_response(completion(f"Made for mark-{self._asking}-end{by}."))


@pytest.fixture(scope="module", params=DIMENSIONS)
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[World, asyncio.Runner]]:
    made = World(tmp_path_factory.mktemp("askers") / "data", DIMENSIONS[request.param])
    with asyncio.Runner() as runner:
        runner.run(made.start())
        try:
            yield made, runner
        finally:
            runner.run(made.stop())


test_nothing_crosses_between_askers = pytest.mark.timeout(300)(property_of(HISTORIES, 6))
test_nothing_crosses_between_askers_in_many_histories = pytest.mark.slow(
    pytest.mark.timeout(1800)(property_of(HISTORIES, 60))
)


@pytest.mark.slow
def test_the_askers_did_reuse_what_was_their_own(world: tuple[World, asyncio.Runner]) -> None:
    """Otherwise nothing crossing would mean nothing."""
    made, runner = world
    before = made.hits, made.offloaded
    everybody = range(len(made.askers))
    runner.run(made.live([("ask", n, 0, question) for n in everybody for question in (0, 1, 0)]))
    known = [asker for asker in made.askers if not asker.anonymous]
    assert made.hits - before[0] >= len(known)
    runner.run(made.live([("judge", n, n + 1, 0) for n in everybody]))
    assert made.offloaded > 0 and made.refused > 0
