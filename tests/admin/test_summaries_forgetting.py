"""Forgetting on the pages: what would go, the statement of it, and that the audit log keeps it without a name."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from learning.bank.contributor import contributor
from tests.admin.site import Site, site
from tests.store.rows import choice_record, new_example, outcome_record, request_record


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


async def test_an_end_user_is_forgotten_and_the_statement_stays_without_the_name(pages: Site) -> None:
    store, operator = pages.sources.store, await pages.person("operator")
    key, _ = store.keys.create("acme", "app")
    for number, user in enumerate(("ann", "ann", "ben")):
        by = contributor(store.secret, key.tenant, key.id, user)
        digest = by.partition("/")[2]
        store.decisions.requests.record(
            request_record(number, tenant=key.tenant, key_id=key.id, end_user=digest)
        ).result(60)
        store.examples.admit(new_example(number, key.tenant, contributor=by)).result(60)
        store.decisions.choices.record(choice_record(number, tenant=key.tenant, contributor=by)).result(60)
        store.outcomes.note(outcome_record(number, tenant=key.tenant)).result(60)
    whom = {"tenant": key.tenant, "user": "ann"}
    seen = (await operator.get(f"/forget.json?tenant={key.tenant}&user=ann")).json
    there = {name: count for name, count in seen["held"].items() if count}
    assert there == {"examples": 2, "requests": 2, "choices": 2, "outcomes": 2} and seen["name"] == "ann"
    stated = (await operator.post("/forget", whom | {"name": "ann"})).text
    assert "end user ann, of tenant acme" in stated and "0 rows of all these kinds" in stated
    assert "2 stay for the books" in stated
    assert not (await operator.get(f"/forget.json?tenant={key.tenant}&user=ann")).json["anything"]
    assert (await operator.get(f"/forget.json?tenant={key.tenant}&user=ben")).json["held"]["examples"] == 1
    row = store.audit.page(limit=1)[0]
    assert (row.action, row.target, row.detail["left"]) == ("forget", "a user", 0)
    assert "ann" not in str(row.detail) and digest not in str(row.detail)
    listed = (await operator.get("/audit?action=forget")).text
    found = re.search(r"/audit/\d+/statement", listed)
    assert found
    kept = (await operator.get(found[0])).text
    assert "an end user, whose name is not kept, of tenant acme" in kept and "0 rows" in kept
    assert (await operator.get(f"/audit/{row.id - 1}/statement")).status == 404


async def test_who_stands_in_the_request_log_alone_is_forgotten_too(pages: Site) -> None:
    store, operator = pages.sources.store, await pages.person("operator")
    key, _ = store.keys.create("acme", "app")
    digest = contributor(store.secret, key.tenant, key.id, "ann").partition("/")[2]
    store.decisions.requests.record(request_record(1, tenant=key.tenant, end_user=digest)).result(60)
    await operator.post("/forget", {"tenant": key.tenant, "user": digest})
    assert not store.decisions.resolve.find("ann")


async def test_what_came_with_a_key_goes_and_the_key_stays(pages: Site) -> None:
    store, operator = pages.sources.store, await pages.person("operator")
    key, secret = store.keys.create("acme", "app")
    store.examples.admit(new_example(1, key.tenant, contributor=f"{key.id}/")).result(60)
    store.decisions.requests.record(request_record(1, tenant=key.tenant, key_id=key.id)).result(60)
    page = (await operator.get(f"/forget?key={key.id}")).text
    assert "The key itself stays in force" in page
    stated = (await operator.post("/forget", {"key": key.id})).text
    assert f"key {key.id}, of tenant acme" in stated and store.keys.lookup(secret) is not None
    assert store.examples.count(key.tenant) == 0
    (row,) = store.audit.page(action="forget")
    assert f"key {key.id}" in (await operator.get(f"/audit/{row.id}/statement")).text


async def test_nobody_in_particular_is_not_forgotten_and_a_viewer_forgets_nobody(pages: Site) -> None:
    operator, viewer = await pages.person("operator"), await pages.person("viewer-content")
    assert (await operator.post("/forget", {"tenant": "a1", "user": ""})).status == 400
    assert (await operator.get("/forget?key=key_none")).status == 404
    assert "End user, as clients name them" in (await operator.get("/forget")).text
    assert (await viewer.get("/forget")).status == 403
    assert (await viewer.post("/forget", {"tenant": "a1", "user": "ann"})).status == 403
