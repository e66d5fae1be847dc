"""What an operator would do after the demo's traffic, on the admin pages themselves: a run of replay, and a map."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import aiohttp
from yarl import URL

from simulation.demo.admin_access import AdminAccess

_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]+)"')


class PagesDidNot(Exception):
    """The pages refused what the demo asked of them. Says what."""


class Operator:
    """Somebody who is signed in to the admin pages."""

    def __init__(self, http: aiohttp.ClientSession, access: AdminAccess) -> None:
        """`http` keeps the cookies."""
        self._http = http
        self._access = access

    async def sign_in(self) -> None:
        """Signs in. Raises PagesDidNot, and aiohttp.ClientError."""
        await self.send(
            "/sign-in", {"name": self._access.user, "password": self._access.password}, "/sign-in"
        )

    async def page(self, path: str) -> str:
        """A page as HTML, after redirects. Raises PagesDidNot."""
        async with self._http.get(self._access.url + path) as answer:
            if answer.status != 200:
                raise PagesDidNot(f"{path}: {answer.status}")
            return await answer.text()

    async def json(self, path: str) -> dict[str, object]:
        """The twin of a page. Raises PagesDidNot."""
        async with self._http.get(f"{self._access.url}{path}.json") as answer:
            if answer.status != 200:
                raise PagesDidNot(f"{path}.json: {answer.status}")
            found: dict[str, object] = await answer.json()
            return found

    async def download(self, path: str) -> bytes:
        """A file. Raises PagesDidNot."""
        async with self._http.get(self._access.url + path) as answer:
            if answer.status != 200:
                raise PagesDidNot(f"{path}: {answer.status}")
            return await answer.read()

    async def send(self, path: str, fields: Mapping[str, str], page: str) -> None:
        """Sends a form as the page that holds it would. Raises PagesDidNot."""
        token = _TOKEN.search(await self.page(page))
        origin = str(URL(self._access.url).origin())
        data = {"form_token": token[1] if token else "", **fields}
        async with self._http.post(
            self._access.url + path, data=data, headers={"Origin": origin}, allow_redirects=False
        ) as answer:
            if answer.status != 303:
                raise PagesDidNot(f"{path}: {answer.status}")

    async def review(self, grade: Callable[[list[dict[str, str]], str], float | None], most: int) -> int:
        """Gives verdicts on sampled answers, as `grade` of a conversation and its answer says; gives how many.

        What has no grade is skipped, and the last one is left for whoever opens the page.
        """
        for number in range(most):
            queue = await self.json("/review")
            item, waiting = queue["item"], queue["waiting"]
            if not isinstance(item, dict) or not isinstance(waiting, int) or waiting <= 1:
                return number
            asked = [{"role": one["role"], "content": one["text"]} for one in item["messages"]]
            graded = grade(asked, item["answer"])
            verdict = "skip" if graded is None else "good" if graded >= 0.5 else "bad"
            await self.send("/review", {"id": item["id"], "verdict": verdict}, "/review")
        return most

    async def look_after(self, usd: float) -> None:
        """Starts a run of replay within `usd`, and has the map of the largest bank drawn. Raises PagesDidNot."""
        await self.send("/replay/run", {"usd": f"{usd}"}, "/replay")
        tenant = (await self.json("/examples-map"))["tenant"]
        await self.send("/examples-map/draw", {"tenant": str(tenant)}, "/examples-map")
