"""Settings of webhooks: who is told when a budget is nearly spent, an engine is down, the disk fills, a key ends."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from understudy.settings.group import Settings

Event = Literal["budget.crossed", "engine.down", "engine.up", "quality.alarm", "disk.low", "key.expiring"]
_PREFIX = "whsec_"
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


def _checked_secret(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value().removeprefix(_PREFIX)
    try:
        size = len(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        size = 0
    if not _LEAST_BYTES <= size <= _MOST_BYTES:
        raise ValueError(
            f"must be {_PREFIX} and {_LEAST_BYTES} to {_MOST_BYTES} random bytes in base64: write ${{NAME}}, and make one "
            "with `openssl rand -base64 32`"
        )
    return secret


class WebhookSettings(Settings):
    """One receiver. Messages are signed as Standard Webhooks has it, and hold no text of requests or answers."""

    url: Annotated[SecretStr, AfterValidator(_checked_url)] = Field(
        description="Where messages are posted. It may lead into a private network; redirects are not followed."
    )
    secret: Annotated[SecretStr, AfterValidator(_checked_secret)] = Field(
        description="What messages are signed with, which the receiver knows: whsec_ and base64; write ${NAME}."
    )
    events: tuple[Event, ...] | None = Field(None, description="What it is told; null: everything.")
