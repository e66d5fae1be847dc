"""What is kept of a choice: exactly what was weighed, and never a stand-in's answer under the drawn one's probability."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.errors import Kind
from engines.trail import Tried
from gateway.keepers.choice import ChoiceKeeper
from learning.evaluation.logged import NothingLogged, logged
from learning.training.bandit import rows_from_log
from router.asked import Controls
from router.finished import Finished, Outcome
from router.plan import Action, Attempt, Candidate, Choice, ExampleSelection, Plan, Weighed
from router.proving.standing import Proof, Standing
from store.decisions.choices import Choices
from store.decisions.outcomes import Outcomes
from store.records import ChoiceRecord, Example
from store.sqlite.database import Database
from tests.finished import chat_request, finished
from tests.store.rows import outcome_record, unit_vector

ENGINES = {"gpt-4o": ("small", "large")}
BODY = b'{"id":"chatcmpl-7","choices":[{"index":0,"message":{"content":"A."},"finish_reason":"stop"}]}'


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "understudy.db")
    yield database
    database.close()


def candidate(id: int) -> Candidate:
    return Candidate(Example(id, id, "a1", "s", "q", "a", "large", 0.0), 0.5 + id / 100, gain=0.1 * id)


CANDIDATES = tuple(candidate(id) for id in (3, 1, 2))
WITH, ALONE, LARGE = Attempt("small", [], CANDIDATES[:2]), Attempt("small"), Attempt("large")


def weighed(engine: str, with_examples: bool, probability: float) -> Weighed:
    return Weighed(
        Action(engine, with_examples), probability, probability / 2, 0.8, 0.01, 1.5, 0.6, {"price": 0.1}
    )


def plan(*attempts: Attempt, **changes: Any) -> Plan:
    fields: dict[str, Any] = {
        "policy": "in_context",
        "policy_version": "7",
        "reason": "best",
        "probability": 0.7,
        "vector": unit_vector(1, 16),
        "neighbours": CANDIDATES,
        "choice": Choice(
            (weighed("small", False, 0.1), weighed("small", True, 0.7), weighed("large", False, 0.2)),
            chosen=1,
            chosen_without_load=2,
            features_version="f1",
            context={"length": 12.0},
            explored=True,
            floored=False,
        ),
        "helped": ExampleSelection(
            "scorer-3", "s1", CANDIDATES, np.ones((3, 5), np.float32), 0.4, 0.8, 2, "drop", 0.05
        ),
    }
    return Plan(attempts or (WITH, LARGE), **(fields | changes))


def answered(made: Plan | None, attempt: Attempt | None = WITH, **changes: Any) -> Finished:
    """What came of a request that this was decided for."""
    wanted: dict[str, Any] = {
        "key_id": "key_1",
        "model": "gpt-4o",
        "ended_at": 100.25,
        "first_chunk_at": 100.1,
        "cost_usd": 0.003,
        "plan": made,
        "attempt": attempt,
        "body": BODY,
    }
    return finished(chat_request(user="ann"), **(wanted | changes))


def keep(db: Database, what: Finished) -> ChoiceRecord | str | None:
    """What was kept, or why nothing was; None for nothing said."""
    choices = Choices(db)
    for kind, kept in ChoiceKeeper(choices, ENGINES, embedding_version="v1").keep(what):
        assert kind == "choice"
        if isinstance(kept, str):
            return kept
        kept.result(30)
    return choices.get("a1", "req-1")


def test_what_was_weighed_is_kept_as_it_was_weighed(db: Database) -> None:
    kept = keep(db, answered(plan()))
    assert isinstance(kept, ChoiceRecord)
    assert (kept.completion_id, kept.model, kept.engine, kept.policy_version) == (
        "chatcmpl-7",
        "gpt-4o",
        "small",
        "7",
    )
    assert kept.contributor.startswith("key_1/") and "ann" not in kept.contributor
    assert (kept.chosen, kept.chosen_without_load, kept.explored, kept.floored) == (1, 2, True, False)
    assert (kept.probability, kept.context, kept.features_version) == (0.7, {"length": 12.0}, "f1")
    assert [(a["engine"], a["with_examples"], a["probability"]) for a in kept.actions] == [
        ("small", False, 0.1),
        ("small", True, 0.7),
        ("large", False, 0.2),
    ]
    assert kept.actions[1] == {
        "engine": "small",
        "with_examples": True,
        "probability": 0.7,
        "probability_without_load": 0.35,
        "quality": 0.8,
        "cost_usd": 0.01,
        "latency_s": 1.5,
        "reward": 0.6,
        "features": {"price": 0.1},
        "deviation": 0.0,
        "sure": 0.0,
        "allowed": True,
    }
    assert [(c["id"], c["sent"]) for c in kept.candidates] == [(3, True), (1, True), (2, False)]
    assert kept.candidate_features is not None and kept.candidate_features.shape == (3, 5)
    assert (kept.scorer, kept.scorer_features_version, kept.most_examples) == ("scorer-3", "s1", 2)
    assert (kept.quality_alone, kept.quality_with) == (0.4, 0.8)
    assert (kept.examples_explored, kept.examples_probability) == ("drop", 0.05)
    assert (kept.at_s, kept.cost_usd, kept.total_ms, kept.first_chunk_ms) == (1000.0, 0.003, 250.0, 100.0)
    assert kept.vector is not None and kept.embedding_version == "v1" and kept.example_ids == (3, 1)


def test_the_bounds_of_the_proof_are_kept_by_name(db: Database) -> None:
    standing = Standing(Action("small", True), False, 0.7, 0.95, compared=12, expected_more=40)
    proof = Proof("all", (standing,), 1.0, "s", least=0.9, noted={"small/with": 0.8})
    kept = keep(db, answered(plan(choice=None, helped=None, proof=proof)))
    assert isinstance(kept, ChoiceRecord)
    assert kept.noted == {
        "small/with": 0.8,
        "proof.least": 0.9,
        "proof.lower": 0.7,
        "proof.upper": 0.95,
        "proof.compared": 12,
    }


def test_what_it_was_decided_with_and_what_counted_as_near_is_kept(db: Database) -> None:
    made = plan(WITH, LARGE, settings={"theta": 0.5, "m": 2.0}, familiar={3: 2, 1: 1})
    kept = keep(db, answered(made))
    assert isinstance(kept, ChoiceRecord) and kept.settings == {"theta": 0.5, "m": 2.0} and not kept.noted
    assert [one.get("counts") for one in kept.candidates] == [2, 1, None]


def test_a_stand_ins_answer_is_never_kept_as_the_one_that_was_drawn(db: Database) -> None:
    made = plan()
    kept = keep(db, answered(made, made.attempts[1], failed_over=Tried("small", "", Kind.SERVER, 503, 0.1)))
    assert isinstance(kept, ChoiceRecord)
    assert (kept.engine, kept.chosen, kept.example_ids, kept.vector) == ("large", -1, (), None)
    assert kept.chosen_without_load == 2 and not any(c["sent"] for c in kept.candidates)


def test_an_answer_that_another_engine_carried_on_is_never_kept_as_the_one_that_was_drawn(
    db: Database,
) -> None:
    kept = keep(db, answered(plan(), carried_on_by=("large",)))
    assert isinstance(kept, ChoiceRecord)
    assert (kept.engine, kept.chosen, kept.example_ids) == ("small", -1, (3, 1))


@pytest.mark.parametrize(
    ("changes", "attempt"),
    [
        ({"reason": "forced"}, WITH),
        ({}, LARGE),
        ({"choice": None, "reason": "forced"}, LARGE),
    ],
)
def test_what_nobody_drew_is_none_of_the_actions(
    db: Database, changes: dict[str, Any], attempt: Attempt
) -> None:
    kept = keep(db, answered(plan(attempt, **changes), attempt))
    assert isinstance(kept, ChoiceRecord) and kept.chosen == -1 and kept.engine == attempt.engine


def test_of_a_rule_is_kept_what_it_did_and_what_it_saw(db: Database) -> None:
    made = plan(WITH, LARGE, policy="few_shot", choice=None, helped=None, probability=1.0)
    kept = keep(db, answered(made))
    assert isinstance(kept, ChoiceRecord)
    assert (kept.engine, kept.example_ids, kept.probability, kept.context) == ("small", (3, 1), 1.0, {})
    assert kept.chosen == kept.chosen_without_load == -1, (
        "what no chance drew must not be weighed by its probability"
    )
    assert [(a["engine"], a["with_examples"], a["probability"]) for a in kept.actions] == [
        ("small", False, 0.0),
        ("small", True, 1.0),
        ("large", False, 0.0),
    ], "the reference stands last"
    assert all(a["quality"] is None and a["features"] == {} for a in kept.actions)
    assert [(c["id"], c["sent"]) for c in kept.candidates] == [(3, True), (1, True), (2, False)]
    assert kept.candidate_features is None and kept.scorer == "" and kept.vector is not None


def test_a_rules_row_is_left_out_of_off_policy_evaluation_and_of_the_bandits_lessons(db: Database) -> None:
    keep(db, answered(plan(WITH, LARGE, choice=None, helped=None)))
    outcomes = Outcomes(db)
    outcomes.note(outcome_record(1, engine="small", example_ids=(3, 1))).result(30)
    (experience,) = outcomes.experiences("a1", "gpt-4o")
    assert rows_from_log(experience.choice, experience.outcomes) is None
    with pytest.raises(NothingLogged):
        logged([experience])


def test_without_a_vector_the_rest_is_kept_all_the_same(db: Database) -> None:
    kept = keep(db, answered(plan(vector=None)))
    assert isinstance(kept, ChoiceRecord) and kept.vector is None and kept.embedding_version == ""


@pytest.mark.parametrize("body", [b"{", b'{"choices":[]}', b'{"id":5,"choices":[]}'])
def test_an_answer_without_an_id_is_known_by_its_decision_only(db: Database, body: bytes) -> None:
    kept = keep(db, answered(plan(), body=body))
    assert isinstance(kept, ChoiceRecord) and kept.completion_id == ""


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"controls": Controls(no_store=True)}, "opted_out"),
        ({"status": 503}, "error"),
        ({"outcome": Outcome.ABORTED}, "incomplete"),
        ({"hit": b"{}"}, None),
        ({"made": None}, None),
        ({"attempt": None}, None),
        ({"made": replace(plan(), vector=None, choice=None)}, None),
    ],
)
def test_what_must_not_or_need_not_be_kept_is_not(
    db: Database, changes: dict[str, Any], reason: str | None
) -> None:
    assert keep(db, answered(**({"made": plan()} | changes))) == reason
    assert Choices(db).after(0) == []


def test_why_candidates_were_left_out_is_kept_with_them(db: Database) -> None:
    made = plan(WITH, LARGE)
    assert made.helped is not None
    told = replace(made, helped=replace(made.helped, left_out={2: "redundant", 3: "enough"}))
    kept = keep(db, answered(told))
    assert isinstance(kept, ChoiceRecord)
    assert {c["id"]: c.get("left_out") for c in kept.candidates} == {3: None, 1: None, 2: "redundant"}
