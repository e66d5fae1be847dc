"""Programs that use the admin API over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.admin.site import Site, site


@dataclass
class Reply:
    """An answer."""

    status: int
    headers: Any
    content_type: str
    json: Any


@dataclass
class Program:
    """Somebody with a token, or without one."""

    url: str
    session: aiohttp.ClientSession
    token: str = ""

    async def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> Reply:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        headers |= options.pop("headers", {})
        sent = {"json": body} if body is not None else {}
        async with self.session.request(
            method, self.url + path, headers=headers, allow_redirects=False, **sent, **options
        ) as answer:
            is_json = answer.content_type in ("application/json", "application/problem+json")
            return Reply(
                answer.status,
                answer.headers.copy(),
                answer.content_type,
                await answer.json() if is_json else None,
            )


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Site]:
    async with site(tmp_path) as made:
        yield made


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


@pytest.fixture
def operator(pages: Site, session: aiohttp.ClientSession) -> Program:
    _, token = pages.sources.store.admin_tokens.create("terraform", "operator")
    return Program(pages.url, session, token)


@pytest.fixture
def viewer(pages: Site, session: aiohttp.ClientSession) -> Program:
    _, token = pages.sources.store.admin_tokens.create("dashboard", "viewer")
    return Program(pages.url, session, token)


@pytest.fixture
def stranger(pages: Site, session: aiohttp.ClientSession) -> Program:
    return Program(pages.url, session)
