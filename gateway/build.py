"""Builds every object, top to bottom. The only file that names concrete classes."""

from __future__ import annotations

from aiohttp import web

from engines.engine import EngineInfo
from engines.openai_http import OpenAIHTTP, Timeouts
from gateway.app import RouteTable
from gateway.config import Config, TimeoutSettings, Upstream
from gateway.handlers.health import Health
from gateway.journey import Journey
from gateway.keys import Anybody
from gateway.log import RequestLog
from gateway.metrics import Metrics
from gateway.middleware import Door, Handler
from gateway.passthrough import Passthrough
from gateway.websocket import tunnel, wants_upgrade


class Gateway:
    """A built gateway: `handle` answers requests, `aclose` ends what it owns, in order."""

    def __init__(self, config: Config) -> None:
        self.metrics = Metrics()
        self._upstream = _upstream(config.upstream) if config.upstream else None
        health = Health(self.metrics, problems=list, settled=lambda: True)
        routes = RouteTable(
            prefixes=config.listen.prefixes,
            own={
                ("GET", "/healthz"): health.healthz,
                ("GET", "/readyz"): health.readyz,
                ("GET", "/metrics"): health.metrics,
            },
            endpoints={},
            otherwise=_everything_else(self._upstream, config) if self._upstream else None,
        )
        requests = RequestLog() if config.log.requests else None
        self.handle = Door(routes, Anybody(), requests, self.metrics)

    async def aclose(self) -> None:
        """Close engines."""
        if self._upstream:
            await self._upstream.aclose()


def _everything_else(upstream: OpenAIHTTP, config: Config) -> Handler:
    passthrough = Passthrough(upstream, max_body_bytes=int(config.listen.max_body_mib * 2**20))

    async def handle(request: web.BaseRequest, target: str, journey: Journey) -> web.StreamResponse:
        if wants_upgrade(request):
            return await tunnel(request, upstream, target, journey)
        return await passthrough(request, target, journey)

    return handle


def _upstream(settings: Upstream) -> OpenAIHTTP:
    return OpenAIHTTP(
        EngineInfo("upstream"),
        settings.base_url,
        authorization=f"Bearer {settings.api_key.get_secret_value()}" if settings.api_key else None,
        extra_headers=settings.headers,
        timeouts=_timeouts(settings.timeouts),
    )


def _timeouts(settings: TimeoutSettings) -> Timeouts:
    return Timeouts(settings.connect_s, settings.first_chunk_s, settings.gap_s, settings.total_s)
