"""`understudy learn scorer`: from a data folder's log to a published version, or a clear reason why not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from router.examples.features import VERSION
from store import Store
from store.records import NewExample
from tests.learning.training.scorer.scorer_world import outcomes
from tests.store.rows import choice_record, new_example, outcome_record
from understudy.commands.learn_scorer import _incumbent, scorer

MODEL = "gpt-4o"


def filled(folder: Path, requests: int) -> str:
    """A data folder whose log holds `requests` judged requests of one tenant; gives the tenant.

    Nothing helps here, so that sending nothing is worth more than what the prior sends.
    """
    store = Store.open(folder)
    try:
        key, _ = store.keys.create("acme", "laptop")
        tenant = key.tenant
        example = store.examples.add(_example(tenant)).result(30)
        for i, row in enumerate(outcomes(requests, relevant=0.0)):
            ids = [example.id + n for n in range(len(row.answers))]
            choice = replace(
                choice_record(i),
                request_id=row.request_id,
                tenant=tenant,
                at_s=row.at_s,
                model=MODEL,
                vector=np.ones(8, np.float32),
                embedding_version="v1",
                actions=(
                    {"engine": "small", "with_examples": True},
                    {"engine": "large", "with_examples": False},
                ),
                scorer_features_version=VERSION,
                candidates=tuple({"id": id, "similarity": 0.9, "gain": 0.1, "sent": True} for id in ids),
                candidate_features=row.features,
            )
            store.decisions.choices.record(choice).result(30)
            outcome = replace(
                outcome_record(i),
                request_id=row.request_id,
                tenant=tenant,
                at_s=row.at_s,
                engine="small",
                example_ids=tuple(ids[place] for place in row.sent),
                quality=row.quality,
                probability=1.0,
            )
            store.outcomes.note(outcome).result(30)
        return tenant
    finally:
        store.close()


def _example(tenant: str) -> NewExample:
    return new_example(1, tenant)


def run(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(scorer, ["--data", str(data), "--tenant", "acme", "--model", MODEL, *arguments])


def versions(data: Path) -> list[str]:
    store = Store.open(data)
    try:
        return [f"{v.kind} {v.model} {v.state}" for v in store.artifacts.versions()]
    finally:
        store.close()


@pytest.mark.slow
def test_a_scorer_worth_more_than_the_prior_is_published_and_a_dry_run_publishes_nothing(
    tmp_path: Path,
) -> None:
    filled(tmp_path, 600)
    dry = run(tmp_path, "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "accepted: worth more on the hold-out" in dry.output
    assert "what choices are worth" in dry.output
    assert versions(tmp_path) == []
    done = run(tmp_path)
    assert done.exit_code == 0, done.output
    assert "is active" in done.output
    assert versions(tmp_path) == [f"scorer {MODEL} active"]


def test_too_few_outcomes_publish_nothing_and_say_how_many_there_are(tmp_path: Path) -> None:
    filled(tmp_path, 5)
    done = run(tmp_path)
    assert done.exit_code == 2
    assert "outcomes to learn from" in done.output
    assert versions(tmp_path) == []


def test_a_scorer_in_use_whose_file_is_damaged_is_no_rival(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.open(tmp_path)
    try:
        assert _incumbent(store, "t", MODEL) == (None, None)
        record = store.artifacts.publish("scorer", "t", MODEL, b"a scorer", metrics={})
        assert _incumbent(store, "t", MODEL) == (record, b"a scorer")
        store.artifacts.path(record).write_bytes(b"")
        assert _incumbent(store, "t", MODEL) == (record, None)
        assert "compared with the prior instead" in capsys.readouterr().err
    finally:
        store.close()


def test_an_unknown_tenant_is_no_tenant(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    done = CliRunner().invoke(scorer, ["--data", str(tmp_path), "--tenant", "nobody", "--model", MODEL])
    assert done.exit_code == 2
    assert "nobody" in done.output
