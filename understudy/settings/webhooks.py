"""Settings of webhooks: who is told when a budget is nearly spent, an engine is down, the disk fills, a key ends."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from understudy.settings.group import Settings
from understudy.webhooks.shapes import Shape

Event = Literal["budget.crossed", "engine.down", "engine.up", "quality.alarm", "disk.low", "key.expiring"]
_PREFIX = "whsec_"
_HOSTS = {
    "hooks.slack.com": "slack",
    "hooks.slack-gov.com": "slack",
    "webhook.office.com": "teams",
    "logic.azure.com": "teams",
    "environment.api.powerplatform.com": "teams",
    "events.pagerduty.com": "pagerduty",
    "events.eu.pagerduty.com": "pagerduty",
}
"""Shapes by the hosts that read nothing else."""
_LEAST_BYTES, _MOST_BYTES = 24, 64


def _checked_url(url: SecretStr) -> SecretStr:
    """Never quotes it: it may hold a token."""
    try:
        parts = urlsplit(url.get_secret_value())
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine:
        raise ValueError("must be an http:// or https:// URL such as https://hooks.example/understudy")
    if parts.username or parts.password or parts.fragment:
        raise ValueError("must carry neither credentials nor a fragment")
    return url


def _check_signing(secret: str) -> None:
    try:
        size = len(base64.b64decode(secret.removeprefix(_PREFIX), validate=True))
    except (binascii.Error, ValueError):
        size = 0
    if not _LEAST_BYTES <= size <= _MOST_BYTES:
        raise ValueError(
            f"secret must be {_PREFIX} and {_LEAST_BYTES} to {_MOST_BYTES} random bytes in base64: write ${{NAME}}, and "
            "make one with `openssl rand -base64 32`"
        )


class WebhookSettings(Settings):
    """One receiver. Messages hold no text of requests or answers."""

    url: Annotated[SecretStr, AfterValidator(_checked_url)] = Field(
        description="Where messages are posted. It may lead into a private network; redirects are not followed."
    )
    shape: Shape = Field(
        "standard",
        description="What is posted: standard (Standard Webhooks, signed), json (the same, not signed), slack, teams (an "
        "Adaptive Card for a workflow) or pagerduty (Events API v2).",
    )
    secret: SecretStr | None = Field(
        None,
        description="Of shape standard what messages are signed with, whsec_ and base64; of pagerduty the routing key; "
        "write ${NAME}. Other shapes have none.",
    )
    events: tuple[Event, ...] | None = Field(None, description="What it is told; null: everything.")

    @model_validator(mode="after")
    def _secret_of_its_shape(self) -> WebhookSettings:
        secret = None if self.secret is None else self.secret.get_secret_value()
        if secret is None and self.shape == "standard" and (shape := self.other_shape()):
            raise ValueError(f"url leads to {shape}: set shape: {shape}")
        if self.shape == "standard":
            _check_signing(secret or "")
        elif self.shape == "pagerduty" and len((secret or "").split()) != 1:
            raise ValueError("secret must be the routing key of a service's Events API v2 integration")
        elif self.shape in ("json", "slack", "teams") and secret is not None:
            raise ValueError(f"shape is {self.shape}, whose messages are not signed: take secret away")
        return self

    def other_shape(self) -> str | None:
        """The shape that the URL's host reads, where that is another one; null: none is known to be."""
        host = urlsplit(self.url.get_secret_value()).hostname or ""
        found = next(
            (shape for end, shape in _HOSTS.items() if host == end or host.endswith("." + end)), None
        )
        return found if found != self.shape else None
