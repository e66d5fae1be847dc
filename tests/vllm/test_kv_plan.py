"""A planned example is in the prefix cache before the first request that carries it; without warming it is not."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

from store import Store
from tests.store.rows import request_record
from tests.vllm.conftest import STILL, Opener
from tests.vllm.guide import Guide, until
from tests.vllm.test_prefix_cache import EVERY

SUBJECTS = ("bread", "boats", "wool")
QUESTION = "Tell me all about the {} of Quorvikaholm, and how the guild of Quorvikaholm came to make {}."
BLOCK = 32


def settings(*, warm: bool) -> dict[str, Any]:
    return {
        "admin": {"enabled": False},
        "replay": {
            "enabled": True,
            "judge": "large",
            "cron": "0 0 29 2 *",
            "advanced": {
                "calm_s": 0,
                "kv_plan": {"engines": ["small"], "every_s": 0.5, "warm": warm},
            },
        },
    }


def test_what_is_planned_is_cached_before_it_is_asked_for(open_guide: Opener, tmp_path: Path) -> None:
    cached = {}
    for number, warm in enumerate((True, False)):
        model = copy.deepcopy(STILL)
        model["advanced"] |= {"example_order": "stable"}
        guide = open_guide(settings(warm=warm), EVERY, **model)
        store = Store.open(tmp_path / f"gateway{number}" / "data")
        try:
            _used_yesterday(guide, store)
            plans = store.jobs.kv_plans
            until(lambda: len(plans.examples("small")) == len(SUBJECTS), "a plan")  # noqa: B023 - called here
            if warm:
                until(lambda: plans.plans()[0].warmed >= len(SUBJECTS), "everything warm")  # noqa: B023
                # The shared part of each, the most used one, is computed once.
                assert plans.plans()[0].warmed_tokens > 0
            hottest = plans.examples("small")[0].example_id
            said = guide.ask(QUESTION.format("bread", "it"), fresh=True, engine="small")
            assert said.status == 200, said.body
            assert said.examples >= 1
            cached[warm] = said.cached_tokens
            assert hottest == store.examples.page(store.examples.tenants().popitem()[0])[0].id
        finally:
            store.close()
    assert cached[False] == 0, "a gateway's own salt: nobody else's requests warm its prefixes"
    assert cached[True] >= 2 * BLOCK


def _used_yesterday(guide: Guide, store: Store) -> None:
    """Three examples, and a log that says the first of them was used most."""
    for number, subject in enumerate(SUBJECTS):
        answer = f"The guild of Quorvikaholm has made {subject} for {number + 2} hundred years. " * 3
        guide.teach(QUESTION.format(subject, subject), answer.strip())
    tenant = store.examples.tenants().popitem()[0]
    ids = [example.id for example in store.examples.page(tenant)]
    log = store.decisions.requests
    for number in range(9):
        sent = tuple(ids if number < 3 else ids[:1])
        record = request_record(
            number, tenant=tenant, engine="small", example_ids=sent, started_at_s=time.time() - 3600
        )
        log.record(record).result(10)
    # Each of the others led once.
    for number, id in enumerate(ids[1:]):
        record = request_record(
            100 + number, tenant=tenant, engine="small", example_ids=(id,), started_at_s=time.time() - 3600
        )
        log.record(record).result(10)
