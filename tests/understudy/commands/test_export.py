"""`understudy export --collections`: what workflows have kept, whole and of the tenant that was named."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from store import Store
from store.workflows.assets import NewText
from understudy.commands import export as module
from understudy.commands.export import export


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
