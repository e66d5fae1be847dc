"""The admin pages over a real store and real sockets, and people who use them without a browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from admin.app import AdminApp
from admin.passwords import hashed
from admin.sources import Sources
from understudy.processes.listening import bind
from understudy.settings.file import parse_config
from understudy.setup.admin import admin

PASSWORD = "correct horse battery staple"
_HASH: list[str] = []

ENGINES: dict[str, Any] = {
    "engines": {
        "small": {
            "kind": "simulated",
            "role": "understudy",
            "price": {"input_usd_per_mtok": 0.15, "output_usd_per_mtok": 0.6},
        },
        "large": {
            "kind": "simulated",
            "role": "lead",
            "price": {"input_usd_per_mtok": 2.5, "output_usd_per_mtok": 10},
        },
    },
    "models": {"demo": {"engines": ["small", "large"], "policy": "few_shot"}},
}


@dataclass
class Got:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    text: str
    json: Any = None


@dataclass
class Person:
    """Somebody with a cookie jar."""

    url: str
    session: aiohttp.ClientSession
    form_token: str = ""

    async def get(self, path: str, **headers: str) -> Got:
        async with self.session.get(self.url + path, headers=headers, allow_redirects=False) as answer:
            return await _got(answer)

    async def post(
        self, path: str, fields: Mapping[str, str] | list[tuple[str, str]] | None = None, **headers: str
    ) -> Got:
        """A form as one of our own pages would send it, unless `headers` say otherwise. A result that is shown is read."""
        sent_fields = fields if isinstance(fields, list) else list((fields or {}).items())
        data = aiohttp.FormData([("form_token", self.form_token), *sent_fields])
        sent = {"Origin": self.url, **{k.replace("_", "-"): v for k, v in headers.items()}}
        async with self.session.post(
            self.url + path, data=data, headers=sent, allow_redirects=False
        ) as answer:
            got = await _got(answer)
        to = got.headers.get("Location", "")
        return await self.get(to) if to.startswith("/shown/") else got

    async def sign_in(self, name: str, password: str = PASSWORD, then: str = "") -> Got:
        self.form_token = token_in((await self.get("/sign-in")).text)
        got = await self.post("/sign-in", {"name": name, "password": password, "next": then})
        if got.status == 303:
            self.form_token = token_in((await self.get("/overview")).text)
        return got


async def _got(answer: aiohttp.ClientResponse) -> Got:
    is_json = answer.content_type == "application/json"
    text = await answer.text()
    return Got(answer.status, answer.headers.copy(), text, await answer.json() if is_json else None)


@dataclass
class Site:
    """The pages, being served."""

    url: str
    app: AdminApp
    sources: Sources
    people: list[aiohttp.ClientSession] = field(default_factory=list)

    def stranger(self, address: str = "127.0.0.1") -> Person:
        """Somebody who is not signed in, and comes from an address of this machine's."""
        connector = aiohttp.TCPConnector(local_addr=(address, 0))
        session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.CookieJar(unsafe=True))
        self.people.append(session)
        return Person(self.url, session)

    async def person(self, role: str) -> Person:
        """Somebody signed in with a role, without the time that a password takes."""
        name = f"a-{role}"
        self.sources.store.operators.put(name, role, "no hash")
        made = self.stranger()
        token = self.sources.sessions.open(name)
        cookie = f"understudy_admin_{self.url.rpartition(':')[2]}"
        made.session.cookie_jar.update_cookies({cookie: token}, URL(self.url))
        made.form_token = self.sources.sessions.form_token(token)
        return made


def add_user(sources: Sources, name: str, role: str) -> None:
    """An account with PASSWORD. Hashing takes a while on purpose, so it is done once."""
    if not _HASH:
        _HASH.append(hashed(PASSWORD))
    sources.store.operators.put(name, role, _HASH[0])


def token_in(page: str) -> str:
    """The form token of a page."""
    found = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
    assert found, page[:500]
    return found[1]


@asynccontextmanager
async def site(folder: Path, **config: Any) -> AsyncIterator[Site]:
    """The pages of a gateway with two simulated engines, over the store in a folder."""
    settings = parse_config({**ENGINES, "memory": {"data_dir": str(folder)}, **config})
    with bind("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        with admin(settings, port) as (app, sources):
            runner = web.AppRunner(app.app, access_log=None, shutdown_timeout=0.2, handler_cancellation=True)
            await runner.setup()
            await web.SockSite(runner, sock).start()
            made = Site(f"http://127.0.0.1:{port}", app, sources)
            live = asyncio.get_running_loop().create_task(app.live.run())
            try:
                yield made
            finally:
                for session in made.people:
                    await session.close()
                live.cancel()
                await runner.cleanup()
