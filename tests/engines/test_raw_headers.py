"""Heads of requests leave with the bytes that came; none of them can begin a header of its own."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import MagicMock

import pytest
from aiohttp import client_reqrep
from multidict import CIMultiDict

from engines.raw_headers import HeadWriter, install


async def written(**headers: bytes) -> bytes:
    protocol: Any = MagicMock()
    protocol.transport.is_closing.return_value = False
    writer = HeadWriter(protocol, asyncio.get_running_loop())
    said = CIMultiDict({name: value.decode("utf-8", "surrogateescape") for name, value in headers.items()})
    await writer.write_headers("POST / HTTP/1.1", said)
    writer.send_headers()
    (call,) = protocol.transport.write.call_args_list
    return bytes(call.args[0])


async def test_bytes_leave_as_they_came() -> None:
    assert await written(a=b"plain", b=b"caf\xe9", c="café".encode()) == (
        b"POST / HTTP/1.1\r\na: plain\r\nb: caf\xe9\r\nc: caf\xc3\xa9\r\n\r\n"
    )
    assert await written(a=b"plain") == b"POST / HTTP/1.1\r\na: plain\r\n\r\n"


@pytest.mark.parametrize("value", [b"a\r\nX: \xe9", b"\xe9\n", b"\xe9\0", b"a\r\nX: b"])
async def test_what_could_begin_a_header_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="control character"):
        await written(a=value)


def test_aiohttps_client_writes_so() -> None:
    install()
    assert client_reqrep.StreamWriter is HeadWriter  # type: ignore[attr-defined]
