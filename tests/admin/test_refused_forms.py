"""A refused form comes back: filled as it was sent, with the error at its field, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import unquote

import pytest

from admin.kept import WrittenForms
from admin.refused_forms import RefusedForm, refilled
from tests.admin.site import Site, add_user, site, token_in

PAGE = """<form method="get" action="/a"><input name="text" value="other"></form>
<form method="post" action="/a"><input type="hidden" name="form_token" value="t"><input type="hidden" name="id" value="1">
<input name="text" value="old"></form>
<form id="two" method="post" action="/a"><input type="hidden" name="id" value="2">
<input type="hidden" name="version" value="7">
<label>Text <input name="text" required value="old" aria-describedby="x"></label><input name="password" value="">
<textarea name="long" rows="3">old</textarea>
<input type="checkbox" name="on" value="yes" checked><input type="checkbox" name="off">
<input type="radio" name="one" value="a" checked><input type="radio" name="one" value="b">
<select name="pick"><option value="1" selected>One</option><option>Two</option></select></form>
<input form="two" name="apart" value="old"><input name="alone" value="old">"""


def again(field: str = "", **values: str | tuple[str, ...]) -> str:
    lists: Mapping[str, tuple[str, ...]] = {
        name: (value,) if isinstance(value, str) else value for name, value in values.items()
    }
    return refilled(PAGE, RefusedForm("/a", lists, 'It is <b>"bad"</b>', field))


def test_the_form_that_was_sent_is_filled_and_no_other() -> None:
    page = again(
        "text",
        id="2",
        version="6",
        text='<"new">',
        long="\nfirst & last",
        off="on",
        one="b",
        pick="Two",
        apart="new",
    )
    assert (
        page.count('value="&lt;&quot;new&quot;&gt;"') == 1
        and page.count('value="old"') == 2
        and 'value="other"' in page
    )
    assert '<input type="hidden" name="version" value="7">' in page, "the version is that of now"
    assert "\n\nfirst &amp; last</textarea>" in page
    assert '<input type="checkbox" name="on" value="yes">' in page
    assert '<input type="checkbox" name="off" checked>' in page
    assert 'value="b" checked>' in page and 'value="a">' in page
    assert '<option value="1">One</option><option selected>Two</option>' in page
    assert '<input form="two" name="apart" value="new">' in page
    assert 'aria-invalid="true" aria-describedby="field-error" autofocus' in page
    assert page.count("It is &lt;b&gt;&quot;bad&quot;&lt;/b&gt;</small>") == 1


def test_passwords_and_tokens_are_never_written_into_a_page() -> None:
    page = again(id="2", text="new", password="secret", form_token="secret")
    assert "secret" not in page and 'value="new"' in page


def test_a_page_without_that_form_stays_as_it_is() -> None:
    assert again(id="3", text="new") == PAGE
    assert refilled("<p>no form</p>", RefusedForm("/a", {})) == "<p>no form</p>"


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path, judging={"engine": "large"}) as made:
        yield made


async def test_a_refused_form_comes_back_with_its_page_and_status(pages: Site) -> None:
    operator = await pages.person("operator")
    asked = {"usd": "a\u202eb<", "engine": "nobody"}
    for referer in (
        pages.url + "/replay?x=1",
        "",
        "http://elsewhere.test/settings",
        pages.url + "/engines/drain",
    ):
        got = await operator.post("/replay/plan", asked, Referer=referer)
        assert got.status in (400, 409) and "<h1>Replay</h1>" in got.text, referer
        assert 'value="a\u202eb&lt;"' in got.text, "it is sent again as it was written"
        assert "a\\u202eb" in got.text and 'class="field-error"' in got.text
    assert (await operator.post("/replay/plan", asked, Accept="application/json")).status in (400, 409)
    assert (await operator.get("/replay")).text.count("field-error") == 0


async def test_the_page_it_was_sent_from_is_the_page_that_comes_back(pages: Site) -> None:
    operator = await pages.person("operator")
    got = await operator.post(
        "/engines/drain", {"engine": "nobody"}, Referer=pages.url + "/settings?q=judging"
    )
    assert got.status in (400, 409) and "<h1>Settings</h1>" in got.text and 'value="judging"' in got.text


@pytest.mark.slow
async def test_a_form_of_a_session_that_has_ended_is_kept_for_the_same_account(pages: Site) -> None:
    for name in ("ann", "bob"):
        await asyncio.to_thread(add_user, pages.sources, name, "operator")
    ann, bob = pages.stranger(), pages.stranger()
    await ann.sign_in("ann")
    await _ended(pages)
    written = {"usd": "0.123456", "password": "secret"}
    got = await ann.post("/replay/plan", written, Referer=pages.url + "/replay")
    assert got.status == 303 and got.headers["Location"].startswith("/sign-in?next=")
    kept = unquote(got.headers["Location"].partition("next=")[2])
    assert kept.startswith("/kept/")
    await bob.sign_in("bob")
    assert (await bob.get(kept)).status == 404
    assert (await ann.sign_in("ann", then=kept)).headers["Location"] == kept
    back = await ann.get(kept)
    assert back.status == 200 and "<h1>Replay</h1>" in back.text and 'value="0.123456"' in back.text
    assert "nothing was done" in back.text and "secret" not in back.text
    ann.form_token = token_in(back.text)
    assert (await ann.post("/replay/plan", {"usd": "0.1"})).status in (200, 409)


async def _ended(pages: Site) -> None:
    """Ends every session by time."""
    sessions = pages.sources.sessions
    clock = sessions._clock
    sessions._clock = lambda: clock() + 2 * 3600


async def test_a_form_of_nobodys_session_is_not_kept(pages: Site) -> None:
    stranger = pages.stranger()
    stranger.form_token = token_in((await stranger.get("/sign-in")).text)
    assert (await stranger.post("/replay/plan", {"usd": "1"})).status == 401


def test_a_form_that_is_too_long_is_not_kept() -> None:
    written = WrittenForms()
    assert written.put("ann", "/a", "", {"text": ("x" * 300_000,)}) == ""
    id = written.put("ann", "/a", "", {"text": ("x",), "new_password": ("y",)})
    found = written.get(id, "ann")
    assert found is not None and found.values == {"text": ("x",)} and written.get(id, "bob") is None


def test_the_field_with_the_error_is_in_nothing_that_is_closed() -> None:
    form = RefusedForm("/a", {"n": ("many",)}, "n is 'many'", "n")
    page = (
        '<details id="x"><summary>x</summary></details>'
        '<details class="y"><summary>y</summary><form method="post" action="/a">'
        '<details id="z"><summary>z</summary><input name="n"></details><details open><input name="m"></details>'
        "</form></details><details>w</details>"
    )
    shown = refilled(page, form)
    assert '<details id="x">' in shown and '<details open class="y">' in shown and "<details>w" in shown
    assert '<details open id="z">' in shown and shown.count("open") == 3
    assert 'value="many"' in shown and "field-error" in shown
