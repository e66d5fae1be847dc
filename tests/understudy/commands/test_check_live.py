"""`check --live` over real sockets: what each engine says, and no key of theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from learning.outcomes.judge_exam import GENERAL
from tests.engines.asking import closed_port
from tests.flow.upstream import Call, Upstream
from understudy.commands.check import check

JSON = [("Content-Type", "application/json")]
KEY = "house-key-canary-1"
MODELS = json.dumps({"object": "list", "data": [{"id": "m"}, {"id": "other"}]}).encode()
ANSWER = json.dumps(
    {"id": "1", "object": "chat.completion", "choices": [{"message": {"content": "yes"}}]}
).encode()


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.close()


def checked(
    folder: Path,
    port: int,
    *options: str,
    model: str = "m",
    judging: dict[str, Any] | None = None,
    **more: Any,
) -> Result:
    config = {
        "engines": {
            "large": {"base_url": f"http://127.0.0.1:{port}/v1", "model": model, "api_key": KEY, **more}
        },
        "models": {"gpt-4o": {"engines": ["large"]}},
        **({"judging": judging, "memory": {"data_dir": str(folder / "data")}} if judging else {}),
    }
    path = folder / "understudy.yaml"
    path.write_text(json.dumps(config))
    result = CliRunner().invoke(check, [str(path), *options])
    assert "canary" not in result.output
    return result


def test_an_engine_that_has_its_model_works(tmp_path: Path, upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(MODELS, 200, JSON))
    found = checked(tmp_path, upstream.port, "--live")
    assert found.exit_code == 0
    assert found.stdout == "ok     engines.large: it answers, and has the model 'm'\n"
    assert [call.line.split()[:2] for call in upstream.calls] == [[b"GET", b"/v1/models"]]
    assert upstream.calls[0].header("authorization") == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, b'{"error": {"message": "house-key-canary-1 is revoked"}}', "its key is refused (401)"),
        (404, b"{}", "is the base URL right, with its /v1?"),
        (500, b"<html>down</html>", "GET /models got 500: <html>down</html>"),
        (200, b"<html>hello</html>", "no OpenAI-compatible API"),
        (200, b'{"data": [{"id": "other"}]}', "its list of models has no 'm', but other"),
    ],
)
def test_an_engine_that_does_not_is_told_with_its_reason(
    tmp_path: Path, upstream: Upstream, status: int, body: bytes, told: str
) -> None:
    upstream.plays(lambda call: call.answer(body, status, JSON))
    found = checked(tmp_path, upstream.port, "--live")
    assert found.exit_code == 1 and found.stdout.startswith("FAILED engines.large: ")
    assert told in found.stdout


def test_nobody_there_is_told(tmp_path: Path) -> None:
    found = checked(tmp_path, closed_port(), "--live")
    assert found.exit_code == 1 and "Connection refused" in found.stdout


def test_a_question_is_asked_only_where_that_is_wanted(tmp_path: Path, upstream: Upstream) -> None:
    def plays(call: Call) -> None:
        call.answer(MODELS if b"/models" in call.line else ANSWER, 200, JSON)

    upstream.plays(plays)
    found = checked(tmp_path, upstream.port, "--ask")
    assert found.exit_code == 0 and "a question at /chat/completions was answered" in found.stdout
    assert [call.line.split()[1] for call in upstream.calls] == [b"/v1/models", b"/v1/chat/completions"]
    assert json.loads(upstream.calls[1].body)["model"] == "m"


@pytest.mark.parametrize(("can", "exit_code"), [(True, 0), (False, 1)])
def test_a_judge_is_examined_where_asking_is_wanted(
    tmp_path: Path, upstream: Upstream, can: bool, exit_code: int
) -> None:
    """It says which known answer is the request's own, or talks of something else."""

    def plays(call: Call) -> None:
        if b"/models" in call.line:
            call.answer(MODELS, 200, JSON)
            return
        messages = json.loads(call.body)["messages"]
        if len(messages) == 1:
            call.answer(ANSWER, 200, JSON)
            return
        shown = messages[1]["content"]
        code = messages[0]["content"].rpartition("SCORE ")[2][:16]
        first, second = (
            shown.split(f"<<<{n} ANSWER {code}>>>\n")[1].split("\n<<<")[0] for n in ("FIRST", "SECOND")
        )
        own = next(k.answer for k in GENERAL if str(k.messages[0]["content"]) in shown)
        score = 0 if first == second else 3 if first == own else -3
        said = f"SCORE {code}: {score}" if can else "What a fine day."
        body = {"choices": [{"index": 0, "message": {"content": said}, "finish_reason": "stop"}]}
        call.answer(json.dumps({"id": "1", "object": "chat.completion", **body}).encode(), 200, JSON)

    upstream.plays(plays)
    found = checked(tmp_path, upstream.port, "--ask", judging={"engine": "large"})
    assert found.exit_code == exit_code
    told = (
        "ok     judge large: it judged 12 of 12" if can else "FAILED judge large: refused: it judged 0 of 1"
    )
    assert told in found.stdout
    verdicts = [call for call in upstream.calls if b"SCORE" in call.body]
    assert len(verdicts) == (12 if can else 1)


def test_a_question_is_asked_in_an_api_that_the_engine_speaks(tmp_path: Path, upstream: Upstream) -> None:
    upstream.plays(lambda call: call.answer(MODELS, 200, JSON))
    found = checked(tmp_path, upstream.port, "--ask", apis=["embeddings"])
    assert found.exit_code == 0
    assert [call.line.split()[1] for call in upstream.calls] == [b"/v1/models", b"/v1/embeddings"]
    assert json.loads(upstream.calls[1].body) == {"model": "m", "input": "Say yes."}
