"""`understudy import` and `export`: nothing twice, nothing lost, nothing under the wrong tenant."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
import shlex
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tests.flow.process import command
from tests.flow.test_line_examples import ALIKE, QUESTION, stage
from tests.patience import PATIENCE_S
from understudy.commands.export import export
from understudy.commands.import_files import import_
from understudy.commands.keys import keys

COMMANDS: dict[str, click.Command] = {"import": import_, "export": export, "keys": keys}
UNKEPT = {"Cache-Control": "no-store"}


def run(*arguments: str | Path, input: bytes | None = None) -> Result:
    name, *rest = (str(a) for a in arguments)
    return CliRunner().invoke(COMMANDS[name], rest, input=input)


def load(*arguments: str | Path, input: bytes | None = None) -> Result:
    """Import for the tenant of clients that need no credential, as in tests/flow/line.py."""
    return run("import", *arguments, "--tenant", "default", input=input)


def fine_tuning(question: str, answer: str = "An answer.", system: str = "") -> dict[str, Any]:
    lead = [{"role": "system", "content": system}] if system else []
    return {
        "messages": [*lead, {"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    }


def write(path: Path, *lines: object) -> Path:
    content = "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def rows(data: Path, columns: str = "question, answer") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(data / "understudy.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        sql = f"SELECT {columns} FROM examples JOIN example_accounts USING (id) ORDER BY id"
        return db.execute(sql).fetchall()


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.jsonl.gz"])
def test_what_is_imported_twice_is_kept_once(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, *(fine_tuning(f"Question {i}?") for i in range(30)))
    first = load(file, "--data", tmp_path / "data")
    assert first.exit_code == 0 and "30 added" in first.stdout, first.output
    again = load(file, "--data", tmp_path / "data")
    assert (
        again.exit_code == 0
        and "0 added" in again.stdout
        and "30 lines done by an earlier run" in again.stdout
    )
    anew = load(file, "--data", tmp_path / "data", "--again")
    assert anew.exit_code == 0 and "0 added; 30 known" in anew.stdout
    assert len(rows(tmp_path / "data")) == 30


def test_a_file_that_grew_adds_only_what_is_new(tmp_path: Path) -> None:
    lines = [fine_tuning(f"Question {i}?") for i in range(20)]
    load(write(tmp_path / "f", *lines[:12]), "--data", tmp_path / "data")
    grown = load(write(tmp_path / "f", *lines), "--data", tmp_path / "data")
    assert "8 added; 12 known" in grown.stdout
    assert [q for q, _ in rows(tmp_path / "data")] == [f"Question {i}?" for i in range(20)]


def test_standard_input_is_read_too(tmp_path: Path) -> None:
    result = load("-", "--data", tmp_path / "data", input=json.dumps(fine_tuning("Q one?")).encode())
    assert result.exit_code == 0 and rows(tmp_path / "data") == [("Q one?", "An answer.")]


def test_a_bad_line_never_stops_the_others_and_is_named(tmp_path: Path) -> None:
    file = write(
        tmp_path / "f",
        fine_tuning("Question one?"),
        "{not json",
        '{"messages": [], "messages": []}',
        {"prompt": "old", "completion": "format"},
        fine_tuning("Question two?", answer=""),
        [fine_tuning("Question three?")],
        fine_tuning("Question four?"),
    )
    result = load(file, "--data", tmp_path / "data")
    assert result.exit_code == 0 and "2 added" in result.stdout and "4 not understood" in result.stdout
    assert "1 not admitted (1 empty)" in result.stdout
    for number, says in ((2, "not valid JSON"), (3, "twice"), (4, "its keys are"), (5, "(empty)"), (6, "jq")):
        (line,) = [x for x in result.stderr.splitlines() if x.startswith(f"{file}:{number}:")]
        assert says in line
    assert load(file, "--data", tmp_path / "data", "--again", "--strict").exit_code == 1


def test_a_file_without_anything_usable_ends_with_status_1(tmp_path: Path) -> None:
    assert load(write(tmp_path / "f", {"a": 1}), "--data", tmp_path / "data").exit_code == 1
    assert load(tmp_path / "missing", "--data", tmp_path / "data").exit_code == 2


def test_a_tenant_mistyped_gets_nothing(tmp_path: Path) -> None:
    data, file = tmp_path / "data", write(tmp_path / "f", fine_tuning("Question?"))
    assert run("keys", "create", "--data", data, "--tenant", "acme", "--name", "k").exit_code == 0
    typo = run("import", file, "--data", data, "--tenant", "amce")
    assert typo.exit_code == 2 and "acme" in typo.stderr
    nobody = run("import", file, "--data", data)
    assert nobody.exit_code == 2 and "--tenant" in nobody.stderr
    assert not rows(data)
    assert run("import", file, "--data", data, "--tenant", "acme").exit_code == 0
    assert len(rows(data)) == 1


def test_without_keys_nobody_is_guessed_at_and_the_remedy_is_told(tmp_path: Path) -> None:
    data, file = tmp_path / "data", write(tmp_path / "f", *[fine_tuning("Question?")] * 3)
    nobody = run("import", file, "--data", data)
    assert nobody.exit_code == 2 and nobody.stderr.count("--client-key") == 1, nobody.stderr
    assert not rows(data)


async def test_what_is_imported_for_a_client_without_gateway_keys_is_found_by_its_sdk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "f", fine_tuning(QUESTION, "Use find."))
    monkeypatch.setenv("CLIENTS_KEY", "sk-alice")
    arguments = ("import", file, "--data", tmp_path / "data", "--client-key", "CLIENTS_KEY")
    done = await asyncio.to_thread(run, *arguments)
    assert done.exit_code == 0 and "1 added; 0 known already; tenant id:" in done.stdout, done.output
    async with stage(tmp_path / "data") as here:
        alice, bob = {"Authorization": "Bearer sk-alice"}, {"Authorization": "Bearer sk-bob"}
        async with asyncio.timeout(PATIENCE_S):
            while (await here.gate.chat(ALIKE, UNKEPT | alice)).headers["x-understudy-engine"] != "small":
                await asyncio.sleep(0.05)
        assert (await here.gate.chat(ALIKE, UNKEPT | bob)).headers["x-understudy-engine"] == "large"


def test_a_clients_key_that_is_a_gateway_key_names_its_tenant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, file = tmp_path / "data", write(tmp_path / "f", fine_tuning("Question?"))
    secret = run("keys", "create", "--data", data, "--tenant", "acme", "--name", "k").stdout.strip()
    monkeypatch.setenv("CLIENTS_KEY", secret)
    assert run("import", file, "--data", data, "--client-key", "CLIENTS_KEY").exit_code == 0
    assert run("export", "--data", data, "--tenant", "acme").stdout.count("Question?") >= 1
    for value in ("us-unknown", ""):
        monkeypatch.setenv("CLIENTS_KEY", value)
        assert run("import", file, "--data", data, "--client-key", "CLIENTS_KEY").exit_code == 2


async def test_the_first_key_says_what_it_leaves_behind_and_how_to_bring_it_along(tmp_path: Path) -> None:
    data, alice = tmp_path / "data", {"Authorization": "Bearer sk-alice"}
    async with stage(data, memory={"data_dir": str(data), "exact": {"enabled": True}}) as here:
        await here.gate.chat(QUESTION, alice)
        await here.gate.chat("Who are you?", alice, user="ann")
    made = await asyncio.to_thread(run, "keys", "create", "--data", data, "--tenant", "acme")
    said = re.search(r"Left behind: 2 examples and 2 exact answers of tenant (id:[0-9a-f]{32})", made.stderr)
    assert said is not None, made.stderr
    (commands,) = [each for each in made.stderr.splitlines() if each.startswith("  understudy")]
    for each in commands.replace("moved.jsonl", str(tmp_path / "moved.jsonl")).split("&&"):
        await asyncio.to_thread(run, *shlex.split(each.replace("id:HEX", said[1]))[1:])
    async with stage(data) as here:
        got = await here.gate.chat(ALIKE, {"Authorization": f"Bearer {made.stdout.strip()}"})
        assert got.headers["x-understudy-engine"] == "small"
    second = await asyncio.to_thread(run, "keys", "create", "--data", data, "--tenant", "acme")
    assert "Left behind" not in second.stderr
    with closing(sqlite3.connect(data / "understudy.db")) as db:
        moved = "SELECT question FROM examples WHERE tenant <> ? ORDER BY id"
        assert db.execute(moved, (said[1].removeprefix("id:"),)).fetchall() == [(QUESTION,)]


def test_a_batchs_answers_are_never_joined_with_another_request(tmp_path: Path) -> None:
    def asked(i: int) -> dict[str, Any]:
        body = {"messages": [{"role": "user", "content": f"Question number {i}?"}]}
        return {"custom_id": f"r-{i}", "method": "POST", "url": "/v1/chat/completions", "body": body}

    def answered(i: int) -> dict[str, Any]:
        choice = {"message": {"role": "assistant", "content": f"Answer {i}."}, "finish_reason": "stop"}
        return {"custom_id": f"r-{i}", "response": {"status_code": 200, "body": {"choices": [choice]}}}

    order = list(range(20))
    random.Random(5).shuffle(order)
    asks = write(tmp_path / "in.jsonl", *(asked(i) for i in range(20)))
    answers = write(tmp_path / "out.jsonl", *(answered(i) for i in [*order, 99]))
    result = load(asks, answers, "--data", tmp_path / "data")
    assert "20 added" in result.stdout and "'r-99'" in result.stderr
    assert all(q.split()[-1].strip("?") == a.split()[-1].strip(".") for q, a in rows(tmp_path / "data"))
    assert "20 known" in load(asks, answers, "--data", tmp_path / "data", "--again").stdout
    alone = load(write(tmp_path / "out2.jsonl", answered(1)), "--data", tmp_path / "data")
    assert alone.exit_code == 1 and "input file before its output" in alone.stderr


async def test_an_export_holds_all_that_an_import_needs(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    async with stage(one) as here:
        await here.gate.chat(QUESTION)
        body = {"messages": [{"role": "user", "content": "Who are you?"}], "answer": "Me.", "pinned": True}
        await here.gate.post("/examples", body)
    exported = await asyncio.to_thread(run, "export", "--data", one, "-o", tmp_path / "out.jsonl.gz")
    assert exported.exit_code == 0 and "2 examples of 1 tenants" in exported.stderr
    imported = await asyncio.to_thread(load, tmp_path / "out.jsonl.gz", "--data", two)
    assert "2 added" in imported.stdout
    kept = (
        "tenant, request_id, scope, question, answer, embedded_text, vector, embedding_version, source_engine,"
        " prompt_tokens, completion_tokens, kind, pinned, contributor, uses, last_used_at_s, used, merged, flagged,"
        " created_at_s"
    ).replace("tenant", "examples.tenant", 1)
    assert rows(one, kept) == rows(two, kept)
    async with stage(two) as here:
        assert (await here.gate.chat(ALIKE)).headers["x-understudy-engine"] == "small"
    text = await asyncio.to_thread(run, "export", "--data", two, "--no-vectors", "--tenant", "default")
    assert [json.loads(line)["vector"] for line in text.stdout.splitlines()] == [None, None]


@pytest.mark.slow
async def test_a_running_gateway_takes_up_what_is_imported_beside_it(tmp_path: Path) -> None:
    file = write(tmp_path / "f", fine_tuning(QUESTION, "Use find."))
    async with stage(tmp_path / "data") as here:
        assert (await here.gate.chat(ALIKE, UNKEPT)).headers["x-understudy-engine"] == "large"
        result = await asyncio.to_thread(load, file, "--data", tmp_path / "data", "--embed")
        assert result.exit_code == 0, result.output
        async with asyncio.timeout(PATIENCE_S):
            while (await here.gate.chat(ALIKE, UNKEPT)).headers["x-understudy-engine"] != "small":
                await asyncio.sleep(0.05)
        assert "Use find." in [m["content"] for m in here.small.asked[0].json["messages"]]


async def test_what_is_imported_without_a_vector_is_embedded_by_the_next_gateway(tmp_path: Path) -> None:
    file = write(tmp_path / "f", fine_tuning(QUESTION, "Use find."))
    await asyncio.to_thread(load, file, "--data", tmp_path / "data")
    assert rows(tmp_path / "data", "vector") == [(None,)]
    async with stage(tmp_path / "data") as here:
        async with asyncio.timeout(PATIENCE_S):
            while (await here.gate.chat(ALIKE, UNKEPT)).headers["x-understudy-engine"] != "small":
                await asyncio.sleep(0.05)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("lives", [1, pytest.param(25, marks=pytest.mark.slow)])
def test_kill_9_at_any_point_of_an_import_loses_nothing_and_repeats_nothing(
    tmp_path: Path, lives: int
) -> None:
    count, data = 2000, tmp_path / "data"
    file = write(
        tmp_path / "f.gz", *(fine_tuning(f"Question number {i}?", f"Answer {i}.") for i in range(count))
    )
    draw, before = random.Random(lives), 0
    for _ in range(lives):
        process = subprocess.Popen(
            command("import", str(file), "--data", str(data), "--tenant", "default"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Killed while it starts, while it reads, while it commits: wherever the database has just got to.
        stop_at = before + draw.randrange(count // lives)
        while process.poll() is None and stored(data) < stop_at:
            time.sleep(0.002)
        time.sleep(draw.random() * 0.05)
        process.kill()
        process.wait()
        assert stored(data) >= before, "what was committed is there"
        before = stored(data)
    subprocess.run(
        command("import", str(file), "--data", str(data), "--tenant", "default"),
        capture_output=True,
        check=True,
    )
    assert [q for q, _ in rows(data)] == [f"Question number {i}?" for i in range(count)]


def stored(data: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{data / 'understudy.db'}?mode=ro", uri=True)) as db:
            (count,) = db.execute("SELECT count(*) FROM examples").fetchone()
            return int(count)
    except sqlite3.OperationalError:
        return 0
