"""Documents of a workflow's call: longer than a value of a client may be, up to the cap of all of them together."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.flow.process import running

CONFIG = """
engines: {reader: {kind: simulated, role: reader, ttft_ms: 1, token_ms: 0}}
models: {reader: {engines: [reader]}}
memory: {data_dir: null}
workflows:
  max_documents_mib: 2
  doc-qa:
    inputs: {question: last_user, documents: texts}
    model: reader
    steps:
      chunks: {split: "{{documents}}", tokens: 4000}
      top:    {rerank: "{{chunks}}", by: "{{question}}", k: 1, component: pretended}
      answer: {chat: "{{question}} {{top}}"}
    output: answer
components: {pretended: {kind: simulated, fixed_ms: 1, item_ms: 0}}
"""


def asked(documents: list[str]) -> dict[str, object]:
    return {
        "model": "doc-qa",
        "messages": [{"role": "user", "content": "What is the colour of the zeppelin?"}],
        "understudy": {"inputs": {"documents": documents}},
    }


@pytest.mark.slow
def test_documents_are_bounded_by_their_own_cap_and_by_no_smaller_one(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    filler = " ".join(f"House {number} has a green door." for number in range(45_000))
    document = f"{filler} The colour of the zeppelin is silver. {filler[:1000]}"
    assert 2**20 < len(document) < 2 * 2**20
    with running("--config", str(config)) as gateway:
        body, headers = gateway.post("/chat/completions", asked([document]))
        said = json.loads(body)["choices"][0]["message"]["content"]
        assert said == "The colour of the zeppelin is silver."
        assert headers["x-understudy-run"].startswith("run_")
        with pytest.raises(HTTPError) as refused:
            gateway.post("/chat/completions", asked([document, document]))
        error = json.loads(refused.value.read())["error"]
    assert (refused.value.code, error["code"]) == (413, "documents_too_large")
    assert error["param"] == "understudy.inputs.documents" and "zeppelin" not in error["message"]
