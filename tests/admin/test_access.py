"""Access to the admin pages, from outside: nobody has it without a session, a role and our own form."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from admin.headers import HEADERS
from admin.pages import PAGES
from tests.admin.site import PASSWORD, Site, add_user, site, token_in


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


async def test_nothing_is_shown_to_who_is_not_signed_in(pages: Site) -> None:
    stranger = pages.stranger()
    for page in PAGES:
        path = page.path.replace("{id}", "1")
        got = await stranger.get(path)
        assert got.status == 303 and got.headers["Location"].startswith("/sign-in?next=")
        twin = await stranger.get(path + ".json")
        assert twin.status == 401 and twin.json["error"]["code"] == "not_signed_in"
    assert (await stranger.get("/live")).status == 303


async def test_a_right_password_opens_a_session_and_signing_out_ends_it(pages: Site) -> None:
    await asyncio.to_thread(add_user, pages.sources, "ann", "operator")
    operator = pages.stranger()
    assert (await operator.sign_in("ann")).headers["Location"] == "/overview"
    assert (await operator.get("/overview")).status == 200
    cookie = next(iter(operator.session.cookie_jar))
    assert (
        cookie["httponly"] and cookie["samesite"] == "Strict" and cookie.key.startswith("understudy_admin_")
    )
    assert (await operator.post("/sign-out")).headers["Location"] == "/sign-in"
    stolen = await operator.get("/overview", Cookie=f"{cookie.key}={cookie.value}")
    assert stolen.status == 303, "the old cookie must be worth nothing"


async def test_signing_in_draws_a_new_cookie(pages: Site) -> None:
    await asyncio.to_thread(add_user, pages.sources, "ann", "operator")
    ann = pages.stranger()
    await ann.get("/sign-in")
    planted = next(iter(ann.session.cookie_jar)).value
    await ann.sign_in("ann")
    assert next(iter(ann.session.cookie_jar)).value != planted


@pytest.mark.parametrize(("name", "password"), [("ann", "wrong" * 4), ("nobody", PASSWORD), ("", "")])
async def test_a_wrong_password_and_an_unknown_name_look_alike(pages: Site, name: str, password: str) -> None:
    await asyncio.to_thread(add_user, pages.sources, "ann", "operator")
    got = await pages.stranger().sign_in(name, password)
    assert got.status == 401 and "Wrong name or password." in got.text


async def test_guessing_is_slowed_down(pages: Site) -> None:
    stranger = pages.stranger()
    statuses = [(await stranger.sign_in("nobody", "x")).status for _ in range(11)]
    assert statuses[:10] == [401] * 10 and statuses[10] == 429
    refused = pages.sources.store.audit.page(limit=1)[0]
    assert (refused.action, refused.outcome, refused.user) == ("sign-in", "refused", "nobody")


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "/x\r\nSet-Cookie: a=b",
    ],
)
async def test_signing_in_leads_to_no_other_site(pages: Site, target: str) -> None:
    await asyncio.to_thread(add_user, pages.sources, "ann", "operator")
    got = await pages.stranger().sign_in("ann", then=target)
    assert got.headers["Location"] == "/overview"


async def test_a_form_without_our_token_or_from_elsewhere_is_refused_and_noted(pages: Site) -> None:
    operator = await pages.person("operator")
    right = operator.form_token
    cases: list[tuple[str, dict[str, str]]] = [
        ("", {}),
        ("0" * 64, {}),
        (right, {"Origin": "https://evil.example"}),
        (right, {"Origin": "null"}),
    ]
    for token, headers in cases:
        operator.form_token = token
        got = await operator.post("/sign-out", **headers)
        assert got.status == 403, (token, headers)
    assert (await operator.get("/overview")).status == 200, "it must still be signed in"
    rows = pages.sources.store.audit.page(action="/sign-out")
    assert [row.outcome for row in rows] == ["refused"] * 4 and rows[0].user == "a-operator"


async def test_another_sessions_token_is_no_good(pages: Site) -> None:
    operator, viewer = await pages.person("operator"), await pages.person("viewer")
    operator.form_token = viewer.form_token
    assert (await operator.post("/sign-out")).status == 403


async def test_a_json_client_may_send_the_token_in_a_header(pages: Site) -> None:
    operator = await pages.person("operator")
    token, operator.form_token = operator.form_token, ""
    assert (await operator.post("/sign-out", X_Form_Token=token)).status == 303


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "http://[x]/"])
async def test_an_origin_that_is_no_url_is_refused_like_any_foreign_one(pages: Site, origin: str) -> None:
    operator = await pages.person("operator")
    got = await operator.post("/sign-out", Origin=origin)
    assert got.status == 403


BROKEN = {
    "multipart without a boundary": ("multipart/form-data", b"x"),
    "multipart that ends early": (
        "multipart/form-data; boundary=b",
        b"--b\r\nContent-Disposition: form-data",
    ),
    "multipart without parts": ("multipart/form-data; boundary=b", b"nothing"),
    "a part in an unknown charset": (
        "multipart/form-data; boundary=b",
        b'--b\r\nContent-Disposition: form-data; name="a"\r\nContent-Type: text/plain; charset=nosuch\r\n\r\nx\r\n--b--\r\n',
    ),
    "an unknown transfer encoding": (
        "multipart/form-data; boundary=b",
        b'--b\r\nContent-Disposition: form-data; name="a"\r\nContent-Transfer-Encoding: x\r\n\r\nx\r\n--b--\r\n',
    ),
    "a part with a header that is none": (
        "multipart/form-data; boundary=b",
        b"--b\r\nno colon\r\n\r\nx\r\n--b--\r\n",
    ),
    "an unknown charset": ("application/x-www-form-urlencoded; charset=nosuch", b"a=b"),
    "bytes that are no text": ("application/x-www-form-urlencoded", b"a=\xff\xfe"),
}


@pytest.mark.parametrize(("content_type", "body"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("token_in_header", [True, False])
async def test_a_form_that_cannot_be_read_is_400(
    pages: Site, content_type: str, body: bytes, token_in_header: bool
) -> None:
    stranger = pages.stranger()
    token = token_in((await stranger.get("/sign-in")).text)
    headers = {"Origin": pages.url, "Content-Type": content_type}
    if token_in_header:
        headers["X-Form-Token"] = token
    async with stranger.session.post(pages.url + "/sign-in", data=body, headers=headers) as answer:
        assert answer.status == 400 and "cannot be read" in await answer.text()


async def test_refusals_of_strangers_are_noted_up_to_a_rate(pages: Site) -> None:
    """Any web page in anybody's browser can send such forms."""
    stranger = pages.stranger()
    for _ in range(50):
        assert (await stranger.post("/sign-out", Origin="https://evil.example")).status == 403
    assert len(pages.sources.store.audit.page(limit=100)) == 20
    operator = await pages.person("operator")
    operator.form_token = ""
    assert (await operator.post("/sign-out")).status == 403
    assert pages.sources.store.audit.page(limit=1)[0].user == "a-operator", "who is signed in is always noted"


async def test_guessing_at_one_account_locks_nobody_out_of_another(pages: Site) -> None:
    """Behind a proxy everybody has the same address."""
    await asyncio.to_thread(add_user, pages.sources, "ann", "operator")
    stranger = pages.stranger()
    assert [(await stranger.sign_in("operator", "x")).status for _ in range(11)][-1] == 429
    assert (await pages.stranger().sign_in("ann")).status == 303


async def test_strangers_elsewhere_lock_no_operator_out(pages: Site) -> None:
    await asyncio.to_thread(add_user, pages.sources, "ann", "operator")
    stranger = pages.stranger("127.0.0.2")
    statuses = [(await stranger.sign_in(f"nobody-{n}", "x")).status for n in range(61)]
    assert statuses == [401] * 60 + [429]
    assert (await pages.stranger().sign_in("ann")).status == 303


async def test_the_right_password_forgets_the_slips_before_it(pages: Site) -> None:
    await asyncio.to_thread(add_user, pages.sources, "ann", "operator")
    for _ in range(3):
        slips = [(await pages.stranger().sign_in("ann", "x")).status for _ in range(9)]
        assert slips == [401] * 9
        assert (await pages.stranger().sign_in("ann")).status == 303


async def test_a_role_sees_only_what_it_covers(pages: Site) -> None:
    viewer = await pages.person("viewer")
    assert (await viewer.get("/overview")).status == 200
    assert (await viewer.get("/audit")).status == 403
    twin = await viewer.get("/audit.json")
    assert twin.status == 403 and twin.json["error"]["code"] == "role"


async def test_an_account_that_is_taken_away_is_out_at_once(pages: Site) -> None:
    viewer = await pages.person("viewer")
    await asyncio.to_thread(pages.sources.store.operators.remove, "a-viewer")
    assert (await viewer.get("/overview")).status == 303


async def test_every_answer_carries_the_security_headers(pages: Site) -> None:
    operator = await pages.person("operator")
    for path in ("/overview", "/overview.json", "/nowhere", "/sign-in", "/overview?span=year"):
        got = await operator.get(path)
        for name, value in HEADERS.items():
            assert got.headers[name] == value, path
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy and "default-src 'none'" in policy


async def test_a_wrong_parameter_is_told_by_name(pages: Site) -> None:
    viewer = await pages.person("viewer")
    got = await viewer.get("/overview.json?span=<script>")
    assert got.status == 400 and "span is '<script>'" in got.json["error"]["message"]
    page = await viewer.get("/overview?span=<script>alert(1)</script>")
    assert page.status == 400 and "<script>alert" not in page.text and "&lt;script&gt;" in page.text


async def test_pages_hold_no_script_and_no_style_of_their_own(pages: Site) -> None:
    operator = await pages.person("operator")
    for page in PAGES:
        if "{" not in page.path:
            text = (await operator.get(page.path)).text
            assert "<style" not in text and " style=" not in text and " onclick" not in text
            assert all("src=" in tag.split(">")[0] for tag in text.split("<script")[1:])


async def test_signing_in_and_out_is_in_the_audit_log(pages: Site) -> None:
    await asyncio.to_thread(add_user, pages.sources, "ann", "operator")
    ann = pages.stranger()
    await ann.sign_in("ann")
    await ann.post("/sign-out")
    rows = pages.sources.store.audit.page(user="ann")
    assert [(row.action, row.outcome, row.address) for row in rows] == [
        ("sign-out", "done", "127.0.0.1"),
        ("sign-in", "done", "127.0.0.1"),
    ]


async def test_a_page_and_its_twin_say_the_same(pages: Site) -> None:
    operator = await pages.person("operator")
    by_path = await operator.get("/overview.json?span=day")
    by_header = await operator.get("/overview?span=day", Accept="application/json")
    assert by_path.json["span"] == by_header.json["span"] == "day"
    assert token_in((await operator.get("/overview?span=day")).text) == operator.form_token
