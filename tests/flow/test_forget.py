"""Deleting: afterwards no file of the data folder holds a word of it, nor its vectors; others lose nothing."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from learning.bank.contributor import contributor, is_from, user_digest, user_of
from store import Store
from store.decisions.outcomes import FeedbackRecord
from store.examples.vectors import from_blob
from tests.flow.line import line, upstream
from tests.flow.test_line_demonstrations import ask, give
from tests.flow.test_line_examples import stage
from tests.flow.test_line_keys import new_key
from tests.patience import PATIENCE_S
from tests.store.rows import choice_record, outcome_record, request_record, unit_vector
from understudy.commands.forget import forget
from understudy.commands.keys import keys

COMMANDS: dict[str, click.Command] = {"forget": forget, "keys": keys}
WITH_EXACT = {"memory": {"exact": {"enabled": True}}}


def run(*arguments: str | Path) -> Result:
    name, *rest = (str(a) for a in arguments)
    return CliRunner().invoke(COMMANDS[name], rest)


def holding(data: Path, wanted: Iterable[bytes]) -> dict[bytes, list[str]]:
    """Which files of the folder hold each of these bytes."""
    files = {p.relative_to(data).as_posix(): p.read_bytes() for p in data.rglob("*") if p.is_file()}
    return {w: [name for name, content in files.items() if w in content] for w in wanted}


def vectors(data: Path, word: str) -> list[bytes]:
    """The vectors of examples and choices with this word, as SQLite keeps them and as the index does (bfloat16)."""
    with closing(sqlite3.connect(data / "understudy.db")) as db:
        blobs, found = (
            [blob for (blob,) in db.execute(query, (f"%{word}%",))]
            for query in (
                "SELECT vector FROM examples WHERE question LIKE ?",
                "SELECT vector FROM choices WHERE completion_id LIKE ?",
            )
        )
    for blob in blobs:
        bits = from_blob(blob).view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        found += [blob, rounded.astype("<u2").tobytes()]
    return found


def known_words(data: Path) -> set[str]:
    """Every word in the indices of words. They share beginnings, so that bytes of a file need not show a word."""
    with closing(sqlite3.connect(data / "understudy.db")) as db:
        known: set[str] = set()
        for table in ("request_words", "example_words"):
            db.execute(f"CREATE VIRTUAL TABLE temp.of_{table} USING fts5vocab(main, {table}, row)")
            known |= {term for (term,) in db.execute(f"SELECT term FROM temp.of_{table}")}
        return known


def teach(data: Path) -> None:
    """For each user a choice with a vector of its own, feedback with a comment, and a version learnt from the tenant."""
    store = Store.open(data)
    tenants = {key.tenant_name: key for key in store.keys.list()}
    for number, (name, user, word) in enumerate(TAUGHT):
        key = tenants[name]
        by = contributor(store.secret, key.tenant, key.id, user)
        fields = {"tenant": key.tenant, "contributor": by, "completion_id": f"chatcmpl-{word}"}
        store.decisions.choices.record(
            choice_record(number, vector=unit_vector(number + 77, 48), **fields)
        ).result(30)
        said = FeedbackRecord(key.tenant, word, "", f"req-{number}", by, 1.0, comment=f"The {word} is right.")
        store.outcomes.feedback.give(said, [outcome_record(number, tenant=key.tenant)]).result(30)
        store.artifacts.publish("bandit", key.tenant, "gpt-4o", f"weights of {name}".encode(), metrics={})
    store.close()


TAUGHT = (("acme", "ann", "annqwertz"), ("acme", "ben", "benasdfgh"), ("umbrella", "ann", "cayyxcvbn"))


async def fill(data: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Two users of one tenant, and another tenant: each with an example, an exact answer and rows in the log."""
    async with stage(data, **WITH_EXACT) as here:
        acme = {"Authorization": f"Bearer {await new_key(here.gate, 'acme')}"}
        umbrella = {"Authorization": f"Bearer {await new_key(here.gate, 'umbrella')}"}
        for headers, user, word in (
            (acme, "ann", "annqwertz"),
            (acme, "ben", "benasdfgh"),
            (umbrella, "ann", "cayyxcvbn"),
        ):
            given = await give(
                here.gate, f"What is a {word}?", f"A {word} is one.", headers=headers, user=user
            )
            assert given.status == 201
            here.large.says = f"The {word} again."
            got = await here.gate.chat(f"Where does the {word} live, of all places?", headers, user=user)
            assert got.status == 200
    await asyncio.to_thread(teach, data)
    return acme, umbrella


@pytest.mark.slow
async def test_a_forgotten_tenant_is_in_no_file_and_the_others_still_are(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await fill(data)
    gone = [b"annqwertz", b"benasdfgh", *vectors(data, "annqwertz"), *vectors(data, "benasdfgh")]
    gone.append(b"weights of acme")
    kept = [b"cayyxcvbn", *vectors(data, "cayyxcvbn"), b"weights of umbrella"]
    assert all(holding(data, [*gone, *kept]).values()), "the search finds what is there"
    assert {"annqwertz", "benasdfgh", "cayyxcvbn"} <= known_words(data)
    done = await asyncio.to_thread(run, "forget", "--data", data, "--tenant", "acme", "--yes")
    assert done.exit_code == 0, done.output
    assert not any(holding(data, gone).values())
    assert all(holding(data, kept).values())
    assert known_words(data).isdisjoint({"annqwertz", "benasdfgh"}) and "cayyxcvbn" in known_words(data)
    with closing(sqlite3.connect(data / "understudy.db")) as db:
        for table in (
            "examples",
            "example_accounts",
            "exact_answers",
            "requests",
            "choices",
            "outcomes",
            "feedback",
            "request_texts",
            "artifacts",
            "example_totals",
            "merged_requests",
        ):
            (tenants,) = db.execute(f"SELECT count(DISTINCT tenant) FROM {table}").fetchone()
            assert tenants == (0 if table == "merged_requests" else 1), table


async def test_a_forgotten_user_is_in_no_file_and_the_others_examples_still_are(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await fill(data)
    gone = [b"annqwertz", *vectors(data, "annqwertz")]
    assert len(gone) == 6 and all(holding(data, gone).values()), (
        "a demonstration, what was observed, a choice"
    )
    done = await asyncio.to_thread(
        run, "forget", "--data", data, "--tenant", "acme", "--user", "ann", "--yes"
    )
    assert done.exit_code == 0 and done.stdout.startswith("2 examples"), done.output
    assert not any(holding(data, gone).values())
    assert all(holding(data, [b"What is a benasdfgh", b"What is a cayyxcvbn"]).values())
    assert done.stdout.startswith("2 examples, 1 exact answers"), "hers"
    assert "nothing of user 'ann' was left" in done.stdout and "Not reached: backups" in done.stdout
    again = await asyncio.to_thread(
        run, "forget", "--data", data, "--tenant", "acme", "--user", "ann", "--yes"
    )
    assert again.stdout.startswith("0 examples, 0 exact answers"), again.output
    assert "annqwertz" not in known_words(data) and {"benasdfgh", "cayyxcvbn"} <= known_words(data)


@pytest.mark.parametrize("examples", [True, False])
async def test_exact_answers_of_other_users_stay_when_one_is_forgotten(
    tmp_path: Path, examples: bool
) -> None:
    data, question = tmp_path / "data", "Where does the annqwertz live, of all places?"
    memory = {
        "exact": {"enabled": True},
        "examples": {"enabled": examples},
        "request_texts": {"enabled": False},
    }
    async with upstream() as behind:
        model = {"engines": ["large"]} | ({} if examples else {"policy": "fixed"})
        config = {
            "upstream": {"base_url": behind.url},
            "engines": {"large": {"base_url": behind.url}},
            "models": {"gpt-4o": model},
            "memory": {"data_dir": str(data), **memory},
        }
        async with line(config) as gate:
            acme = {"Authorization": f"Bearer {await new_key(gate, 'acme')}"}
            vector = {"model": "e", "input": question}
            for user in ("ann", "ben", ""):
                assert not (await gate.chat(question, acme, user=user)).hit
                assert not (await gate.post("/embeddings", vector | {"user": user}, acme)).hit
            done = await asyncio.to_thread(
                run, "forget", "--data", data, "--tenant", "acme", "--user", "ann", "--yes"
            )
            assert "2 exact answers" in done.stdout, done.output
            for user in ("ann", "ben", ""):
                hidden = acme | {"Cache-Control": "no-store"}
                assert (await gate.chat(question, hidden, user=user)).hit is (user != "ann")
                got = await gate.post("/embeddings", vector | {"user": user}, hidden)
                assert got.hit is (user != "ann")


async def test_what_was_made_with_a_forgotten_users_example_goes_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with stage(data, memory={"exact": {"enabled": True}, "partition": "tenant"}) as here:
        acme = {"Authorization": f"Bearer {await new_key(here.gate, 'acme')}"}
        await give(here.gate, "What is a annqwertz?", "A annqwertz is one.", headers=acme, user="ann")
        here.small.says = "The annqwertz is one, says the small one."
        asked = "What is a annqwertz, please?"
        lent = await here.gate.chat(asked, acme, user="ben")
        assert lent.headers["x-understudy-examples"] == "1"
        assert (await here.gate.chat(asked, acme, user="ben")).hit
        assert (await ask(here.gate, "DELETE", "/examples?user=ann", acme)).json["deleted"] == 1
        assert not (await here.gate.chat(asked, acme | {"Cache-Control": "no-store"}, user="ben")).hit


async def test_a_forgotten_key_is_in_no_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await fill(data)
    listed = run("keys", "list", "--data", data).stdout.splitlines()
    (key_id,) = [line.split()[0] for line in listed[1:] if "test" in line][:1]
    words = [b"annqwertz", b"benasdfgh"]
    done = await asyncio.to_thread(run, "forget", "--data", data, "--key", key_id, "--yes")
    assert done.exit_code == 0 and done.stdout.startswith("4 examples"), done.output
    assert not any(holding(data, words).values())
    assert all(holding(data, [b"What is a cayyxcvbn"]).values())
    with closing(sqlite3.connect(data / "understudy.db")) as db:
        assert not db.execute("SELECT 1 FROM requests WHERE key_id = ?", (key_id,)).fetchone()


async def test_a_running_gateway_forgets_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    acme, umbrella = await fill(data)
    async with stage(data, **WITH_EXACT) as here:
        question = "Where does the annqwertz live, of all places?"
        # The upstreams have other ports than before, so the first answer is a fresh one.
        await here.gate.chat(question, acme, user="ann")
        assert (await here.gate.chat(question, acme, user="ann")).hit
        done = await asyncio.to_thread(
            run, "forget", "--data", data, "--tenant", "acme", "--keep-keys", "--yes"
        )
        assert done.exit_code in (0, 1), done.output
        async with asyncio.timeout(PATIENCE_S):
            while (await here.gate.chat(question, acme | {"Cache-Control": "no-store"})).hit:
                await asyncio.sleep(0.05)
        assert (await ask(here.gate, "GET", "/examples", acme)).json["data"] == []
        assert len((await ask(here.gate, "GET", "/examples", umbrella)).json["data"]) >= 1
        hidden = acme | {"Cache-Control": "no-store"}
        got = await here.gate.chat("What is a annqwertz, please?", hidden)
        assert got.headers["x-understudy-examples"] == "0"


async def test_a_user_forgotten_beside_a_running_gateway_is_in_no_file_after_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    acme, _ = await fill(data)
    async with stage(data, **WITH_EXACT) as here:
        others = [f"An entirely different question about the number {i}?" for i in range(12)]
        for question in others:
            assert (await give(here.gate, question, "So it is.", headers=acme, user="ben")).status == 201
        gone = [b"What is a annqwertz", *vectors(data, "What is a annqwertz")]
        done = await asyncio.to_thread(
            run, "forget", "--data", data, "--tenant", "acme", "--user", "ann", "--yes"
        )
        assert done.exit_code == 0, done.output
        await here.gate.settled()
        listed = (await ask(here.gate, "GET", "/examples?limit=100", acme)).json["data"]
        assert {e["question"] for e in listed} >= set(others)
    assert not any(holding(data, gone).values())
    assert all(holding(data, vectors(data, "What is a benasdfgh")).values())


async def test_deleting_over_the_api_takes_the_vectors_out_of_the_files_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    acme, _ = await fill(data)
    gone = [b"What is a annqwertz", *vectors(data, "What is a annqwertz")]
    assert all(holding(data, gone).values())
    async with stage(data, **WITH_EXACT) as here:
        assert (await ask(here.gate, "DELETE", "/examples?user=ann", acme)).json["deleted"] >= 1
    assert not any(holding(data, gone[1:]).values())


def test_forgetting_nobody_in_particular_is_refused(tmp_path: Path) -> None:
    run("keys", "create", "--data", tmp_path, "--tenant", "acme", "--name", "k")
    for arguments in ((), ("--key", "key_nope"), ("--tenant", "amce"), ("--key", "k", "--user", "u")):
        refused = run("forget", "--data", tmp_path, "--yes", *arguments)
        assert refused.exit_code == 2, arguments
    assert run("forget", "--data", tmp_path / "nowhere", "--tenant", "acme", "--yes").exit_code == 2
    for arguments in (("--keep-keys", "--user", "u"), ("--keep-keys", "--key", "k")):
        assert run("forget", "--data", tmp_path, "--yes", *arguments).exit_code == 2, arguments
    unconfirmed = CliRunner().invoke(forget, ["--data", str(tmp_path), "--tenant", "acme"], input="n\n")
    assert unconfirmed.exit_code == 1


def test_forgetting_a_tenant_says_first_what_would_go_and_revokes_its_keys(tmp_path: Path) -> None:
    """Its key said "active" afterwards, and neither the output nor the audit log knew of the deletion."""
    secret = run("keys", "create", "--data", tmp_path, "--tenant", "acme").stdout.strip()
    with closing(Store.open(tmp_path)) as store:
        key = store.keys.lookup(secret)
        assert key is not None
        store.artifacts.publish("bandit", key.tenant, "gpt-4o", b"weights", metrics={})
        store.decisions.requests.record(request_record(1, tenant=key.tenant)).result(30)
    done = CliRunner().invoke(forget, ["--data", str(tmp_path), "--tenant", "acme"], input="acme\n")
    assert done.exit_code == 0, done.output
    assert "1 rows of the request log, 1 versions of what the router learnt" in done.stderr
    assert "1 keys in force are revoked" in done.stderr and "1 keys revoked" in done.stdout
    assert "1 versions of what the router learnt deleted" in done.stdout
    assert "revoked" in run("keys", "list", "--data", tmp_path).stdout
    with closing(Store.open(tmp_path)) as store:
        assert store.keys.lookup(secret) is None
        row = store.audit.page(limit=1)[0]
        assert (row.action, row.target, row.detail["keys"]) == ("tenants/delete", key.tenant, 1)
        assert [one.name for one in store.tenant_records.deleted()] == ["acme"]


def test_forgetting_a_user_says_that_what_was_learnt_went_too_and_names_nobody_in_the_audit_log(
    tmp_path: Path,
) -> None:
    with closing(Store.open(tmp_path)) as store:
        key, _ = store.keys.create("acme", "app")
        ann = contributor(store.secret, key.tenant, key.id, "ann@example.org")
        store.decisions.choices.record(choice_record(1, tenant=key.tenant, contributor=ann)).result(30)
        store.artifacts.publish("bandit", key.tenant, "gpt-4o", b"weights", metrics={})
    done = run("forget", "--data", tmp_path, "--user", "ann@example.org", "--yes")
    assert "1 versions of what the router learnt deleted: it is learnt anew" in done.stdout, done.output
    with closing(Store.open(tmp_path)) as store:
        (row,) = store.audit.page()
        assert (row.action, row.target, row.detail["versions"]) == ("forget", "a user", 1)
        assert "ann" not in json.dumps(dict(row.detail))


@pytest.mark.parametrize("key_id", [None, "key_1"])
def test_a_contributors_name_tells_nothing_and_differs_between_tenants(key_id: str | None) -> None:
    secret = b"s" * 32
    one, two = (contributor(secret, tenant, key_id, "ann@example.org") for tenant in ("acme", "umbrella"))
    assert one != two and "ann" not in one
    assert is_from(one, digest=user_digest(secret, "acme", "ann@example.org"))
    assert not is_from(two, digest=user_digest(secret, "acme", "ann@example.org"))
    assert is_from(one, key_id="key_1") is (key_id is not None)
    assert not is_from(one) and not is_from("", digest="") and not is_from("/", key_id="")
    assert contributor(secret, "acme", None, "") == ""
    assert user_of({"user": "a", "safety_identifier": "b"}) == "b" and user_of({"user": 5}) == ""
