"""Settings of where the gateway listens, and what it takes there."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from understudy.settings.group import Settings

_ORIGIN = re.compile(r"\*|[A-Za-z][A-Za-z0-9+.-]*://[^/\s@?#]+")


class ListenAdvanced(Settings):
    """Less common settings of where the gateway listens."""

    prefixes: tuple[str, ...] = Field(
        ("/v1",), min_length=1, description="Paths below these reach the upstream; others are 404."
    )

    @field_validator("prefixes")
    @classmethod
    def _are_paths(cls, prefixes: tuple[str, ...]) -> tuple[str, ...]:
        for prefix in prefixes:
            if prefix and not prefix.startswith("/"):
                raise ValueError(f"has {prefix!r}: a path such as /v1 is right")
        return prefixes

    max_body_mib: float = Field(512, gt=0, description="Largest request body passed through, in MiB.")
    max_json_mib: float = Field(
        32, gt=0, description="Largest body the pipeline will read and parse, in MiB."
    )
    body_gap_s: float = Field(
        30, gt=0, description="How long a client may pause in the middle of its request body."
    )
    responses_websocket: bool = Field(
        True,
        description="Whether clients may ask `/v1/responses` over a WebSocket. Off: they get a 426, and ask by POST.",
    )
    max_connections: int = Field(
        10_000, ge=1, description="Most open connections of one worker; one more is refused with 503."
    )


class Listen(Settings):
    """Where the gateway listens."""

    host: str = Field(
        "127.0.0.1",
        description="Address to bind. Others than this machine's own, such as 0.0.0.0, need a gateway key where the "
        "upstream or an engine has one.",
    )
    port: int = Field(8080, ge=0, le=65535, description="Port; 0 takes a free one and prints it.")
    open: bool = Field(
        False,
        description="Whether anybody who reaches the address may use your keys while there is no gateway key.",
    )
    workers: int = Field(1, ge=1, le=64, description="Processes sharing the port (SO_REUSEPORT).")
    tenant_headers: tuple[str, ...] = Field(
        (),
        description="Further request headers that tell clients apart while the gateway has no keys, beside credentials.",
    )
    cors: tuple[str, ...] = Field(
        (),
        description="Origins whose pages may ask from a browser, such as https://app.example, or * for all.",
    )
    grace_s: float = Field(30, ge=0, description="At SIGTERM, how long open requests may take to finish.")
    advanced: ListenAdvanced = Field(ListenAdvanced(), description="Less common settings.")

    @field_validator("cors")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(f"has {origin[:60]!r}: an origin such as https://app.example is right, or *")
        return tuple(origin.lower() for origin in origins)
