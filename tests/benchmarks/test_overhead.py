"""The benchmark runs, checks what it is told, and would notice a gateway that mixes streams up."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.overhead import load


@pytest.mark.slow
def test_a_quick_run_measures_every_way_for_a_request_to_go(tmp_path: Path) -> None:
    figures_file, table_file = tmp_path / "figures.json", tmp_path / "table.md"
    command = [sys.executable, "-m", "benchmarks.overhead", "--quick", "--json", str(figures_file)]
    only = ("--only", "requests", "--only", "texts", "--only", "runs", "--only", "crowd")
    command += [*only, "--markdown", str(table_file)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 0, ran.stderr
    figures = json.loads(figures_file.read_text())
    requests = figures["requests"]
    ways = {"direct", "relay", "passthrough", "exact", "no_embedding", "warm", "cold"}
    assert set(requests) == ways
    assert all(found["cpu_ms"] > 0 for rounds in requests.values() for found in rounds)
    assert requests["exact"][0]["hit_share"] == 1
    assert requests["no_embedding"][0]["hit_share"] == requests["warm"][0]["hit_share"] == 0
    assert all(figures["texts"][way][0]["offloaded_share"] > 0 for way in ("no_texts", "all_texts"))
    assert figures["runs"]["steps"][0]["cpu_ms"] > 0 and figures["runs"]["gets"][0]["gets"] == 1000
    assert set(figures["crowd"]) == {"relay", "passthrough"}
    assert "gateway, passing through" in table_file.read_text()
    assert "gateway, passing through" in ran.stdout


@pytest.mark.slow
def test_a_key_with_limits_is_measured_beside_one_without(tmp_path: Path) -> None:
    figures_file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.overhead", "--quick", "--json", str(figures_file)]
    command += ["--only", "limits"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 0, ran.stderr
    assert set(json.loads(figures_file.read_text())["limits"]) == {
        "no_limits",
        "limits",
        "limits_two_workers",
    }
    assert "a key and a tenant with limits of every kind" in ran.stdout


@pytest.mark.slow
def test_a_student_is_taught_and_answers_what_is_measured(tmp_path: Path) -> None:
    figures_file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.overhead", "--quick", "--json", str(figures_file)]
    command += ["--only", "student"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert ran.returncode == 0, ran.stderr
    shares = {
        way: rounds[0]["student_share"]
        for way, rounds in json.loads(figures_file.read_text())["student"].items()
    }
    assert shares["through"] == shares["teacher"] == 0
    assert shares["student"] > 0 and shares["student_streams"] > 0
    assert "the student answers" in ran.stdout


async def read_from(answer: bytes) -> list[str]:
    async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(lie, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        streams = await load.read_streams(
            port, streams=1, chunks=3, interval_ms=1, first_id=7, body=lambda _: b"{}", limit_s=10
        )
    wrong: list[str] = streams.wrong
    return wrong


def chunked(*events: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(
        b"%x\r\n%s\r\n" % (len(event), event) for event in events
    )


async def test_a_stream_that_is_whole_in_order_and_its_own_is_accepted() -> None:
    own = [load.event(7, k, 3) for k in range(3)]
    assert await read_from(chunked(*own) + b"0\r\n\r\n") == []


async def test_chunks_out_of_order_are_noticed() -> None:
    own = [load.event(7, k, 3) for k in range(3)]
    [wrong] = await read_from(chunked(own[1], own[0], own[2]) + b"0\r\n\r\n")
    assert "stream 7: differs from byte" in wrong


async def test_a_chunk_of_another_stream_is_noticed() -> None:
    mixed = [load.event(7, 0, 3), load.event(8, 1, 3), load.event(7, 2, 3)]
    [wrong] = await read_from(chunked(*mixed) + b"0\r\n\r\n")
    assert "stream 7: differs from byte" in wrong


async def test_a_stream_cut_short_is_noticed() -> None:
    [wrong] = await read_from(chunked(load.event(7, 0, 3)))
    assert "stream 7: ended after" in wrong


async def test_an_error_instead_of_a_stream_is_noticed() -> None:
    [wrong] = await read_from(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
    assert "stream 7: answered" in wrong
