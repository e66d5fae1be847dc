"""Keys that a command prints: every cloud's form, kept until shortly before their end, and nothing of them in errors."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engines.errors import ConnectFailed
from engines.key_command import KeyCommand, Unreadable, printed

NOW = 1_800_000_000.0
SECRET = "t0ken-that-nobody-may-see"


@pytest.mark.parametrize(
    ("told", "ends_s"),
    [
        (SECRET, NOW + 300),
        ({"token": SECRET}, NOW + 300),
        ({"token": SECRET, "expires_at": NOW + 900}, NOW + 900),
        ({"token": SECRET, "expires_at": "2027-01-15T09:00:00Z"}, 1_800_003_600),
        ({"access_token": SECRET, "expires_in": 3600, "token_type": "Bearer"}, NOW + 3600),
        ({"accessToken": SECRET, "expiresOn": "2027-01-15 10:00:00.0", "expires_on": NOW + 60}, NOW + 60),
        ({"credential": {"access_token": SECRET, "token_expiry": "2027-01-15T09:00:00Z"}}, 1_800_003_600),
        (
            {
                "kind": "ExecCredential",
                "status": {"token": SECRET, "expirationTimestamp": "2027-01-15T09:00:00Z"},
            },
            1_800_003_600,
        ),
    ],
)
def test_every_form_is_read(told: Any, ends_s: float) -> None:
    found = printed((told if isinstance(told, str) else json.dumps(told)).encode() + b"\n", NOW)
    assert (found.key, found.ends_s) == (SECRET, ends_s) and SECRET not in repr(found)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "two\nlines",
        f"token: {SECRET}",
        "{",
        "{}",
        '{"token": 7}',
        "\x1b[31mred",
        '{"token": "a", "expires_at": "soon"}',
    ],
)
def test_what_holds_no_key_is_told_without_repeating_it(output: str) -> None:
    with pytest.raises(Unreadable) as refused:
        printed(output.encode(), NOW)
    assert SECRET not in str(refused.value)


class Clock:
    def __init__(self) -> None:
        self.now_s = NOW

    def __call__(self) -> float:
        return self.now_s


def counting(folder: Path, lives_s: float) -> list[str]:
    """A command that prints `key-1`, then `key-2` and so on, and fails while the file `fails` is there."""
    code = (
        "import json, pathlib, sys\n"
        f"here = pathlib.Path({str(folder)!r})\n"
        f"if (here / 'fails').exists(): sys.exit('{SECRET}')\n"
        "runs = here / 'runs'\n"
        "number = int(runs.read_text()) + 1 if runs.exists() else 1\n"
        "runs.write_text(str(number))\n"
        f"print(json.dumps({{'token': f'key-{{number}}', 'expires_in': {lives_s}}}))\n"
    )
    return [sys.executable, "-c", code]


async def test_a_key_is_kept_until_shortly_before_its_end_and_asked_for_once(tmp_path: Path) -> None:
    clock = Clock()
    keys = KeyCommand(counting(tmp_path, 3600), clock=clock)
    assert await asyncio.gather(*(keys.key() for _ in range(5))) == ["key-1"] * 5
    clock.now_s += 3500
    assert await keys.key() == "key-1"
    clock.now_s += 50
    assert await keys.key() == "key-2"


async def test_while_the_command_fails_the_old_key_serves_to_its_end(tmp_path: Path) -> None:
    clock = Clock()
    keys = KeyCommand(counting(tmp_path, 3600), engine="cloud", clock=clock)
    assert await keys.key() == "key-1"
    (tmp_path / "fails").touch()
    clock.now_s += 3550
    assert await keys.key() == "key-1"
    clock.now_s += 60
    with pytest.raises(ConnectFailed, match="exited with status 1") as failed:
        await keys.key()
    assert (failed.value.status, failed.value.engine) == (502, "cloud") and SECRET not in str(failed.value)
    (tmp_path / "fails").unlink()
    with pytest.raises(ConnectFailed):
        await keys.key()
    clock.now_s += 6
    assert await keys.key() == "key-2"


async def test_a_command_that_is_not_there_or_hangs_is_told() -> None:
    with pytest.raises(ConnectFailed, match="'nowhere' gave no key: it cannot be run"):
        await KeyCommand(["/nowhere"]).key()
    hanging = KeyCommand([sys.executable, "-c", "import time; time.sleep(600)"], timeout_s=0.2)
    with pytest.raises(ConnectFailed, match="had not ended"):
        await hanging.key()


async def test_a_client_that_leaves_does_not_keep_others_from_their_key(tmp_path: Path) -> None:
    keys = KeyCommand(counting(tmp_path, 3600))
    leaves = asyncio.create_task(keys.key())
    await asyncio.sleep(0)
    leaves.cancel()
    assert (await keys.key()).startswith("key-")
