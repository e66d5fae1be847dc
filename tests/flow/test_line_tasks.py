"""Neural caching over real sockets: a student learns what the teacher says, takes over, and stands in nobody's way.

The teacher answers by script; the gateway, the store, the embedder, the training and the evidence are the real ones.
"""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner

from router.tasks.student import Student
from tests.flow.line import Asked, completion, line, upstream
from tests.flow.tasks import ENUM, QUICK, SCHEMA, WORDS, Flow, by_student, flow, right
from tests.flow.test_line_judging import judging_of, metrics_of, store_of
from tests.patience import until
from understudy.commands.forget import forget


@pytest.mark.slow
async def test_a_student_takes_over_in_the_teachers_form_and_its_loss_fails_nothing(tmp_path: Path) -> None:
    async with flow(tmp_path) as made:
        first = await made.ask()
        assert (
            first.headers["x-understudy-engine"] == "large" and first.headers["x-understudy-task"] == "intent"
        )
        for got in await made.taken_over():
            assert (
                got.text.removesuffix(".").lower() in WORDS
                and got.text[0].isupper()
                and got.text.endswith(".")
            )
            assert float(got.headers["x-understudy-confidence"]) > 0.6
            assert got.headers["x-understudy-task"] == "intent"
            assert got.json["choices"][0]["finish_reason"] == "stop" and got.json["usage"]["estimated"]
        streamed = await made.taken_over(times=1, stream=True)
        assert streamed[0].text.removesuffix(".").lower() in WORDS
        # No answer of the student's is kept: whoever asks again is decided anew.
        text = made.text()
        again = [await made.ask(text) for _ in range(8)]
        assert all(got.text == again[0].text for got in again)
        assert not any(by_student(before) and got.hit for before, got in pairwise(again))
        assert made.store.tasks.known.all()[0].source == "configured"
        rows = made.store.tasks.answers.counts(made.store.tenants()[0], "gpt-4o/intent")
        assert {row.answered_by for row in rows} == {"teacher", "student"}
        # In mid-run its bytes go: the teacher answers everything.
        for file in (tmp_path / "artifacts").iterdir():
            file.unlink()
        made.store.artifacts.forget_tenant(made.store.tenants()[0])
        answers = await asyncio.gather(*(made.ask() for _ in range(40)))
        assert {got.status for got in answers} == {200}


@pytest.mark.slow
async def test_an_enum_in_the_response_format_is_answered_in_json(tmp_path: Path) -> None:
    async with flow(tmp_path, {"json_schema": SCHEMA, "retrain_every": 60, "budget": {"share": 0.3}}) as made:
        for got in await made.taken_over(times=3, response_format=ENUM):
            assert json.loads(got.text)["intent"] in WORDS
        # The same words without the form are no request of this task.
        assert not by_student(await made.ask())


@pytest.mark.slow
async def test_nothing_of_a_task_crosses_to_another_tenant(tmp_path: Path) -> None:
    ann, bob = ({"Authorization": f"Bearer sk-{name}"} for name in ("ann", "bob"))
    async with flow(tmp_path, QUICK) as made:
        await made.taken_over(headers=ann)
        for _ in range(30):
            got = await made.ask(headers=bob)
            assert (
                got.headers["x-understudy-engine"] == "large" and got.headers["x-understudy-task"] == "intent"
            )

        def by_tenant() -> set[str]:
            return {tenant for tenant, _, _ in made.store.tasks.answers.slots()}

        await until(lambda: len(by_tenant()) == 2, "the answers of both tenants")
        (student,) = {v.tenant for v in made.store.artifacts.versions("student")}
        assert student in by_tenant()


@pytest.mark.slow
async def test_a_label_that_one_end_user_alone_was_given_is_said_to_nobody_else(tmp_path: Path) -> None:
    """Extraction of a name, say: the teacher's answer to one user may hold that user's own words."""
    async with flow(tmp_path, {"labels": [], "system": "^Classify", "retrain_every": 30}) as made:
        shared = made.teacher.script

        async def teach(request: web.Request, asked: Asked) -> web.StreamResponse:
            if b"Rumpelstiltskin" in await request.read():
                return web.json_response(completion("Rumpelstiltskin"))
            assert shared is not None
            return await shared(request, asked)

        made.teacher.script = teach
        for number in range(60):
            user = ("ann", "bob")[number % 2]
            await made.ask(user=user)
            if user == "ann":
                await made.ask(f"My name is Rumpelstiltskin, message {number}.", user="ann")
        await made.learn()
        (version, *_) = made.store.artifacts.versions("student")
        labels = Student.open(made.store.artifacts.read(version)).labels
        assert {label.lower() for label in labels} == set(WORDS)
        # Once the teacher says it to a second one it is a label like any other.
        for number in range(40):
            await made.ask(f"My name is Rumpelstiltskin, note {number}.", user="bob")
        await made.gate.settled()
        await made.learn()
        (version, *_) = made.store.artifacts.versions("student")
        labels = Student.open(made.store.artifacts.read(version)).labels
        assert "Rumpelstiltskin" in labels


@pytest.mark.slow
async def test_who_is_forgotten_is_forgotten_by_the_student(tmp_path: Path) -> None:
    ann = {"Authorization": "Bearer sk-ann"}
    async with flow(tmp_path) as made:
        for number in range(80):
            await made.ask(headers=ann, user=("carol", "dave")[number % 2])
        await made.learn()
        (tenant,) = {tenant for tenant, _, _ in made.store.tasks.answers.slots()}
        (first, *_) = made.store.artifacts.versions("student")
        kept = len(made.store.tasks.answers.after(0))
        words = ["--data", str(tmp_path), "--user", "carol", "--yes"]
        ran = await asyncio.to_thread(CliRunner().invoke, forget, words)
        assert ran.exit_code == 0, ran.output
        assert len(made.store.tasks.answers.after(0)) == kept // 2
        assert made.store.artifacts.active("student", tenant, "gpt-4o/intent") is None
        await made.learn()
        anew = made.store.artifacts.active("student", tenant, "gpt-4o/intent")
        assert anew is not None and anew.id > first.id and anew.metrics["inputs"] <= kept // 2


@pytest.mark.slow
async def test_feedback_labels_what_the_student_answered(tmp_path: Path) -> None:
    async with flow(tmp_path, QUICK) as made:
        (got, *_) = await made.taken_over(times=1)
        decision = got.headers["x-understudy-decision-id"]
        said = await made.gate.post("/feedback", {"decision_id": decision, "correction": "Password"})
        assert said.status == 201, said.body
        row = made.store.tasks.answers.of_request(made.store.tenants()[0], decision)
        assert row is not None and (row.label, row.answered_by) == ("Password", "person")


async def test_what_the_teacher_says_in_a_comparison_labels_what_a_small_engine_answered(
    tmp_path: Path,
) -> None:
    async with upstream() as behind:
        engine = {"base_url": behind.url, "advanced": {"attempts": 1}}
        config = {
            "engines": {"small": engine | {"model": "small"}, "large": engine | {"model": "large"}},
            "models": {
                "gpt-4o": {
                    "engines": ["small", "large"],
                    "policy": "few_shot",
                    "proof": "off",
                    "few_shot": {"theta": 0.5, "m": 1},
                    "tasks": {"intent": QUICK},
                }
            },
            "memory": {"data_dir": str(tmp_path)},
            "judging": {
                "engine": "large",
                "share_offloaded": 1.0,
                "max_usd_per_day": 1e9,
                "advanced": {"samples": 1},
            },
            "learning": {"advanced": {"starting_requests": 10**9}},
        }

        async def answer(request: web.Request, asked: Asked) -> web.StreamResponse:
            if request.path.endswith("/models"):
                return web.json_response({"data": []})
            text = asked.json["messages"][-1]["content"]
            return web.json_response(
                completion("Refund." if asked.json["model"] == "small" else right(text).capitalize() + ".")
            )

        behind.script = answer
        async with line(config) as gate:
            store = store_of(gate)
            made = Flow(gate, behind, None)  # type: ignore[arg-type]
            by_small = []
            for number in range(6):
                got = await made.ask(f"Order {number}, the lamp: tracking says nothing, please.")
                await gate.settled()
                by_small += [got] if got.headers["x-understudy-engine"] == "small" else []
            await judging_of(gate).join()
            await gate.settled()
            assert by_small and all(got.text == "Refund." for got in by_small)
            tenant = store.tenants()[0]
            for got in by_small:
                row = store.tasks.answers.of_request(tenant, got.headers["x-understudy-decision-id"])
                assert row is not None and (row.label, row.answered_by) == ("Delivery", "sample"), row
            taught = store.tasks.answers.training_rows(tenant, "gpt-4o/intent", 99)
            assert {row.label for row in taught} == {"Delivery"} and len(taught) == 6


@pytest.mark.slow
async def test_a_paused_task_is_answered_by_the_teacher_and_nobody_else(tmp_path: Path) -> None:
    async with flow(tmp_path, QUICK) as made:
        await made.taken_over()
        made.store.tasks.known.switch("intent", "paused", at_s=1.0, by="ann").result(30)
        answers: list[bool] = []

        async def quiet() -> bool:
            answers[:] = [by_student(got) for got in await asyncio.gather(*(made.ask() for _ in range(20)))]
            return not any(answers)

        for _ in range(100):
            if await quiet():
                break
        assert await quiet()
        made.store.tasks.known.switch("intent", "on", at_s=2.0, by="ann").result(30)
        await made.taken_over(times=1)


def enums(**of: list[str]) -> dict[str, Any]:
    """A response format with these properties."""
    schema = {"type": "object", "properties": {name: {"enum": values} for name, values in of.items()}}
    return {"type": "json_schema", "json_schema": {"name": "several", "schema": schema}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"response_format": enums(intent=["a", "b"], tone=["c", "d"])}, "response_format"),
        ({"response_format": enums(intent=["Refund", "refund."])}, "response_format"),
    ],
)
async def test_a_task_named_for_what_can_be_none_is_400(tmp_path: Path, fields: Any, param: str) -> None:
    async with flow(tmp_path) as made:
        refused = await made.ask(headers={"x-understudy-task": "intent"}, **fields)
        assert refused.status == 400 and refused.json["error"]["param"] == param
        assert made.taught == 0
        # Without the name it is an ordinary request, and none of the task.
        got = await made.ask(**fields)
        assert got.status == 200 and "x-understudy-task" not in got.headers


@pytest.mark.slow
async def test_a_student_without_an_answer_is_a_stage_left_out_and_no_failing_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise TypeError("no answer")

    async with flow(tmp_path, QUICK) as made:
        await made.taken_over()
        monkeypatch.setattr("engines.student.completion", broken)
        answers = await asyncio.gather(*(made.ask() for _ in range(20)))
        assert {(got.status, got.headers["x-understudy-engine"]) for got in answers} == {(200, "large")}
        await made.gate.settled()
        records = made.store.decisions.requests.recent(20)
        failed = [record for record in records if record.reason == "student_failed"]
        assert failed and not any("failover" in record.reason for record in records)
        # It is kept and learnt from as the teacher's answer to any other request.
        row = made.store.tasks.answers.of_request(failed[0].tenant, failed[0].id)
        assert row is not None and (row.answered_by, row.checked) == ("teacher", False) and row.label
        assert (await made.ask(row.input)).hit
        counted = await metrics_of(made.gate)
        assert counted['understudy_bypassed_total{stage="student:no_answer"}'] >= len(failed)
        assert 'understudy_bypassed_total{stage="engine:student"}' not in counted

        # What the teacher says of a request is passed on as it is, too.
        async def refuse(request: web.Request, asked: Asked) -> web.StreamResponse:
            return web.json_response({"error": {"message": "Not so."}}, status=422)

        made.teacher.script = refuse
        assert {got.status for got in await asyncio.gather(*(made.ask() for _ in range(20)))} == {422}
