"""`understudy export`: what workflows have kept, and the log of requests, whole and of the tenant that was named."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pyarrow.parquet
import pytest
from click.testing import CliRunner

from store import Store
from store.decisions.texts import RequestTexts
from store.workflows.assets import NewText
from tests.store.rows import request_record
from understudy.commands import export as module
from understudy.commands.export import export

CANARY = "zq-canary-55"


def test_collections_are_written_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAGE", 2)
    store = Store.open(tmp_path)
    acme = store.keys.create("acme", "laptop")[0].tenant
    for tenant, name, texts in ((acme, "papers", "abc"), (acme, "notes", "d"), ("other", "papers", "e")):
        made = [NewText(text, b"\0\0\x80?") for text in texts]
        store.runs.assets.add_texts(tenant, name, made, identity="bge", now_s=1000.0).result(30)
    store.close()
    where = ["--data", str(tmp_path), "--collections"]
    everything = CliRunner().invoke(export, [*where, "--no-vectors"])
    assert sorted(json.loads(line)["text"] for line in everything.stdout.splitlines()) == [*"abcde"]
    file = tmp_path / "out.jsonl.gz"
    done = CliRunner().invoke(export, [*where, "--tenant", "acme", "-o", str(file)])
    assert done.stderr == "4 texts of 1 tenants\n"
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert lines[0] == {
        "tenant": acme,
        "collection": "notes",
        "text": "d",
        "embedder": "bge",
        "vector": base64.b64encode(b"\0\0\x80?").decode(),
    }


def test_requests_are_rows_without_texts_unless_they_are_asked_for(tmp_path: Path) -> None:
    filled(tmp_path)
    where = ["requests", "--data", str(tmp_path)]
    done = CliRunner().invoke(export, where)
    assert (done.exit_code, done.stderr) == (0, "3 requests\n")
    first, *_ = rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["id"] for row in rows] == ["req-1", "req-2", "req-3"]
    assert (first["tenant_name"], first["model"], first["example_ids"]) == ("acme", "gpt-4o", [3, 5])
    assert first["stages_ms"] == {"exact": 0.1} and first["tried"] == [{"engine": "large"}]
    assert first["started_at"].startswith("1970-01-01T00:00:01")
    assert CANARY not in done.stdout and "exact_key" not in first
    whole = CliRunner().invoke(export, [*where, "--content"])
    first, second, _ = (json.loads(line) for line in whole.stdout.splitlines())
    assert first["question"] == f"What is {CANARY}?" and first["messages"][0]["role"] == "user"
    assert second["messages"] is None, "nothing is kept of it"
    of_one = CliRunner().invoke(export, [*where, "--tenant", "acme", "--since", "1970-01-01T00:00:02"])
    assert [json.loads(line)["id"] for line in of_one.stdout.splitlines()] == ["req-2"]


def test_parquet_holds_the_same_rows(tmp_path: Path) -> None:
    filled(tmp_path)
    file = tmp_path / "requests.parquet"
    where = ["requests", "--data", str(tmp_path), "-o", str(file)]
    assert CliRunner().invoke(export, where).stderr == "3 requests\n"
    assert CANARY.encode() not in file.read_bytes()
    table = pyarrow.parquet.read_table(file)
    assert table.column("example_ids").to_pylist()[0] == [3, 5]
    assert table.column("cost_usd").to_pylist() == [0.25, None, 0.25], "unpriced is not 0"
    assert json.loads(table.column("stages_ms").to_pylist()[0]) == {"exact": 0.1}
    assert CliRunner().invoke(export, [*where, "--content"]).exit_code == 0
    messages = pyarrow.parquet.read_table(file).column("messages").to_pylist()
    assert json.loads(messages[0])[0]["content"] == f"What is {CANARY}?" and messages[1] is None
    assert file.stat().st_mode & 0o077 == 0, "for its owner only"
    refused = CliRunner().invoke(export, ["requests", "--data", str(tmp_path), "--format", "parquet"])
    assert refused.exit_code == 2 and "name a file" in refused.stderr


def test_options_of_requests_mean_nothing_to_examples(tmp_path: Path) -> None:
    filled(tmp_path)
    refused = CliRunner().invoke(export, ["--data", str(tmp_path), "--content"])
    assert refused.exit_code == 2 and "export requests" in refused.stderr


def filled(data: Path) -> None:
    store = Store.open(data)
    acme = store.keys.create("acme", "laptop")[0].tenant
    told = {
        "model": "gpt-4o",
        "example_ids": (3, 5),
        "stages_ms": json.dumps({"exact": 0.1}),
        "trail": json.dumps({"tried": [{"engine": "large"}], "error": f"no {CANARY} here"}),
        "exact_key": b"k",
    }
    for number, more in enumerate(({}, {"cost_usd": None}, {"tenant": "b2"}), 1):
        row = {"tenant": acme, "cost_usd": 0.25, **told, **more, "started_at_s": float(number)}
        store.decisions.requests.record(request_record(number, **row)).result(30)
    texts = RequestTexts(
        acme,
        "req-1",
        "someone",
        1.0,
        question=f"What is {CANARY}?",
        messages=({"role": "user", "content": f"What is {CANARY}?"},),
    )
    store.decisions.texts.keep(texts).result(30)
    store.close()
