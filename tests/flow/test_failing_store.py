"""A store that fails is bypassed: requests are answered, what must be stored is a 503, `/readyz` and the log tell why."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from structlog.testing import capture_logs

from store import Store
from tests.flow.line import Got, Line, line, upstream
from tests.flow.process import ran
from tests.flow.test_line_keys import keys_of, new_key
from tests.patience import until
from tests.store.behind import database
from understudy.commands.keys import keys

SAID = {"thumb": "up"}


class Place:
    """A gateway with a key, and an answer that feedback may be given on."""

    def __init__(self, gate: Line, secret: str) -> None:
        self.gate = gate
        self.headers = {"Authorization": f"Bearer {secret}"}
        self.decision = ""

    @property
    def store(self) -> Store:
        assert self.gate.gateway.memory is not None
        return self.gate.gateway.memory.store

    async def post(self, path: str, body: Mapping[str, Any]) -> Got:
        """POST, without waiting until what came of it is stored: it may never be."""
        sent = self.headers | {"Content-Type": "application/json"}
        async with self.gate.session.post(
            self.gate.url + path, data=json.dumps(body), headers=sent
        ) as response:
            return Got(response.status, response.headers.copy(), await response.read())

    async def say(self) -> Got:
        return await self.post("/feedback", {"decision_id": self.decision} | SAID)

    async def ready(self) -> tuple[int, dict[str, Any]]:
        async with self.gate.session.get(self.gate.url.removesuffix("/v1") + "/readyz") as response:
            return response.status, await response.json()

    async def degraded(self, why: str) -> None:
        """Wait until `/readyz` says why; requests are served all the same."""
        last: dict[str, Any] = {}

        async def told() -> bool:
            nonlocal last
            status, last = await self.ready()
            assert status == 200
            return last["status"] == "degraded" and any(why in problem for problem in last["problems"])

        for _ in range(1200):
            if await told():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(last)

    async def answers(self) -> None:
        """Chat and embeddings are answered, to who has a key and to nobody else."""
        for number in range(3):
            body = {"model": "gpt-4o", "messages": [{"role": "user", "content": f"Q {number} {time.time()}"}]}
            assert (await self.post("/chat/completions", body)).status == 200
            assert (await self.post("/embeddings", {"model": "m", "input": "x"})).status == 200
        self.headers, mine = {"Authorization": "Bearer us-wrong"}, self.headers
        assert (await self.post("/embeddings", {"model": "m", "input": "x"})).status == 401
        self.headers = mine

    async def stores_nothing(self) -> None:
        example = {"messages": [{"role": "user", "content": "What is it?"}], "answer": "It is that."}
        for got in await asyncio.gather(self.say(), self.post("/examples", example)):
            assert got.status == 503, got.body
            assert got.json["error"]["code"] == "store_unavailable" and int(got.headers["Retry-After"]) > 0


@asynccontextmanager
async def place(data: Path) -> AsyncIterator[Place]:
    async with upstream() as behind:
        engine = {"base_url": behind.url, "advanced": {"attempts": 1}}
        config = {
            "upstream": {"base_url": behind.url},
            "engines": {"large": engine},
            "models": {"gpt-4o": {"engines": ["large"]}},
            "memory": {"data_dir": str(data)},
        }
        async with line(config) as gate:
            made = Place(gate, await new_key(gate, "acme"))
            keys_of(gate)._generation._check_every_s = 0.0
            body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "What is it?"}]}
            first = await made.post("/chat/completions", body)
            made.decision = first.headers["x-understudy-decision-id"]
            await gate.settled()
            yield made


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
    if subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """A file that takes all of the disk that is left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return filler


async def test_a_full_disk_is_told_in_words_and_stops_no_request(small_disk: Path) -> None:
    async with place(small_disk / "data") as here:
        ready = (await here.ready())[1]
        assert (ready["status"], ready["problems"]) == ("ok", [])
        filler = fill(small_disk)
        with capture_logs() as logs:
            await here.answers()
            await here.stores_nothing()
            fresh = await here.post(
                "/chat/completions",
                {"model": "gpt-4o", "messages": [{"role": "user", "content": "And now?"}]},
            )
            kept, here.decision = here.decision, fresh.headers["x-understudy-decision-id"]
            said = await here.say()
            assert (said.status, said.json["error"]["code"]) == (503, "store_busy"), (
                "a 404 is not asked again"
            )
            assert int(said.headers["Retry-After"]) > 0
            here.decision = kept
            await here.degraded("disk full")
        assert [entry["reason"] for entry in logs if entry["event"] == "store_cannot_write"] == ["disk full"]
        filler.unlink()
        assert (await here.say()).status == 201
        await here.answers()
        said = (await here.ready())[1]
        assert (said["status"], said["problems"]) == ("ok", [])


@pytest.mark.slow
async def test_a_database_that_another_process_has_locked_is_waited_for_five_seconds_at_most(
    tmp_path: Path,
) -> None:
    async with place(tmp_path / "data") as here:
        other = sqlite3.connect(tmp_path / "data" / "understudy.db", isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        await here.stores_nothing()
        took_s = time.monotonic() - began
        assert 4.0 < took_s < 10.0, "five seconds, and some for a busy machine"
        await here.answers()
        await here.degraded("lock")
        other.execute("ROLLBACK")
        other.close()
        await until(lambda: here.store.pending == 0, "what waited is written")
        assert (await here.say()).status in (200, 201), "the same again is the same feedback"
        assert len(here.store.outcomes.feedback.of(here.store.tenants()[0], here.decision)) == 1


@pytest.mark.slow
async def test_feedback_on_an_answer_that_is_not_written_yet_is_told_to_come_again(tmp_path: Path) -> None:
    """404 would tell an SDK to give up. A reader may read while another process holds only the lock to write."""
    async with place(tmp_path / "data") as here:
        with opened(tmp_path / "data") as other:
            other.execute("BEGIN IMMEDIATE")
            body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "And what is this?"}]}
            answered = await here.post("/chat/completions", body)
            here.decision = answered.headers["x-understudy-decision-id"]
            early = await here.say()
            other.execute("ROLLBACK")
        assert (early.status, early.json["error"]["code"]) == (503, "store_busy")
        assert int(early.headers["Retry-After"]) > 0
        await here.gate.settled()
        assert (await here.say()).status == 201
        here.decision = "0" * 24
        assert (await here.say()).json["error"]["code"] == "answer_not_found"


async def test_a_database_torn_under_a_running_gateway_stops_no_request(tmp_path: Path) -> None:
    async with place(tmp_path / "data") as here:
        await asyncio.to_thread(database(here.store).scrub().result, 30)
        file = tmp_path / "data" / "understudy.db"
        with file.open("r+b") as torn:
            torn.write(b"\xff" * file.stat().st_size)
        await here.answers()
        await here.stores_nothing()
        await here.degraded("restore it from a copy")
        await here.answers()


async def test_a_data_folder_deleted_under_a_running_gateway_stops_no_request(tmp_path: Path) -> None:
    async with place(tmp_path / "data") as here:
        shutil.rmtree(tmp_path / "data")
        await here.answers()
        assert (await here.say()).status == 503
        await here.degraded("understudy.db is gone")


# ---- what is found at the start


@contextmanager
def opened(data: Path) -> Iterator[sqlite3.Connection]:
    db = sqlite3.connect(data / "understudy.db", isolation_level=None)
    yield db
    db.close()


def foreign(data: Path) -> None:
    for file in data.iterdir():
        file.unlink()
    with opened(data) as db:
        db.execute("CREATE TABLE recipes (name TEXT)")


def torn(data: Path) -> None:
    (data / "understudy.db").write_bytes((data / "understudy.db").read_bytes()[:5000])


def no_database(data: Path) -> None:
    (data / "understudy.db").write_bytes(b"somebody's letters" * 1000)


def newer(data: Path) -> None:
    with opened(data) as db:
        db.execute("PRAGMA user_version = 9999")


def incomplete(data: Path) -> None:
    with opened(data) as db:
        db.execute("DROP TABLE api_keys")


def without_secret(data: Path) -> None:
    (data / "secret").unlink()


HURT = {
    foreign: "another program's",
    torn: "restore it from a copy",
    no_database: "restore it from a copy",
    newer: "later version",
    incomplete: "has lost api_keys",
    without_secret: "secret is missing",
}


@pytest.mark.slow
@pytest.mark.parametrize("hurt", HURT, ids=lambda hurt: hurt.__name__)
def test_a_folder_that_cannot_be_used_is_refused_with_the_remedy(tmp_path: Path, hurt: Any) -> None:
    data = tmp_path / "data"
    Store.open(data).close()
    hurt(data)
    before = {path.name: path.read_bytes() for path in data.iterdir()}
    status, _, said = ran(
        *(
            "serve",
            "--admin",
            "off",
            "--upstream",
            "http://127.0.0.1:1/v1",
            "--port",
            "0",
            "--data",
            str(data),
        )
    )
    assert status == 2 and "cannot start" in said and "Traceback" not in said
    for done in (
        CliRunner().invoke(keys, ["list", "--data", str(data)]),
        CliRunner().invoke(keys, ["create", "--data", str(data)]),
    ):
        assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1
        assert HURT[hurt] in done.stderr and ("copy" in done.stderr or "move" in done.stderr)
    assert HURT[hurt] in said
    assert (data / "understudy.db").read_bytes() == before["understudy.db"]


def test_a_damage_that_is_met_only_later_is_one_line_too(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    with opened(tmp_path) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'api_keys'").fetchone()
    with (tmp_path / "understudy.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    done = CliRunner().invoke(keys, ["list", "--data", str(tmp_path)])
    assert done.exit_code == 2 and len(done.stderr.splitlines()) == 1 and "restore it" in done.stderr
