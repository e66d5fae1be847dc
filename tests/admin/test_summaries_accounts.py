"""Accounts: made, given roles and passwords, signed out, deleted; the last operator stays; no password is told twice."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admin.passwords import matches
from tests.admin.site import PASSWORD, Site, add_user, site, token_in


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


async def test_an_account_is_made_with_a_password_that_is_shown_once(pages: Site) -> None:
    operator, people = await pages.person("operator"), pages.sources.store.operators
    page = (await operator.post("/accounts/add", {"name": "ben", "role": "viewer"})).text
    found = re.search(r'class="secret">([a-z0-9-]+)<', page)
    assert found
    ben = people.get("ben")
    assert ben is not None and ben.role == "viewer" and matches(ben.password_hash, found[1])
    for path in ("/accounts", "/accounts.json", "/accounts.csv", "/audit"):
        got = await operator.get(path)
        assert got.status == 200 and found[1] not in got.text and ben.password_hash not in got.text, path
    again = await operator.post("/accounts/add", {"name": "ben", "role": "operator"})
    assert again.status == 400 and "already" in again.text
    assert (await pages.stranger().sign_in("ben", found[1])).status == 303


async def test_a_role_holds_at_once_and_the_last_operator_stays(pages: Site) -> None:
    operator, viewer = await pages.person("operator"), await pages.person("viewer")
    for path, fields in (
        ("/accounts/role", {"user": "a-operator", "role": "viewer"}),
        ("/accounts/remove", {"user": "a-operator"}),
    ):
        refused = await operator.post(path, fields)
        assert refused.status == 409 and "is the only operator" in refused.text
    assert "The last operator stays." in (await operator.get("/accounts")).text
    assert (await viewer.get("/accounts")).status == 403
    assert (await operator.post("/accounts/role", {"user": "a-viewer", "role": "operator"})).status == 303
    assert (await viewer.get("/accounts")).status == 200, "in the session that was open"
    assert (await viewer.post("/accounts/remove", {"user": "a-operator"})).status == 303
    assert (await operator.get("/overview")).status == 303, "out at once"
    row = pages.sources.store.audit.page(limit=3)[1:][0]
    assert row.detail == {"role": {"old": "viewer", "new": "operator"}} and row.target == "a-viewer"
    assert (await viewer.post("/accounts/role", {"user": "nobody", "role": "viewer"})).status == 404


async def test_a_new_password_ends_the_accounts_sessions(pages: Site) -> None:
    operator, viewer = await pages.person("operator"), await pages.person("viewer")
    short = await operator.post("/accounts/password", {"user": "a-viewer", "password": "short"})
    assert short.status == 400 and "12 to 1024 are right" in short.text and '"short"' not in short.text
    assert (await viewer.get("/overview")).status == 200
    assert (
        await operator.post("/accounts/password", {"user": "a-viewer", "password": PASSWORD})
    ).status == 303
    assert (await viewer.get("/overview")).status == 303
    assert (await pages.stranger().sign_in("a-viewer")).status == 303
    own = await operator.post("/accounts/password", {"user": "a-operator"})
    assert own.status == 400 and "choose it yourself" in own.text, "a drawn one could not be shown"
    assert (
        await operator.post("/accounts/password", {"user": "a-operator", "password": PASSWORD})
    ).status == 303
    assert (await operator.get("/overview")).status == 303


async def test_sessions_are_listed_and_ended(pages: Site) -> None:
    operator, viewer = await pages.person("operator"), await pages.person("viewer")
    other = await pages.person("viewer-content")
    pages.sources.sessions.open("a-viewer")
    listed = (await operator.get("/accounts.json")).json
    assert {one["name"]: one["sessions"] for one in listed["accounts"]} == {
        "a-operator": 1,
        "a-viewer": 2,
        "a-viewer-content": 1,
    }
    (theirs,) = [one["id"] for one in listed["sessions"] if one["user"] == "a-viewer-content"]
    fields = {"user": "a-viewer-content", "session": theirs}
    assert (await operator.post("/accounts/end-sessions", fields)).status == 303
    assert (await other.get("/overview")).status == 303
    assert (await operator.post("/accounts/end-sessions", fields)).status == 409, "it has ended already"
    assert (await operator.post("/accounts/end-sessions", {"user": "a-viewer"})).status == 303
    assert (await viewer.get("/overview")).status == 303


async def test_everybody_changes_their_own_password_by_the_current_one(pages: Site) -> None:
    add_user(pages.sources, "vera", "viewer")
    vera, other = pages.stranger(), await pages.person("viewer")
    assert (await vera.sign_in("vera")).status == 303
    page = await vera.get("/account")
    assert page.status == 200 and "Current password" in page.text and 'href="/accounts"' not in page.text
    told = (await vera.get("/account.json")).json
    assert (told["name"], told["role"], told["signs_in_by"]) == ("vera", "viewer", "password")
    assert len(told["sessions"]) == 1, "and nobody else's"
    vera.form_token = token_in(page.text)
    wrong = {"current_password": "guessed that one", "password": "a longer one by far"}
    refused = await vera.post("/account/password", wrong)
    assert refused.status == 400 and "not your password" in refused.text and "guessed" not in refused.text
    short = await vera.post("/account/password", {"current_password": PASSWORD, "password": "short"})
    assert short.status == 400 and "12 to 1024 are right" in short.text
    changed = {"current_password": PASSWORD, "password": "a longer one by far"}
    assert (await vera.post("/account/password", changed)).status == 303
    assert (await vera.get("/overview")).status == 303, "the session has ended"
    assert (await pages.stranger().sign_in("vera")).status == 401
    assert (await other.get("/overview")).status == 200
    assert (await other.post("/account/end-sessions", {})).status == 303
    assert (await other.get("/overview")).status == 303
