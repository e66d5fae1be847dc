"""The whole line with real models behind it: exact hits, retrieval, scoring, routing, streams, log-probabilities."""

from __future__ import annotations

import json

from benchmarks.tiny_models.world import PHRASINGS
from tests.vllm.conftest import STILL, Opener
from tests.vllm.guide import WORLD, Guide, until

KNOWN = {fact.town for fact in WORLD.remembered(0.25)}
NEW = [fact for fact in WORLD.facts if fact.town not in KNOWN]
"""Facts the understudy was not taught."""


def test_what_nobody_asked_before_is_answered_by_the_large_model_and_becomes_an_example(guide: Guide) -> None:
    fact = NEW[0]
    said = guide.ask(fact.question(0))
    assert (said.engine, said.examples, said.text) == ("large", 0, fact.answer)
    until(guide.bank, "its answer in the bank")
    (kept,) = guide.bank()
    assert kept["answer"] == fact.answer


def test_an_exact_repeat_asks_no_engine(guide: Guide) -> None:
    question = NEW[1].question(0)
    first = guide.ask(question)
    until(lambda: guide.ask(question).hit, "a hit")
    again = guide.ask(question)
    assert again.text == first.text and not again.engine
    with guide.streaming(question) as stream:
        assert "; hit" in stream.headers["Cache-Status"]
        assert "".join(stream.deltas()) == first.text


def test_the_small_model_answers_in_other_words_what_the_large_one_was_asked_before(guide: Guide) -> None:
    alone = sum(
        guide.ask(fact.question(1), fresh=True, engine="small").text == fact.answer for fact in NEW[:10]
    )
    for fact in NEW[:10]:
        assert guide.ask(fact.question(0)).engine == "large"
    until(lambda: len(guide.bank()) == 10, "ten examples")
    until(lambda: guide.ask(NEW[9].question(2), fresh=True).examples, "the last of them found")
    said = [guide.ask(fact.question(1), fresh=True) for fact in NEW[:10]]
    right = [one.text == fact.answer for one, fact in zip(said, NEW, strict=False)]
    assert all(one.engine == "small" and one.examples for one in said)
    assert alone <= 1 and sum(right) >= 9


def test_the_helping_example_is_chosen_among_nearer_ones_that_would_mislead(guide: Guide) -> None:
    # The towns of a family differ in one letter; asked in the same words, each is nearer than the same town in other words.
    family = next(
        WORLD.facts[i : i + 4]
        for i in range(0, len(WORLD.facts), 4)
        if not KNOWN & {f.town for f in WORLD.facts[i : i + 4]}
    )
    fact, *alike = family
    for other in alike:
        guide.teach_fact(other, 0)
    misled = guide.ask(fact.question(0), fresh=True, engine="small")
    assert misled.text != fact.answer
    guide.teach_fact(fact, 4)
    helped = guide.ask(fact.question(0), fresh=True, engine="small")
    assert helped.examples >= 1 and helped.text == fact.answer


def test_what_no_example_helps_with_stays_with_the_large_model(guide: Guide) -> None:
    for fact in NEW[:8]:
        guide.teach_fact(fact, 0)
    for fact in NEW[20:24]:
        said = guide.ask(fact.question(0), fresh=True)
        assert (said.engine, said.text) == ("large", fact.answer)


def test_a_stream_says_what_a_whole_answer_says_token_by_token(guide: Guide) -> None:
    fact = NEW[2]
    for engine in ("small", "large"):
        whole = guide.ask(fact.question(3), fresh=True, engine=engine)
        guide_headers = {"x-understudy-engine": engine, "Cache-Control": "no-store"}
        body = guide.body(fact.question(3), stream=True, stream_options={"include_usage": True})
        raw = guide.send("POST", "/chat/completions", body, guide_headers).body.decode()
        events = [line.removeprefix("data: ") for line in raw.splitlines() if line]
        assert events[-1] == "[DONE]"
        chunks = [json.loads(event) for event in events[:-1]]
        texts = [c["delta"].get("content") for chunk in chunks for c in chunk["choices"]]
        assert "".join(filter(None, texts)) == whole.text and len(list(filter(None, texts))) > 3
        assert chunks[-1]["usage"]["completion_tokens"] == whole.json["usage"]["completion_tokens"]


def test_log_probabilities_come_through_streamed_and_whole(guide: Guide) -> None:
    question = NEW[3].question(0)
    wanted = {"logprobs": True, "top_logprobs": 2, "engine": "large", "fresh": True}
    tokens = guide.ask(question, **wanted).json["choices"][0]["logprobs"]["content"]
    assert "".join(token["token"] for token in tokens).startswith("The town of ")
    assert all(token["logprob"] <= 0 and len(token["top_logprobs"]) == 2 for token in tokens)
    streamed = []
    with guide.streaming(NEW[4].question(0), logprobs=True, top_logprobs=1) as stream:
        for line in stream.lines():
            if line != "[DONE]":
                for choice in json.loads(line)["choices"]:
                    streamed += (choice.get("logprobs") or {}).get("content") or []
    assert streamed and all(token["logprob"] <= 0 for token in streamed)


def test_a_conversation_without_tools_is_answered_and_a_system_prompt_keeps_its_own_examples(
    guide: Guide,
) -> None:
    fact, other = NEW[5], NEW[6]
    talk = [
        {"role": "user", "content": fact.question(0)},
        {"role": "assistant", "content": fact.answer},
        {"role": "user", "content": other.question(0)},
    ]
    said = guide.ask(talk)
    assert said.status == 200 and said.json["choices"][0]["finish_reason"] in ("stop", "length")
    guide.teach_fact(fact, 0)
    instructed = [
        {"role": "system", "content": "Answer in French."},
        {"role": "user", "content": fact.question(1)},
    ]
    assert guide.ask(instructed, fresh=True, engine="small").examples == 0


def test_a_request_the_engine_refuses_is_refused_in_its_words_and_not_remembered(guide: Guide) -> None:
    refused = guide.ask(NEW[7].question(0), temperature=-1)
    assert refused.status == 400 and "temperature" in refused.json["error"]["message"]
    too_long = guide.ask(" ".join(PHRASINGS) * 40)
    assert too_long.status == 400 and too_long.json["error"]["message"]
    assert not guide.bank()


def test_the_rule_of_novelty_routes_by_how_many_past_answers_are_near(open_guide: Opener) -> None:
    guide = open_guide(policy="few_shot", proof="off", few_shot={"theta": 0.6, "m": 2, "same_names": True})
    fact = NEW[8]
    guide.teach_fact(fact, 0)
    assert guide.ask(fact.question(1), fresh=True).engine == "large"
    # Merged with the first if the store takes them for one question: then they still count as two.
    guide.teach_fact(fact, 2)
    said = guide.ask(fact.question(1), fresh=True)
    assert said.engine == "small" and said.examples >= 1 and said.text == fact.answer


def test_tenants_see_nothing_of_each_other(open_guide: Opener) -> None:
    guide = open_guide(**STILL)
    fact = NEW[9]
    guide.teach_fact(fact, 0)
    stranger = Guide(guide.gateway, key="sk-stranger")
    assert guide.ask(fact.question(1), fresh=True).examples
    assert stranger.ask(fact.question(1), fresh=True).examples == 0 and not stranger.bank()
