"""Forgetting one contributor is not forgetting another, and never nobody in particular."""

from __future__ import annotations

from pathlib import Path

from learning.bank.contributor import contributor
from learning.bank.forgetting import Forgetter
from store import Store
from store.workflows.assets import NewText
from store.workflows.records import (
    NewRun,
    NewStep,
    NewVariable,
    Resolution,
    RunChange,
    StepProgress,
    VariableEnd,
)
from tests.admin.runs_kept import CLAIM
from tests.store.rows import answer, choice_record, new_example, outcome_record

TENANT, OTHER = "a" * 32, "b" * 32


def test_only_the_named_contributors_examples_go(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    whose = [
        (TENANT, "key_1", "ann"),
        (TENANT, "key_2", "ann"),
        (TENANT, "key_2", "ben"),
        (TENANT, None, ""),
        (OTHER, None, "ann"),
    ]
    for number, (tenant, key_id, user) in enumerate(whose):
        name = contributor(store.secret, tenant, key_id, user)
        store.examples.admit(new_example(number, tenant, contributor=name)).result(30)
        store.decisions.choices.record(choice_record(number, tenant=tenant, contributor=name)).result(30)
        store.outcomes.note(outcome_record(number, tenant=tenant)).result(30)
    for key, tenant in ((b"1" * 32, TENANT), (b"2" * 32, OTHER)):
        store.answers.exact.put(key, tenant, answer()).result(30)
    forgetter = Forgetter(store)
    assert forgetter.contributor(TENANT).examples == 0, "nobody in particular is nobody"
    by_user = forgetter.contributor(TENANT, user="ann", purge=True)
    assert (by_user.examples, by_user.answers, by_user.requests, by_user.choices) == (2, 0, 0, 2)
    assert len(store.outcomes.of(TENANT, "req-2")) == 1 and not store.outcomes.of(TENANT, "req-0")
    assert forgetter.contributor(TENANT, key_id="key_2").examples == 1
    assert store.examples.count(TENANT) == 1 and store.examples.count(OTHER) == 1
    assert (
        store.answers.exact.get(b"1" * 32, 1001.0) is None
        and store.answers.exact.get(b"2" * 32, 1001.0) is not None
    )
    store.artifacts.publish("counts", TENANT, "m", b"{}", metrics={})
    whole = forgetter.tenant(TENANT)
    assert (whole.examples, whole.choices, whole.versions) == (1, 1, 1) and forgetter.erase()
    assert [choice.tenant for _, choice in store.decisions.choices.after(0)] == [OTHER]
    store.close()


def test_whoever_left_only_a_choice_is_forgotten_too(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    name = contributor(store.secret, TENANT, "key_1", "ann")
    store.decisions.choices.record(choice_record(1, tenant=TENANT, contributor=name)).result(30)
    assert Forgetter(store).contributor(TENANT, user="ann").choices == 1
    assert store.decisions.choices.get(TENANT, "req-1") is None
    store.close()


def test_runs_go_with_whoever_asked_for_any_of_their_steps(tmp_path: Path) -> None:
    """A run holds what its steps ask and what came of them; several users may have joined it."""
    store = Store.open(tmp_path)
    ann, ben = (contributor(store.secret, TENANT, "key_1", user) for user in ("ann", "ben"))
    store.runs.put(TENANT, NewVariable("var_x", value="canary"), now_s=1.0, keep_s=9e9, contributor=ann)
    for id, tenant, behind in (("run_1", TENANT, ben), ("run_2", TENANT, ben), ("run_3", OTHER, "")):
        run = NewRun(id, tenant, 1.0, contributor=behind, context={"canary": id})
        produced = NewVariable(f"var_{id}", "out", step="s")
        store.runs.begin(CLAIM, run, [NewStep("s", body=b"canary " * 900)], [produced]).result(30)
        store.runs.append("w1", produced.id, 0, "canary").result(30)
    store.runs.extend(CLAIM, TENANT, "run_1", [NewStep("t", body=b"canary", contributor=ann)], [], now_s=1.0)
    forgetter = Forgetter(store)
    assert forgetter.contributor(TENANT, user="ann", purge=True)
    assert {each.run.id for each in store.runs.runs()} == {"run_2", "run_3"}
    assert store.runs.variable(TENANT, "var_x", now_s=2.0) is None
    ready = VariableEnd("var_run_2", "ready", "canary")
    store.runs.save(CLAIM, [RunChange("run_2", 2.0, variables=[ready])]).result(30)
    forgetter.contributor(TENANT, key_id="key_1")
    assert {each.run.id for each in store.runs.runs()} == {"run_3"}
    assert OTHER in store.tenants()
    forgetter.tenant(OTHER)
    assert store.runs.runs() == [] and OTHER not in store.tenants()
    assert forgetter.erase()
    store.close()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"canary" in path.read_bytes()]


def test_workflows_collections_and_decisions_go_with_whoever_left_them(tmp_path: Path) -> None:
    """Whoever left only a collection, or only a workflow, is found, too."""
    store = Store.open(tmp_path)
    assets = store.runs.assets
    ann, ben = (contributor(store.secret, TENANT, "key_1", user) for user in ("ann", "ben"))
    for who in (ann, ben):
        texts = [NewText(f"canary of {who} " * 99, b"canary  " * 96)]
        assets.add_texts(TENANT, "papers", texts, identity="e", now_s=1.0, contributor=who).result(30)
    assets.put_workflow(TENANT, "qa", "v1", b"canary " * 99, now_s=1.0, contributor=ann).result(30)
    assets.put_workflow(OTHER, "qa", "v1", b"canary " * 99, now_s=1.0).result(30)
    store.runs.begin(CLAIM, NewRun("run_1", TENANT, 1.0, contributor=ben), [NewStep("s")], [])
    store.runs.save(CLAIM, [RunChange("run_1", 1.0, {"s": StepProgress("unknown")})])
    assert store.runs.resolve(TENANT, "run_1", "s", Resolution("value", "canary " * 99)).result(30)
    forgetter = Forgetter(store)
    forgetter.contributor(TENANT, user="ann", purge=True)
    assert [each.texts for each in assets.collections()] == [1]
    assert [each.tenant for each in assets.workflows()] == [OTHER]
    forgetter.contributor(TENANT, user="ben")
    assert assets.collections() == [] and TENANT not in store.tenants() and OTHER in store.tenants()
    forgetter.tenant(OTHER)
    assert assets.workflows() == [] and store.tenants() == []
    assert forgetter.erase()
    store.close()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"canary" in path.read_bytes()]
