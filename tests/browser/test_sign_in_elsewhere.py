"""Signing in with an OpenID provider of another site, in a real browser: its rules about cookies hold, and it works."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.admin.openid_provider import provider
from tests.admin.site import site
from tests.admin.test_oidc import settings
from tests.patience import PATIENCE_S


@pytest.fixture
def pages_url(tmp_path: Path) -> Iterator[str]:
    """The pages at 127.0.0.1; the provider at localhost, which a browser takes for another site."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stack = AsyncExitStack()

    async def begin() -> str:
        idp = await stack.enter_async_context(provider())
        idp.url = idp.url.replace("127.0.0.1", "localhost")
        made = await stack.enter_async_context(site(tmp_path, admin={"oidc": settings(idp.url)}))
        idp.returns_to = made.url
        return made.url

    try:
        yield asyncio.run_coroutine_threadsafe(begin(), loop).result(PATIENCE_S)
    finally:
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_the_wanted_page_is_shown_after_the_way_by_another_site(
    pages_url: str, profile: Callable[..., BrowserContext]
) -> None:
    page = profile().new_page()
    page.goto(f"{pages_url}/tenants")
    page.get_by_role("link", name="Sign in with your organisation's account").click()
    expect(page).to_have_url(f"{pages_url}/tenants")
    expect(page.locator(".who")).to_contain_text("oidc:ann@example.org")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
