"""A key that a command prints, for clouds whose tokens end after an hour: kept until shortly before.

What it prints and says on standard error is never shown or logged: either may hold the secret.
"""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from engines.errors import ConnectFailed

_TIMEOUT_S = 30.0
_UNSAID_S = 300.0
"""How long a key is kept whose end is not told."""
_EARLY_S = 60.0
"""So long before its end, or at half of its life, another one is asked for."""
_AGAIN_S = 5.0
"""How long a failure is told without running the command again."""
_TOKENS = ("token", "access_token", "accessToken")
_ENDS = ("expires_at", "expires_on", "expirationTimestamp", "token_expiry")
_NESTED = ("status", "credential")
"""Where Kubernetes' ExecCredential and `gcloud config config-helper` have them."""


LATELY: deque[str] = deque(maxlen=256)
"""The latest keys of all commands of this process: upstreams quote them in errors, in which nobody may read them."""


class Unreadable(Exception):
    """What a command printed holds no key."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A key, and when it ends, Unix seconds."""

    key: str = field(repr=False)
    ends_s: float


def printed(output: bytes, now_s: float) -> Printed:
    """The key in what a command printed: a line that is it, or JSON with it and its end. Raises Unreadable.

    JSON as `{"token", "expires_at"}`, OAuth's `{"access_token", "expires_in"}`, `az account get-access-token`,
    `gcloud config config-helper --format json` and Kubernetes' ExecCredential have it.
    """
    text = output.decode("utf-8", "replace").strip()
    if not text.startswith("{"):
        return Printed(_checked(text), now_s + _UNSAID_S)
    try:
        told = json.loads(text)
    except ValueError:
        raise Unreadable("it printed JSON that cannot be read") from None
    told = next((told[name] for name in _NESTED if isinstance(told.get(name), dict)), told)
    key = next((told[name] for name in _TOKENS if isinstance(told.get(name), str)), "")
    return Printed(_checked(key), _end(told, now_s))


def _checked(key: str) -> str:
    if not key:
        raise Unreadable("it printed no token")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise Unreadable("it printed something else than one token, or JSON with a token")
    return key


def _end(told: Mapping[str, Any], now_s: float) -> float:
    seconds = told.get("expires_in")
    if isinstance(seconds, int | float) and math.isfinite(seconds):
        return now_s + seconds
    end = next((told[name] for name in _ENDS if told.get(name) is not None), None)
    if end is None:
        return now_s + _UNSAID_S
    try:
        return float(end)
    except (TypeError, ValueError):
        pass
    try:
        at = datetime.fromisoformat(str(end))
    except ValueError:
        raise Unreadable("it printed a time of its end that is neither ISO 8601 nor Unix seconds") from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


class KeyCommand:
    """The key that a command prints. For one event loop."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        engine: str = "",
        timeout_s: float = _TIMEOUT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`command`: program and arguments; no shell reads them. `engine`: for what is said when it fails."""
        self._command = tuple(command)
        self._engine = engine
        self._timeout_s = timeout_s
        self._clock = clock
        self._kept: Printed | None = None
        self._renew_s = -math.inf
        self._failed = ""
        self._failed_until_s = -math.inf
        self._one_at_a_time = asyncio.Lock()

    async def key(self) -> str:
        """The key. Raises ConnectFailed, in words that hold nothing of what was printed."""
        if self._kept is not None and self._clock() < self._renew_s:
            return self._kept.key
        async with self._one_at_a_time:
            now_s = self._clock()
            if now_s >= self._renew_s and now_s >= self._failed_until_s:
                await self._renew(now_s)
            if self._kept is not None and now_s < self._kept.ends_s:
                return self._kept.key
        program = PurePath(self._command[0]).name
        raise ConnectFailed(f"The command {program!r} gave no key: {self._failed}.", engine=self._engine)

    async def _renew(self, now_s: float) -> None:
        try:
            found = printed(await self._output(), now_s)
            if found.ends_s <= now_s:
                raise Unreadable("the token that it printed has ended")
        except Unreadable as error:
            self._failed, self._failed_until_s = str(error), now_s + _AGAIN_S
            return
        self._kept = found
        if found.key not in LATELY:
            LATELY.append(found.key)
        life_s = found.ends_s - now_s
        self._renew_s = found.ends_s - min(_EARLY_S, life_s / 2)

    async def _output(self) -> bytes:
        """On a thread: a client that leaves meanwhile ends nothing."""
        try:
            ended = await asyncio.to_thread(
                subprocess.run,
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=self._timeout_s,
                check=False,
            )
        except OSError as error:
            raise Unreadable(f"it cannot be run ({error.strerror or type(error).__name__})") from None
        except subprocess.TimeoutExpired:
            raise Unreadable(f"it had not ended after {self._timeout_s:g} s") from None
        if ended.returncode:
            raise Unreadable(f"it exited with status {ended.returncode}")
        return ended.stdout
