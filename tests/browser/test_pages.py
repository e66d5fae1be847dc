"""Every admin page in a real Chromium: it works, it is accessible in both themes, and nothing stored in it comes alive."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from admin.pages import PAGES
from admin.passwords import hashed
from tests.browser.stage import PASSWORD, Stage

OpenPage = Callable[..., Page]
MENU = [page.path for page in PAGES if "{" not in page.path]
# A style sheet of a map library inside plotly; the policy refuses it, and no chart of ours needs it.
KNOWN = "Applying inline style violates"


def paths(staged: Stage, page: Page) -> list[str]:
    """Every page, those of one thing too: the newest request and example there are."""
    found = list(MENU)
    for section in (
        "/requests",
        "/sessions",
        "/runs",
        "/workflows",
        "/examples",
        "/replay",
        "/tasks",
        "/docs",
    ):
        page.goto(staged.admin_url + section)
        link = page.locator(f"main a[href^='{section}/']").first
        found.append(str(link.get_attribute("href")))
    page.goto(staged.admin_url + "/tenants?sort=keys")
    tenant = str(page.locator("main a[href^='/tenants/']").first.get_attribute("href"))
    page.goto(staged.admin_url + tenant)
    key = page.locator("main a[href^='/keys/']").first
    found += [tenant, f"{tenant}/delete", *([str(key.get_attribute("href"))] if key.count() else [])]
    page.goto(staged.admin_url + "/audit")
    stated = page.locator("main a[href$='/statement']").first
    return found + ([str(stated.get_attribute("href"))] if stated.count() else [])


def watch(page: Page) -> list[str]:
    """What goes wrong in a page's scripts, or is refused by its security policy."""
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda said: problems.append(said.text) if said.type == "error" and KNOWN not in said.text else None,
    )
    return problems


@pytest.mark.slow
def test_a_person_signs_in_looks_around_and_signs_out(
    staged: Stage, profile: Callable[..., BrowserContext]
) -> None:
    page = profile().new_page()
    problems = watch(page)
    page.goto(staged.admin_url + "/engines?span=hour")
    expect(page).to_have_title("Sign in · Understudy")
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Engines", exact=True)).to_be_visible()
    assert page.url.endswith("/engines?span=hour")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Settings").click()
    expect(page.get_by_role("heading", name="Settings")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    page.goto(staged.admin_url + "/overview")
    expect(page.get_by_label("Password")).to_be_visible()
    assert problems == []


def test_a_wrong_password_is_said_and_lets_nobody_in(
    staged: Stage, profile: Callable[..., BrowserContext]
) -> None:
    page = profile().new_page()
    page.goto(staged.admin_url + "/")
    page.get_by_label("Name").fill("ann")
    page.get_by_label("Password").fill("wrong password")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("Wrong name or password.")


@pytest.mark.slow
def test_figures_change_by_themselves_when_a_request_was_answered(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer")
    page.goto(staged.admin_url + "/overview")
    expect(page.locator("#live-state")).to_have_text("live")
    figure = page.locator(".figure", has_text="Requests").first.locator("b")
    before = int(figure.inner_text().replace("\u202f", ""))
    page.evaluate("window.stays = true")
    staged.ask("A question nobody has asked yet?", model="hostile")
    expect(figure).to_have_text(str(before + 1))
    assert page.evaluate("window.stays"), "it must not have been loaded anew"
    assert page.locator("#chart-traffic .main-svg").count() > 0, "the chart is still there"


def test_an_engine_is_drained_after_a_question_and_restored(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("operator")
    page.goto(staged.admin_url + "/engines")
    card = page.locator("section.card", has=page.get_by_role("heading", name="small", exact=True))
    card.get_by_text("Drain small").click()
    card.get_by_label("Reason").fill("tried")
    page.once("dialog", lambda dialog: dialog.dismiss())
    card.get_by_role("button", name="Drain").click()
    expect(card.get_by_role("button", name="Drain")).to_be_visible()
    page.once("dialog", lambda dialog: dialog.accept())
    card.get_by_role("button", name="Drain").click()
    expect(page.locator("main > .flash")).to_contain_text("small is drained")
    expect(card.get_by_role("button", name="Restore")).to_be_visible()
    card.get_by_role("button", name="Restore").click()
    expect(page.locator("main > .flash")).to_contain_text("small is resumed")


def test_a_form_from_another_site_changes_nothing(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("operator")
    page.goto(staged.admin_url + "/engines")
    # The cookie is there, the token is not.
    refused = page.evaluate(
        "async () => (await fetch('/engines/drain', {method: 'POST', body: new URLSearchParams({engine: 'large'})})).status"
    )
    assert refused == 403
    page.locator("input[name=form_token]").first.evaluate("one => { one.value = '0'.repeat(64) }")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("This form did not come from a page of this session.")).to_be_visible()
    # From elsewhere, the browser does not even send the cookie.
    elsewhere = page.context.new_page()
    elsewhere.route(
        "http://elsewhere.test/", lambda route: route.fulfill(content_type="text/html", body=_ELSEWHERE)
    )
    elsewhere.goto("http://elsewhere.test/")
    elsewhere.evaluate("url => { document.forms[0].action = url + '/engines/drain' }", staged.admin_url)
    with elsewhere.expect_response("**/engines/drain") as answered:
        elsewhere.evaluate("document.forms[0].submit()")
    assert answered.value.status == 403
    page.goto(staged.admin_url + "/engines")
    card = page.locator("section.card", has=page.get_by_role("heading", name="large", exact=True))
    expect(card.get_by_text("Drain large")).to_be_visible()
    assert card.get_by_role("button", name="Restore").count() == 0


_ELSEWHERE = "<form method=post><input name=engine value=large></form>"


@pytest.mark.slow
def test_nothing_stored_comes_alive_on_any_page(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("operator")
    problems = watch(page)
    seen = False
    for path in paths(staged, page):
        page.goto(staged.admin_url + path)
        page.wait_for_load_state("load")
        assert page.evaluate("window.pwned") is None, path
        assert page.locator("main script, main img[onerror], main svg[onload]").count() == 0, path
        seen = seen or "<script>window.pwned" in page.locator("main").inner_text()
    assert seen, "the attempt must have been on some page, as text"
    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize("role", ["viewer"])
def test_a_role_without_content_reads_none_in_html_or_json(
    staged: Stage, as_role: OpenPage, role: str
) -> None:
    page = as_role(role)
    operators = as_role("operator")
    for path in [one for one in paths(staged, operators) if one != "/audit"]:
        for asked in (path, path.partition("?")[0] + ".json"):
            answer = page.request.get(staged.admin_url + asked)
            assert answer.status in (200, 403), (asked, answer.status)
            text = answer.text()
            assert "pwned" not in text and "Question" not in text, asked


LOOKS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 800}},
}


@pytest.mark.parametrize(
    "look", ["light", *(pytest.param(look, marks=pytest.mark.slow) for look in ("dark", "phone"))]
)
@pytest.mark.slow
def test_every_page_is_accessible(staged: Stage, as_role: OpenPage, look: str) -> None:
    """By every rule of axe: those of WCAG, and those that are only good practice."""
    page = as_role("operator", reduced_motion="reduce", **LOOKS[look])
    found: list[str] = []
    for path in ["/sign-in", *paths(staged, page)]:
        page.goto(staged.admin_url + path)
        page.wait_for_load_state("load")
        results = Axe().run(page, options={"resultTypes": ["violations"]})
        for violation in results.response["violations"]:
            nodes = [node["html"][:160] for node in violation["nodes"][:3]]
            found.append(f"{path} ({look}): {violation['id']}: {violation['help']}: {nodes}")
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_a_phone_needs_no_sideways_scrolling_and_has_a_menu(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("operator", viewport={"width": 390, "height": 800})
    for path in paths(staged, page):
        page.goto(staged.admin_url + path)
        page.wait_for_load_state("load")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{path} is {wide} pixels too wide"
    page.get_by_text("Menu").click()
    page.locator(".menu-phone").get_by_role("link", name="Engines").click()
    expect(page.get_by_role("heading", name="Engines", exact=True)).to_be_visible()


CUT = """() => [...document.querySelectorAll("main .num, main .figure b")].filter((one) => {
  const box = one.getBoundingClientRect();
  const within = one.scrollWidth > one.clientWidth + 1 && one.clientWidth;
  return box.width && (box.right > innerWidth + 1 || box.left < -1 || within);
}).map((one) => one.textContent.trim()).filter((text) => /[0-9]/.test(text))"""


@pytest.mark.slow
def test_no_digit_is_cut_on_a_phone(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("operator", viewport={"width": 390, "height": 800})
    found = {}
    for path in paths(staged, page):
        page.goto(staged.admin_url + path)
        page.wait_for_load_state("load")
        found[path] = page.evaluate(CUT)
    assert {path: cut for path, cut in found.items() if cut} == {}


def sign_in(page: Page, name: str) -> None:
    page.wait_for_url("**/sign-in?*")
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")


@pytest.mark.slow
def test_a_half_written_text_survives_the_end_of_its_session_for_the_same_account(
    staged: Stage, profile: Callable[..., BrowserContext]
) -> None:
    staged.store.operators.put("eve", "operator", hashed(PASSWORD))
    page, usual = profile().new_page(), re.compile("^1")
    for first, then, kept in (("ann", "ann", "0.4321"), ("ann", "eve", usual)):
        page.goto(staged.admin_url + "/replay")
        sign_in(page, first)
        expect(page.locator("#live-state")).to_have_text("live")
        page.get_by_label("Budget in dollars").fill("0.4321")
        cookie = next(one for one in page.context.cookies() if one["name"].startswith("understudy_admin"))
        staged.store.sessions().end(cookie["value"])
        staged.ask("Is anybody there?", model="hostile")
        sign_in(page, then)
        expect(page.get_by_label("Budget in dollars")).to_have_value(kept)
        page.get_by_role("button", name="Sign out").click()


def test_the_keyboard_is_enough(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("operator")
    page.goto(staged.admin_url + "/settings")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("/")
    page.keyboard.type("judging engine")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr", has_text="judging.engine").first).to_be_visible()
    expect(page.locator("tbody tr", has_text="listen.port")).to_have_count(0)


@pytest.mark.slow
def test_a_chosen_theme_is_kept(staged: Stage, as_role: OpenPage) -> None:
    page = as_role("viewer", color_scheme="light")
    page.goto(staged.admin_url + "/overview")
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(14, 17, 22)"
