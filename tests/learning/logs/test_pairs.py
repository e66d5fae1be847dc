"""Which lines of a log are replayed, and in which order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from learning.logs.pairs import read_log


def line(question: str, answer: str = "Yes.", at_s: float | None = None) -> dict[str, Any]:
    response: dict[str, Any] = {"choices": [{"message": {"content": answer}, "finish_reason": "stop"}]}
    if at_s is not None:
        response["created"] = at_s
    return {
        "request": {"model": "m", "messages": [{"role": "user", "content": question}]},
        "response": response,
    }


def written(path: Path, *lines: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return str(path)


def questions(*paths: str, most: int = 100) -> list[str]:
    return [pair.fields["messages"][-1]["content"] for pair in read_log(paths, most=most).pairs]


def test_the_order_is_that_of_the_times(tmp_path: Path) -> None:
    path = written(tmp_path / "a", line("b", at_s=2e9), line("a", at_s=1e9), line("c", at_s=3e9))
    assert questions(path) == ["a", "b", "c"]


def test_lines_without_times_stand_where_they_are(tmp_path: Path) -> None:
    assert questions(written(tmp_path / "a", line("a"), line("b"), line("c"))) == ["a", "b", "c"]


def test_of_too_many_the_latest_are_read(tmp_path: Path) -> None:
    read = read_log([written(tmp_path / "a", line("a"), line("b"), line("c"))], most=2)
    assert [pair.fields["messages"][0]["content"] for pair in read.pairs] == ["b", "c"] and read.older == 1


def test_a_batch_is_joined_with_its_input(tmp_path: Path) -> None:
    asked = line("q")
    put = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": asked["request"]}
    got = {"custom_id": "1", "response": {"status_code": 200, "body": asked["response"]}}
    assert questions(written(tmp_path / "in", put), written(tmp_path / "out", got)) == ["q"]


def test_an_answer_without_text_is_left_out_with_its_reason(tmp_path: Path) -> None:
    read = read_log([written(tmp_path / "a", line("a", answer=" "))], most=9)
    assert read.pairs == [] and dict(read.left_out) == {"its answer is empty": 1}
