"""`/healthz`: the process lives. `/readyz`: it can serve. `/metrics`: its figures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from multidict import MultiMapping

from gateway.journey import arrival
from gateway.metrics import Metrics
from gateway.own_response import error_response, json_response
from router.finished import Journey


async def nobody(headers: MultiMapping[str]) -> bool:
    """Nobody may read figures by tenant and key."""
    return False


class Health:
    """The gateway's own pages. They need no key and tell nothing of anyone's content."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        problems: Callable[[], list[str]],
        impaired: Callable[[], list[str]],
        settled: Callable[[], Awaitable[bool]],
        warnings: Callable[[], list[str]] = list,
        config: str = "",
        reads_people: Callable[[MultiMapping[str]], Awaitable[bool]] = nobody,
    ) -> None:
        """`problems` keep requests from being served; with what is `impaired` they are served nevertheless. `warnings`:
        settings that are most likely not what was meant.

        `config`: what tells configurations apart. `reads_people` says of a request's headers whether its sender may read
        figures by tenant and key.
        """
        self._metrics = metrics
        self._problems = problems
        self._impaired = impaired
        self._settled = settled
        self._warnings = warnings
        self._reads_people = reads_people
        self._config = config

    async def healthz(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """200 as long as the event loop turns."""
        return _json(journey, 200, {"status": "ok"})

    async def readyz(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """200 when requests can be served. With `?settled=1`, also only once everything answered so far is remembered."""
        problems, impaired = self._problems(), self._impaired()
        if request.query.get("settled") == "1" and not await self._settled():
            problems = [*problems, "still remembering"]
        return _json(
            journey,
            503 if problems else 200,
            {
                "status": "not ready" if problems else "degraded" if impaired else "ok",
                "problems": [*problems, *impaired],
                **({"warnings": warnings} if (warnings := self._warnings()) else {}),
                **({"config": self._config} if self._config else {}),
            },
        )

    async def metrics(self, request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        """Prometheus' text format; by tenant and key only for those who may read that."""
        journey.answered(200)
        return web.Response(
            body=self._metrics.exposition(people=await self._reads_people(request.headers)),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def only(self, request: web.BaseRequest) -> web.StreamResponse:
        """The handler of a process that answers nothing else: 404, in OpenAI's shape, to all other requests."""
        path = request.raw_path.partition("?")[0]
        page = {"/healthz": self.healthz, "/readyz": self.readyz, "/metrics": self.metrics}.get(
            path.rstrip("/")
        )
        if page is None or request.method not in ("GET", "HEAD"):
            told = "This process works in the background: it has /healthz, /readyz and /metrics."
            return error_response(404, told, code="unknown_url")
        return await page(request, path, Journey(arrival(request.method, path)))


def _json(journey: Journey, status: int, content: object) -> web.Response:
    journey.answered(status)
    return json_response(content, status=status)
