"""Tasks in a real Chromium: one that was found in the log is enabled, taken over, reviewed and rolled back."""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from store import Store
from tests.browser.stage import Stage
from tests.flow.line import MODELS, completion
from tests.flow.process import running
from tests.flow.tasks import SYSTEM, THINGS, WORDS, right

_MARKUP = "<script>window.pwned=1</script>"
_FIRST, _LABELS = 220, 105
"""Requests until a task may be proposed, and then until its student is trained."""
_AT_ONCE = 4


class _Teacher(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(completion(right(asked["messages"][-1]["content"]))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return


@dataclass
class Traffic:
    """Customers who ask one after another, never the same."""

    stage: Stage
    numbers: Iterator[int] = field(default_factory=itertools.count)
    stopped: threading.Event = field(default_factory=threading.Event)

    def ask(self, _: int = 0) -> str:
        number = next(self.numbers)
        label = list(WORDS)[number % len(WORDS)]
        way = WORDS[label][number // 3 % len(WORDS[label])]
        text = f"Order {number:04d}, the {THINGS[number % len(THINGS)]}: {way}. {_MARKUP}"
        asked = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
        return str(self.stage.ask(asked, model="gpt-4o")["headers"]["x-understudy-engine"])

    def many(self, count: int) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as customers:
            list(customers.map(self.ask, range(count)))

    @contextmanager
    def going_on(self) -> Iterator[None]:
        def go() -> None:
            while not self.stopped.is_set():
                self.many(_AT_ONCE)
                # The learner and the pages shall have their share of a small machine.
                self.stopped.wait(0.1)

        thread = threading.Thread(target=go)
        thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            thread.join()


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    folder = tmp_path_factory.mktemp("tasks")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Teacher)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    patient = {"retrieve_deadline_ms": 10_000, "embedding_deadline_ms": 10_000}
    price = {"input_usd_per_mtok": 2.5, "output_usd_per_mtok": 10}
    config = {
        "listen": {"grace_s": 1},
        "engines": {"large": {"base_url": f"http://127.0.0.1:{server.server_port}/v1", "price": price}},
        "models": {"gpt-4o": {"engines": ["large"], "max_loss": 0.2}},
        "memory": {
            "data_dir": str(folder / "data"),
            "anonymous": True,
            "advanced": {**patient, "embedding_cache_dir": str(MODELS)},
        },
        "learning": {"advanced": {"every_s": 0.2}},
        "log": {"requests": False},
        "admin": {"port": 0},
    }
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    try:
        with running("--config", str(path), "--admin", "on") as gateway:
            said = gateway.wait_for_log("admin_listening").split("admin_listening")[1]
            found = re.search(r'"url":"([^"]+)"', said)
            assert found
            store = Store.open(folder / "data")
            try:
                yield Traffic(Stage(gateway, found[1], folder / "data", store))
            finally:
                store.close()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# Its student learns from a stream of requests, which takes a minute.
@pytest.mark.slow
def test_a_proposal_is_enabled_takes_over_is_reviewed_and_rolled_back(
    traffic: Traffic, profile: Callable[..., BrowserContext]
) -> None:
    stage, store = traffic.stage, traffic.stage.store
    context = profile(reduced_motion="reduce")
    context.add_cookies([stage.cookie("operator")])  # type: ignore[list-item]
    page: Page = context.new_page()
    flash = page.locator("main > .flash")
    traffic.many(_FIRST)
    stage.settle()
    page.goto(stage.admin_url + "/tasks")
    expect(page.get_by_text("No task yet")).to_be_visible()
    page.get_by_role("button", name="Look for tasks in the log").click()
    expect(flash).to_contain_text("1 proposed")
    row = page.locator("tbody tr")
    expect(row).to_contain_text("proposed")
    row.get_by_role("button", name="Enable").click()
    expect(flash).to_contain_text("Enabled")
    # It takes over while the page is looked at.
    share = page.locator(".figure", has_text="Taken over").locator("b")
    state = page.locator("#news .badge").first
    page.evaluate("window.stays = true")
    expect(state).to_have_text("learning")
    traffic.many(_LABELS)
    expect(state).to_have_text("comparing")
    with traffic.going_on():
        expect(state).to_have_text("answering")
        expect(share).to_have_text(re.compile(r"^([5-9]|\d\d)"))
        assert page.evaluate("window.stays"), "it must not have been loaded anew"
    stage.settle()
    # Three requests are reviewed, by a key each, and one by the mouse.
    page.reload()
    page.locator("main").get_by_role("link", name="Review").click()
    items = page.locator(".review-item")
    expect(items.first).to_be_focused()
    assert page.evaluate("window.pwned") is None and _MARKUP in items.first.inner_text()
    (known,) = store.tasks.known.all()
    labels = list(known.labels)
    reviewed = {}
    for key, label in (("1", labels[0]), ("2", labels[1]), ("0", None)):
        id = str(items.first.get_attribute("id")).removeprefix("review-")
        reviewed[id] = label
        page.keyboard.press(key)
        expect(page.locator(f"#review-{id}")).to_have_count(0)
        expect(items.first).to_be_focused()
    id = str(items.nth(1).get_attribute("id")).removeprefix("review-")
    reviewed[id] = labels[2]
    items.nth(1).get_by_role("button", name=re.compile(f"^3 {labels[2]}$")).click()
    expect(page.locator(f"#review-{id}")).to_have_count(0)
    for id, label in reviewed.items():
        kept = store.tasks.answers.of_request(known.tenant, id)
        assert kept is not None and (kept.label, kept.answered_by) == (label, "person")
    expect(page.locator("#answered .main-svg").first).to_be_visible()
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert not found, [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found]
    # Back to what served before the version in use.
    (active,) = (
        one for one in store.artifacts.versions("student", known.tenant, known.slot) if one.state == "active"
    )
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Roll back").click()
    expect(flash).to_contain_text("In use now")
    now = store.artifacts.active("student", known.tenant, known.slot)
    assert now is None or now.id < active.id
    assert [row.action for row in store.audit.page(user="a-operator")][:2] == [
        "models/rollback",
        "/tasks/{id}/label",
    ]
