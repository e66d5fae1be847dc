"""What the gateway does not serve itself goes to the default upstream."""

from __future__ import annotations

from gateway.guardrails.passed_on import GuardedPassing
from gateway.passthrough import Passthrough
from gateway.websocket import with_upgrades
from understudy.built import Built


def add_to(built: Built) -> None:
    """Pass on, WebSockets too."""
    upstream, guardrails = built.upstream, built.guardrails
    assert upstream is not None
    built.passthrough = Passthrough(
        upstream,
        built.keys,
        max_body_bytes=int(built.config.listen.advanced.max_body_mib * 2**20),
        booked=built.memory is not None or bool(upstream.info.prices),
        limiter=built.limiter,
        guarded=GuardedPassing(guardrails, built.kept_bytes) if guardrails else None,
    )
    built.otherwise = with_upgrades(built.passthrough, upstream, built.keys, built.admission.again)
