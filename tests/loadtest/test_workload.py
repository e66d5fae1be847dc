"""Bodies: repeatable, shared out without overlap, with the asked-for share of repeats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadtest.distributions import parse_distribution
from loadtest.errors import BadTrace
from loadtest.plan import LoadPlan, Target, WorkloadSpec
from loadtest.workload import Workload


def workload(endpoint: str = "chat", seed: int = 1, **spec: Any) -> Workload:
    return Workload(LoadPlan(Target("http://x", endpoint), WorkloadSpec(model="m", **spec), seed=seed))


def bodies(work: Workload, count: int) -> list[bytes]:
    return [work.build(work.choose()).data for _ in range(count)]


def test_two_processes_see_the_same_requests_and_another_seed_sees_others() -> None:
    same = {"repeat_share": 0.2, "tokens_in": parse_distribution("uniform:5,50")}
    assert bodies(workload(**same), 50) == bodies(workload(**same), 50)
    assert bodies(workload(**same), 50) != bodies(workload(seed=2, **same), 50)


def test_fresh_requests_all_differ() -> None:
    assert len(set(bodies(workload(tokens_in=parse_distribution("4")), 2000))) == 2000


def test_the_share_of_exact_repeats_is_what_was_asked_for() -> None:
    found = bodies(workload(repeat_share=0.3), 4000)
    assert 1 - len(set(found)) / len(found) == pytest.approx(0.3, abs=0.04)


def test_paraphrases_differ_from_what_they_reword_and_keep_its_number() -> None:
    work = workload(paraphrase_share=0.5, tokens_out=parse_distribution("9"))
    choices = [work.choose() for _ in range(400)]
    reworded = [choice for choice in choices if choice.variant]
    assert len(reworded) == pytest.approx(200, abs=50)
    for choice in reworded:
        text = json.loads(work.build(choice).data)["messages"][-1]["content"]
        assert f"Question {choice.origin}:" in text
        assert work.build(choice).data != work.build(type(choice)(choice.origin)).data


def test_streams_ask_for_usage_unless_told_not_to() -> None:
    asked = json.loads(bodies(workload(), 1)[0])
    assert asked["stream"] is True and asked["stream_options"] == {"include_usage": True}
    assert asked["max_tokens"] == 128 and asked["model"] == "m"
    assert "stream_options" not in json.loads(bodies(workload(ask_usage=False), 1)[0])
    assert "stream" not in json.loads(bodies(workload(stream=False), 1)[0])


def test_shared_prefixes_are_shared() -> None:
    found = [json.loads(body) for body in bodies(workload(prefix_tokens=30, prefix_count=3), 100)]
    prefixes = {body["messages"][0]["content"] for body in found}
    assert len(prefixes) == 3 and all(body["messages"][0]["role"] == "system" for body in found)


def test_other_endpoints_get_their_own_shape() -> None:
    assert isinstance(json.loads(bodies(workload("embeddings"), 1)[0])["input"], str)
    assert isinstance(json.loads(bodies(workload("completions"), 1)[0])["prompt"], str)


def test_a_conversation_is_sent_turn_by_turn_with_the_recorded_answers(tmp_path: Path) -> None:
    path = tmp_path / "talks.jsonl"
    talk = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u1"},
        {"role": "assistant", "content": "a1"},
        {"role": "user", "content": "u2"},
        {"role": "assistant", "content": "a2"},
    ]
    path.write_text(json.dumps({"messages": talk}) + "\n")
    work = workload(messages_file=path, conversations=True)
    body = work.build(work.choose())
    assert json.loads(body.data)["messages"] == talk[:2]
    assert [json.loads(turn)["messages"] for turn in body.after] == [talk[:4]]


def test_a_rows_own_paraphrases_and_expectation_are_used(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        json.dumps({"text": "is it good", "gold": "positive", "paraphrase": "is this nice"}) + "\n"
    )
    work = workload(messages_file=path, paraphrase_share=0.9)
    found = [work.build(work.choose()) for _ in range(30)]
    assert {json.loads(body.data)["messages"][0]["content"] for body in found} == {
        "is it good",
        "is this nice",
    }
    assert found[0].expect == "positive"


@pytest.mark.parametrize("extra", ["{", "[1]", '"x"'])
def test_an_extra_body_must_be_an_object(extra: str) -> None:
    with pytest.raises(BadTrace, match="extra body"):
        workload(extra_body=extra)


def test_the_extra_body_is_merged() -> None:
    assert json.loads(bodies(workload(extra_body='{"temperature": 0}'), 1)[0])["temperature"] == 0
