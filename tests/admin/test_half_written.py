"""What was typed into a form about a thing that is gone stands on the page that says so, to be copied; no password does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from markupsafe import escape

from admin.half_written import chosen_in, half_written
from learning.bank.forgetting import Forgetter
from tests.admin.site import Got, Site, site
from tests.store.rows import new_example

HEADING = "What you had written"


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


def shows(got: Got, *texts: str) -> bool:
    return got.text.count(HEADING) == 1 and all(f"\n{escape(text)}</textarea>" in got.text for text in texts)


async def test_of_an_example_that_was_deleted_meanwhile(pages: Site) -> None:
    operator, bank = await pages.person("operator"), pages.sources.store.examples
    id = bank.add(new_example(1)).result(60).id
    form = {"question": "\nHow \u202ewide?", "answer": 'So <b>"wide"</b> & more', "version": "0f"}
    bank.remove("a1", [id]).result(60)
    got = await operator.post(f"/examples/{id}/edit", form)
    assert got.status == 404 and "not in the bank" in got.text
    assert shows(got, form["question"], form["answer"]), "as it was written, so that it can be sent again"
    assert "<b>" not in got.text and "0f</textarea>" not in got.text
    as_json = await operator.post(f"/examples/{id}/edit", form, Accept="application/json")
    assert as_json.status == 404 and set(as_json.json) == {"error"}


async def test_of_a_tenant_that_was_deleted_meanwhile(pages: Site) -> None:
    operator, store = await pages.person("operator"), pages.sources.store
    id = store.keys.create("acme", "app")[0].tenant
    store.tenant_records.create("acme")
    Forgetter(store).delete_tenant(id, "acme")
    got = await operator.post(f"/tenants/{id}/edit", {"region": "eu-north", "models": "gpt-4*\no3"})
    assert got.status == 404 and "was deleted" in got.text and shows(got, "eu-north", "gpt-4*\no3")


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/keys/key_gone/edit", {"name": "billing", "user_models": "gpt-4*"}),
        ("/requests/gone/correct", {"correction": "It is forty-two."}),
        ("/requests/gone/feedback", {"comment": "Too long."}),
        ("/review", {"id": "gone", "verdict": "corrected", "correction": "It is forty-two."}),
        ("/runs/gone/resolve", {"step": "one", "how": "value", "value": "It is forty-two."}),
    ],
)
async def test_of_every_other_thing_that_is_gone(pages: Site, path: str, form: dict[str, str]) -> None:
    got = await (await pages.person("operator")).post(path, form)
    typed = [text for name, text in form.items() if name not in ("id", "verdict", "step", "how")]
    assert got.status == 404 and shows(got, *typed) and got.text.count("readonly") == len(typed)


async def test_no_password_is_shown_of_an_account_that_is_gone(pages: Site) -> None:
    operator = await pages.person("operator")
    form = {"user": "ann", "version": "1", "password": "correct horse battery", "current_password": "staple"}
    got = await operator.post("/accounts/password", form)
    assert got.status == 404 and "There is no account" in got.text and HEADING not in got.text
    assert "battery" not in got.text and "staple" not in got.text


async def test_of_a_form_that_its_page_does_not_hold_any_more(pages: Site) -> None:
    operator = await pages.person("operator")
    for path in ("/engines/drain", "/engines/drain?x"):
        form = {"engine": "nobody", "reason": "It hums."}
        got = await operator.post(path, form, Referer=pages.url + "/replay")
        assert got.status in (400, 409) and "<h1>Replay</h1>" in got.text and shows(got, "It hums.")
        assert got.text.count("readonly") == 1
    got = await operator.post("/review/shares", {"offloaded": "many", "reference": "5"})
    assert got.status == 400 and HEADING not in got.text, "its own form has it"


async def test_of_a_form_that_was_kept_past_its_session_and_whose_page_is_gone(pages: Site) -> None:
    ended, sessions = await pages.person("operator"), pages.sources.sessions
    clock = sessions._clock
    sessions._clock = lambda: clock() + 2 * 3600
    form = {"question": "How wide?", "answer": "So wide."}
    sent = await ended.post("/examples/7/edit", form, Referer=pages.url + "/examples/7")
    kept = unquote(sent.headers["Location"].partition("next=")[2])
    got = await (await pages.person("operator")).get(kept)
    assert got.status == 404 and "not in the bank" in got.text and shows(got, *form.values())


async def test_what_a_form_of_elsewhere_says_is_not_shown(pages: Site) -> None:
    operator = await pages.person("operator")
    form = {"correction": "Call this number."}
    got = await operator.post("/requests/gone/correct", form, Origin="http://elsewhere.test")
    assert got.status == 403 and "Call this number" not in got.text


def test_what_is_hidden_or_chosen_somewhere_was_not_typed() -> None:
    template = """<form method="get"><input name="user"></form><input type="hidden" name="user" value="{{ a }}">
<select name="role"><option>x</option></select><input type="password" name="code"><input name="word">
<textarea name="long">{{ text }}</textarea>
{{ parts.button("/a", "A", form_token, {"pinned": "yes", "of": row.id}, "Sure?") }}"""
    assert chosen_in([template]) == {"user", "role", "code", "pinned", "of"}
    assert half_written({"user_models": ("a", " ", "b"), "form_token": ("c",), "verdict": ("bad",)}) == [
        ("user models", "a"),
        ("user models", "b"),
    ]
