"""Feedback over a real socket into a real store: whose it may be, what follows from it, and when it is acknowledged."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.endpoints.feedback import Feedback
from gateway.entry import EntryHandler
from gateway.keys import CredentialTenants, KeyAuthentication
from gateway.limits.feedback_rate import FeedbackRate
from learning.bank.contributor import EndUsers, contributor
from learning.outcomes.feedback import BEATEN
from learning.outcomes.feedback_intake import FeedbackIntake
from store.decisions import session_ids
from store.records import Example, OutcomeRecord
from tests.flow.line import MODELS
from tests.gateway.serving import OneHandler, open_admission, served
from tests.store.rows import choice_record, new_example, request_record
from understudy.memory import Memory
from understudy.settings.memory import MemorySettings
from understudy.settings.retention import RetentionSettings
from understudy.setup.outcomes import feedback_intake

QUESTION = "How do I list all files in a directory on Linux, including hidden ones?"
MESSAGES = [{"role": "user", "content": QUESTION}]
RIGHT = "Use ls -a, which shows hidden files too."
HOUR_S = 3600.0


@dataclass
class Got:
    status: int
    json: dict[str, Any]
    headers: Any

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


@dataclass
class Here:
    memory: Memory
    intake: FeedbackIntake
    url: str
    session: aiohttp.ClientSession
    secrets: dict[str, str]
    tenants: dict[str, str]
    keys: dict[str, str]

    async def say(self, body: Any, who: str = "ann", **headers: str) -> Got:
        data = body if isinstance(body, bytes) else json.dumps(body)
        sent = {"Authorization": f"Bearer {self.secrets[who]}", "Content-Type": "application/json"} | headers
        async with self.session.post(self.url, data=data, headers=sent) as response:
            return Got(response.status, await response.json(), response.headers)

    def answered(self, number: int, who: str = "ann", **changes: Any) -> None:
        """Have the router choose, and an engine answer."""
        fields = {"tenant": self.tenants[who], "at_s": time.time(), "example_ids": ()}
        record = choice_record(number, **(fields | changes))
        self.memory.store.decisions.choices.record(record).result(30)

    def outcomes(self, number: int, who: str = "ann") -> list[OutcomeRecord]:
        return self.memory.store.outcomes.of(self.tenants[who], f"req-{number}")

    def example(self, number: int, who: str = "ann", **changes: Any) -> Example:
        """Have an example with a vector of the embedder's own kind."""
        store, tenant = self.memory.store, self.tenants[who]
        by = contributor(store.secret, tenant, self.keys[who], "")
        new = new_example(number, tenant, vector=None, contributor=by, **changes)
        return store.examples.add(new).result(30)

    def quality(self, example: Example) -> float | None:
        self.memory.store.examples.flush_uses()
        assert self.memory.store.drain(30)
        found = self.memory.store.examples.get(example.tenant, example.id)
        assert found is not None
        return found.quality


@asynccontextmanager
async def place(folder: Path, *, with_examples: bool = True, **changes: Any) -> AsyncIterator[Here]:
    settings = MemorySettings.model_validate(
        {
            "data_dir": str(folder),
            "advanced": {"embedding_cache_dir": str(MODELS), "embedding_deadline_ms": 10_000},
        }
    )
    memory = await asyncio.to_thread(Memory.open, settings, RetentionSettings())
    try:
        created = {
            who: memory.store.keys.create(tenant, who)
            for who, tenant in (("ann", "acme"), ("ben", "acme"), ("eve", "umbrella"))
        }
        rate = FeedbackRate(changes.pop("per_minute", 10_000))
        made = feedback_intake(
            memory,
            memory.example_store(settings) if with_examples else None,
            apart=True,
            window_s=HOUR_S,
            settle_s=0.0,
        )
        made = replace(made, **changes)
        keys = KeyAuthentication(memory.store.keys, CredentialTenants(str))
        entry = EntryHandler(
            OneHandler(Feedback(made, rate, EndUsers(memory.store.secret, apart=True), max_json_bytes=2**16)),
            keys,
            open_admission(),
            began=lambda: None,
            ended=lambda _: None,
        )
        async with served(entry) as port, aiohttp.ClientSession() as session:
            yield Here(
                memory,
                made,
                f"http://127.0.0.1:{port}/feedback",
                session,
                {who: secret for who, (_, secret) in created.items()},
                {who: key.tenant for who, (key, _) in created.items()},
                {who: key.id for who, (key, _) in created.items()},
            )
    finally:
        await asyncio.to_thread(memory.close)


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Here]:
    async with place(tmp_path / "data") as made:
        yield made


async def test_feedback_becomes_an_outcome_of_the_engine_that_answered_with_what_it_was_sent(
    here: Here,
) -> None:
    here.answered(1, engine="small", example_ids=(3, 1))
    got = await here.say({"completion_id": "chatcmpl-1", "score": 0.4, "thumb": "up", "comment": "Hm."})
    assert got.status == 201
    assert (
        got.json["object"] == "feedback" and got.json["decision_id"] == "req-1" and got.json["score"] == 0.4
    )
    by_how = {json.loads(o.detail)["how"]: o for o in here.outcomes(1)}
    assert {how: o.quality for how, o in by_how.items()} == {"score": 0.4, "thumb": 1.0}
    for outcome in by_how.values():
        assert (outcome.source, outcome.served, outcome.engine) == ("user", True, "small")
        assert outcome.example_ids == (3, 1) and outcome.probability == 1.0
        assert "Hm." not in outcome.detail
    (kept,) = here.memory.store.outcomes.feedback.of(here.tenants["ann"], "req-1")
    assert kept.comment == "Hm."


async def test_feedback_is_committed_and_synced_before_it_is_acknowledged(tmp_path: Path) -> None:
    seen: list[int] = []

    def sync() -> None:
        # Another connection sees only what is committed.
        with closing(sqlite3.connect(tmp_path / "data" / "understudy.db")) as db:
            seen.append(db.execute("SELECT count(*) FROM outcomes").fetchone()[0])

    async with place(tmp_path / "data", sync=sync) as here:
        here.answered(1)
        for expected in (201, 200):
            assert (await here.say({"decision_id": "req-1", "thumb": "down"})).status == expected
    assert seen == [1, 1]


async def test_another_tenants_answer_does_not_exist_and_a_colleagues_does(here: Here) -> None:
    here.answered(1)
    missing = await here.say({"decision_id": "req-9", "score": 1}, "eve")
    for body in ({"decision_id": "req-1"}, {"completion_id": "chatcmpl-1"}):
        theirs = await here.say(body | {"score": 1}, "eve")
        assert theirs.status == missing.status == 404 and theirs.code == missing.code == "answer_not_found"
    here.answered(2, "eve")
    preferred = await here.say({"decision_id": "req-2", "preferred_over": "req-1"}, "eve")
    assert preferred.status == 404 and preferred.json["error"]["param"] == "preferred_over"
    assert here.outcomes(1) == [] and here.outcomes(2, "eve") == []
    assert (await here.say({"decision_id": "req-1", "score": 1}, "ben")).status == 201


async def test_nobody_gives_feedback_without_a_key(here: Here) -> None:
    here.answered(1)
    here.secrets["mallory"] = "us-unknown"
    assert (await here.say({"decision_id": "req-1", "score": 1}, "mallory")).status == 401


async def test_the_same_feedback_again_is_acknowledged_and_counts_once(here: Here) -> None:
    here.answered(1)
    body = {"decision_id": "req-1", "score": 0.5, "comment": "So so."}
    first, again = await here.say(body), await here.say(body)
    assert (first.status, again.status) == (201, 200) and first.json == again.json
    together = await asyncio.gather(*(here.say({"decision_id": "req-1", "thumb": "up"}) for _ in range(5)))
    assert sorted(got.status for got in together) == [200] * 4 + [201]
    assert len(here.outcomes(1)) == 2
    assert (await here.say(body, "ben")).status == 201, "another person's word counts, too"


async def test_an_idempotency_key_is_never_two_feedbacks(here: Here) -> None:
    here.answered(1)
    key = {"Idempotency-Key": "k-1"}
    first = await here.say({"decision_id": "req-1", "score": 0.5}, **key)
    again = await here.say({"decision_id": "req-1", "score": 0.5}, **key)
    other = await here.say({"decision_id": "req-1", "score": 0.9}, **key)
    assert first.json == again.json and (first.status, again.status) == (201, 200)
    assert (other.status, other.code) == (409, "idempotency_conflict")
    assert (await here.say({"decision_id": "req-1", "score": 0.9}, **{"Idempotency-Key": ""})).status == 400
    assert len(here.outcomes(1)) == 1


async def test_of_two_answers_the_preferred_is_good_and_the_other_is_less_than_that(here: Here) -> None:
    here.answered(1, engine="large")
    here.answered(2, engine="small")
    got = await here.say({"completion_id": "chatcmpl-1", "preferred_over": "chatcmpl-2"})
    assert got.json["preferred_over"] == "req-2"
    (better,), (worse,) = here.outcomes(1), here.outcomes(2)
    assert (better.engine, better.quality) == ("large", 1.0)
    assert (worse.engine, worse.quality) == ("small", BEATEN)
    itself = await here.say({"completion_id": "chatcmpl-1", "preferred_over": "req-1"})
    assert (itself.status, itself.json["error"]["param"]) == (400, "preferred_over")


async def test_feedback_comes_too_late_once_and_for_all(here: Here) -> None:
    here.answered(1, at_s=time.time() - HOUR_S - 1)
    late = await here.say({"decision_id": "req-1", "score": 1})
    assert (late.status, late.code) == (410, "feedback_too_late")
    assert here.outcomes(1) == []


async def test_a_replayed_answer_takes_feedback_and_teaches_nothing_about_engines(here: Here) -> None:
    row = request_record(
        1, tenant=here.tenants["ann"], outcome="hit", engine="", example_ids=(), started_at_s=time.time()
    )
    here.memory.store.decisions.requests.record(row).result(30)
    assert (await here.say({"decision_id": "req-1", "thumb": "down", "comment": "Stale."})).status == 201
    assert here.outcomes(1) == []
    assert len(here.memory.store.outcomes.feedback.of(here.tenants["ann"], "req-1")) == 1


async def test_the_examples_an_answer_was_made_with_and_became_are_judged_and_no_lent_one(here: Here) -> None:
    used, lent = here.example(100), here.example(101, "eve")
    became, bystander = here.example(1), here.example(102)
    here.answered(1, example_ids=(used.id, lent.id))
    for _ in range(2):
        await here.say({"decision_id": "req-1", "thumb": "down"})
    assert [here.quality(e) for e in (used, became, lent, bystander)] == [0.0, 0.0, None, None]
    await here.say({"decision_id": "req-1", "comment": "Just saying."})
    assert here.quality(used) == 0.0


async def test_a_correction_with_its_question_becomes_a_demonstration(here: Here) -> None:
    here.answered(1)
    body = {"decision_id": "req-1", "correction": RIGHT, "messages": MESSAGES}
    got = await here.say(body)
    assert got.status == 201, got.json
    example = here.intake.example_of(here.tenants["ann"], got.json["correction"])
    assert example is not None and example.kind == "demonstration"
    assert (example.question, example.answer) == (QUESTION, RIGHT)
    assert [o.quality for o in here.outcomes(1)] == [BEATEN]
    again = await here.say(body | {"comment": "As I said."})
    assert again.json["correction"] == got.json["correction"]
    assert here.memory.store.examples.count(here.tenants["ann"]) == 1


async def test_a_correction_of_an_answer_that_became_an_example_takes_its_place(here: Here) -> None:
    wrong = here.example(1, question=QUESTION, answer="Use dir, I believe, or something.")
    here.answered(1)
    got = await here.say({"decision_id": "req-1", "correction": RIGHT, "thumb": "down"})
    assert got.status == 201, got.json
    right = here.memory.store.examples.get(wrong.tenant, wrong.id)
    assert right is not None
    assert (right.question, right.answer, right.kind) == (QUESTION, RIGHT, "demonstration")
    assert here.quality(right) is None, "the answer that was judged is not there any more"


async def test_a_correction_without_its_question_says_what_is_missing(here: Here) -> None:
    here.answered(1)
    unknown = await here.say({"decision_id": "req-1", "correction": RIGHT})
    here.example(2, question=QUESTION)
    here.answered(2)
    somebody_elses = await here.say({"decision_id": "req-2", "correction": RIGHT}, "ben")
    for got in (unknown, somebody_elses):
        assert (got.status, got.code, got.json["error"]["param"]) == (400, "messages_needed", "messages")
    assert here.outcomes(1) == here.outcomes(2) == []


@pytest.mark.parametrize(
    "correction", ["My key is AKIAIOSFODNN7EXAMPLQ and wJalrXUtnFEMIK7MDENGbPxRfiCYzzzzzzzzzzzz.", "\x00\x01"]
)
async def test_a_correction_that_may_not_be_kept_leaves_nothing_behind(here: Here, correction: str) -> None:
    here.answered(1)
    got = await here.say({"decision_id": "req-1", "correction": correction, "messages": MESSAGES})
    assert got.status == 400 and got.code.startswith("not_admitted_")
    assert here.memory.store.outcomes.feedback.of(here.tenants["ann"], "req-1") == []
    assert here.outcomes(1) == []


async def test_without_a_bank_a_correction_is_refused_and_a_score_is_not(tmp_path: Path) -> None:
    async with place(tmp_path / "data", with_examples=False) as here:
        here.answered(1)
        refused = await here.say({"decision_id": "req-1", "correction": RIGHT, "messages": MESSAGES})
        assert (refused.status, refused.code) == (400, "examples_disabled")
        assert (await here.say({"decision_id": "req-1", "score": 1})).status == 201


async def test_one_answer_takes_only_so_much_feedback(here: Here) -> None:
    here.answered(1)
    got = [await here.say({"decision_id": "req-1", "score": n / 20}) for n in range(18)]
    assert [g.status for g in got] == [201] * 16 + [409] * 2 and got[-1].code == "enough_feedback"


async def test_it_takes_no_more_when_it_comes_all_at_once(here: Here) -> None:
    here.answered(1)
    got = await asyncio.gather(*(here.say({"decision_id": "req-1", "score": n / 60}) for n in range(60)))
    assert sorted(g.status for g in got) == [201] * 16 + [409] * 44
    assert len(here.outcomes(1)) == 16
    taken = next(n for n, each in enumerate(got) if each.status == 201)
    again = await here.say({"decision_id": "req-1", "score": taken / 60})
    assert again.status == 200, "a repetition is no more"


async def test_a_key_that_gives_too_much_is_told_when_to_come_back_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    async with place(tmp_path / "data", per_minute=5) as here:
        here.answered(1)
        # More than two windows' worth: the window may turn on the way.
        got = [await here.say({"decision_id": "req-1", "score": 1}) for _ in range(11)]
        refused = next(g for g in got if g.status == 429)
        assert refused.code == "too_much_feedback" and refused.json["error"]["type"] == "rate_limit_error"
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert (await here.say({"decision_id": "req-1", "score": 1}, "ben")).status == 201


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b"[]", 400), (b"{", 400), (b'{"score": 1}', 400), (b"x" * (2**16 + 1), 413)],
)
async def test_a_body_that_is_none_is_refused_in_openais_shape(here: Here, body: bytes, status: int) -> None:
    got = await here.say(body)
    assert got.status == status and set(got.json["error"]) == {"message", "type", "param", "code"}


async def test_feedback_switched_off_says_so(tmp_path: Path) -> None:
    async with place(tmp_path / "data") as here:
        keys = KeyAuthentication(here.memory.store.keys, CredentialTenants(str))
        entry = EntryHandler(
            OneHandler(
                Feedback(
                    None,
                    FeedbackRate(1),
                    EndUsers(here.memory.store.secret, apart=True),
                    max_json_bytes=2**16,
                )
            ),
            keys,
            open_admission(),
            began=lambda: None,
            ended=lambda _: None,
        )
        async with served(entry) as port:
            here.url = f"http://127.0.0.1:{port}/feedback"
            got = await here.say({"decision_id": "req-1", "score": 1})
            assert (got.status, got.code) == (404, "feedback_disabled")


async def test_feedback_on_a_conversation_is_feedback_on_each_answer_that_an_engine_gave(here: Here) -> None:
    store, name = here.memory.store, "ticket 7"
    session, other = (session_ids.named(store.secret, each) for each in (name, "ticket 8"))

    def happened(number: int, who: str = "ann", session: str = session, **changes: Any) -> None:
        fields = {"tenant": here.tenants[who], "started_at_s": time.time() + number, "session": session}
        assert here.memory.requests is not None
        here.memory.requests.record(request_record(number, **(fields | changes))).result(30)
        here.answered(number, who)

    for number in (1, 2):
        happened(number)
    happened(3, outcome="hit", engine="")
    happened(4, session=other)
    happened(5, "eve")
    happened(6, started_at_s=time.time() - 2 * HOUR_S)
    got = await here.say({"session_id": name, "score": 0.25})
    assert got.status == 201 and got.json["decision_ids"] == ["req-2", "req-1"]
    assert got.json["session_id"] == name and got.json["score"] == 0.25 and "decision_id" not in got.json
    for number, count in {1: 1, 2: 1, 3: 0, 4: 0, 6: 0}.items():
        assert len(here.outcomes(number)) == count
    assert here.outcomes(5, "eve") == []
    again = await here.say({"session_id": name, "score": 0.25})
    assert again.status == 200 and len(here.outcomes(1)) == 1
    keyed = [
        await here.say({"session_id": name, "thumb": "up"}, **{"Idempotency-Key": "k"}) for _ in range(2)
    ]
    assert [each.status for each in keyed] == [201, 200] and len(here.outcomes(1)) == 2


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"session_id": "nobody's", "score": 1}, 404, "session_id"),
        ({"session_id": "s", "correction": "Right."}, 400, "correction"),
        ({"session_id": "s", "preferred_over": "req-1"}, 400, "preferred_over"),
        ({"session_id": "s", "decision_id": "req-1", "score": 1}, 400, "completion_id"),
    ],
)
async def test_what_cannot_be_said_of_a_conversation_is_refused(
    here: Here, body: dict[str, Any], status: int, param: str
) -> None:
    got = await here.say(body)
    assert (got.status, got.json["error"]["param"]) == (status, param)
