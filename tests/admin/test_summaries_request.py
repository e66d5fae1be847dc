"""One request in full: stages, candidates with reasons, what was added to it, and what may be done about its answer."""

from __future__ import annotations

import re
from pathlib import Path

from aiohttp import web

from admin.words import LEFT_OUT, STAGES
from tests.admin.traffic import ALIKE, QUESTION, UNLIKE, house
from tests.flow.line import Asked, completion
from tests.flow.test_line_keys import new_key

SYSTEM = {"role": "system", "content": "Be brief."}


def test_every_stage_of_the_timeline_says_what_it_does() -> None:
    root = Path(__file__).parents[2]
    sources = [path.read_text() for room in ("gateway", "router") for path in (root / room).rglob("*.py")]
    named = set(re.findall(r"""\bstage\("(\w+)"|^STAGE = "(\w+)\"""", "\n".join(sources), re.MULTILINE))
    names = {one or other for one, other in named}
    assert {"exact", "embed", "pose", "guardrails"} <= names
    assert names <= set(STAGES) and all(says != name for name, says in STAGES.items() if name != "decide")


async def test_an_offloaded_request_is_explained(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        first = await here.ask([SYSTEM, {"role": "user", "content": QUESTION}])
        second = await here.ask([SYSTEM, {"role": "user", "content": ALIKE}])
        reader = await here.site.person("viewer-content")
        told = (await reader.get(f"/requests/{second}.json")).json
        assert {"embed", "nearest", "score", "combine", "choose", "engine"} <= {
            stage["name"] for stage in told["stages"]["rows"]
        }
        actions = told["choice"]["actions"]
        assert sum(action["propensity"] for action in actions) > 0.999
        (taken,) = [action for action in actions if action["chosen"]]
        assert (taken["engine"], taken["few_shot"]) == ("small", True)
        (candidate,) = told["candidates"]
        assert candidate["sent"] and candidate["question"] == QUESTION and candidate["similarity"] > 0.8
        assert [(row["role"], row["added"], row["text"]) for row in told["texts"]["sent"]] == [
            ("system", False, "Be brief."),
            ("user", True, QUESTION),
            ("assistant", True, "Use ls -a."),
            ("user", False, ALIKE),
        ]
        assert told["texts"]["answer"] == "From the small one."
        came = (await reader.get(f"/requests/{first}.json")).json
        assert came["example"] == candidate["id"] and not any(row["added"] for row in came["texts"]["sent"])
        page = await reader.get(f"/requests/{second}")
        assert page.status == 200 and "added from" in page.text and "Give feedback" not in page.text


async def test_what_the_engine_found_in_its_prefix_cache_is_shown(tmp_path: Path) -> None:
    async def cached(request: web.Request, asked: Asked) -> web.StreamResponse:
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        return web.json_response(
            completion("Use ls -a.", usage=usage | {"prompt_tokens_details": {"cached_tokens": 8}})
        )

    async with house(tmp_path) as here:
        first = await here.ask(UNLIKE)
        here.large.script = cached
        second = await here.ask(QUESTION)
        viewer = await here.site.person("viewer")
        told = [(await viewer.get(f"/requests/{id}.json")).json["cached_tokens"] for id in (first, second)]
        assert told == [0, 8]
        pages = [(await viewer.get(f"/requests/{id}")).text for id in (first, second)]
        assert "prefix cache" not in pages[0] and "8 from the prefix cache" in pages[1]


async def test_candidates_that_were_not_sent_say_why(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        here.large.says = "Something else altogether about trees."
        await here.ask(
            "How do I list all files in a directory on Linux, hidden ones included, sorted?",
            {"x-understudy-engine": "large"},
        )
        third = await here.ask(ALIKE, {"x-understudy-examples": "1"})
        told = (await (await here.site.person("viewer")).get(f"/requests/{third}.json")).json
        left = [row for row in told["candidates"] if not row["sent"]]
        assert left and all(row["left_out"] in LEFT_OUT and row["why"] for row in left)
        assert all(row["question"] is None for row in told["candidates"])


async def test_nobodys_words_are_in_a_request_for_who_may_not_read(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        id = await here.ask(ALIKE)
        operator, viewer = await here.site.person("operator"), await here.site.person("viewer")
        said = {"thumb": "down", "comment": "a platypus"}
        assert (await operator.post(f"/requests/{id}/feedback", said)).status == 303
        for path in (f"/requests/{id}", f"/requests/{id}.json"):
            got = await viewer.get(path)
            assert got.status == 200
            for word in ("directory", "small one", "ls -a", "platypus"):
                assert word not in got.text, (path, word)
        for action in ("feedback", "correct", "ask"):
            assert (await viewer.post(f"/requests/{id}/{action}", said)).status == 403


async def test_feedback_is_kept_like_anybodys_and_shown(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        id = await here.ask(ALIKE)
        operator = await here.site.person("operator")
        got = await operator.post(f"/requests/{id}/feedback", {"score": "0.25", "comment": "Too short."})
        assert got.status == 303 and got.headers["Location"] == f"/requests/{id}"
        told = (await operator.get(f"/requests/{id}.json")).json
        assert [(f["score"], f["comment"]) for f in told["feedback"]] == [(0.25, "Too short.")]
        assert [(o["source"], o["quality"]) for o in told["outcomes"]] == [("user", 0.25)]
        (used,) = here.site.sources.store.examples.page("default")
        assert used.quality == 0.25, "the example it was answered with is judged, too"
        empty = await operator.post(f"/requests/{id}/feedback", {})
        assert empty.status == 400


async def test_a_correction_answers_the_next_one_who_asks(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        id = await here.ask(UNLIKE)
        operator = await here.site.person("operator")
        got = await operator.post(f"/requests/{id}/correct", {"correction": "Rossini wrote it in 1816."})
        assert got.status == 303, got.text
        # In the place of what was observed: the wrong answer must not stand beside the right one.
        (given,) = here.site.sources.store.examples.page("default")
        assert (given.kind, given.question, given.answer) == (
            "demonstration",
            UNLIKE,
            "Rossini wrote it in 1816.",
        )
        assert (await operator.get(f"/requests/{id}.json")).json["feedback"][0]["correction"]
        secret = {
            "correction": "The password is hunter2, key sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEf."
        }
        refused = await operator.post(f"/requests/{id}/correct", secret)
        assert refused.status == 409 and refused.text.count("sk-proj") == 1, (
            "in the field it was written into"
        )


async def test_another_engine_is_asked_the_same_and_what_it_cost_is_counted(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        id = await here.ask(ALIKE)
        operator = await here.site.person("operator")
        here.large.says = "The large one says <b>this</b>."
        got = await operator.post(f"/requests/{id}/ask", {"engine": "large", "same_examples": "yes"})
        assert (
            got.status == 200
            and "From the small one." in got.text
            and "says &lt;b&gt;this&lt;/b&gt;" in got.text
        )
        assert [m["content"] for m in here.large.asked[-1].json["messages"]] == [
            QUESTION,
            "Use ls -a.",
            ALIKE,
        ]
        assert here.large.asked[-1].headers.get("Authorization") is None
        await operator.post(f"/requests/{id}/ask", {"engine": "large"})
        assert [m["content"] for m in here.large.asked[-1].json["messages"]] == [ALIKE]
        assert here.site.sources.store.jobs.operator_asks.spent_usd(0.0) == 2 * 3 * 10 / 1e6
        assert (await operator.post(f"/requests/{id}/ask", {"engine": "nobody"})).status == 409


async def test_an_example_that_is_gone_leaves_no_text_in_the_requests_it_was_sent_with(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        id = await here.ask(ALIKE)
        store = here.site.sources.store
        (example,) = store.examples.page("default")
        store.examples.update("default", example.id, answer="Use exa.").result(30)
        reader = await here.site.person("viewer-content")
        changed = (await reader.get(f"/requests/{id}.json")).json["texts"]["sent"]
        assert changed[1]["text"] == "Use exa." and "changed since" in changed[1]["note"]
        store.examples.remove("default", [example.id]).result(30)
        gone = await reader.get(f"/requests/{id}.json")
        assert "Use ls" not in gone.text and gone.json["texts"]["sent"][0]["text"] is None
        assert (await reader.get(f"/requests/{id}")).status == 200


async def test_who_opted_out_or_told_a_secret_is_in_the_log_without_a_word(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        id = await here.ask("My key is sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEf, is it good?")
        reader = await here.site.person("viewer-content")
        assert (await reader.get(f"/requests/{id}.json")).json["texts"] is None
        page = await reader.get(f"/requests/{id}")
        assert "No text is kept" in page.text and "sk-proj" not in page.text
        unseen = await here.gate.chat("About the axolotl?", {"Cache-Control": "no-store"})
        assert (await reader.get(f"/requests/{unseen.headers['x-understudy-decision-id']}")).status == 404


async def test_texts_that_are_switched_off_are_nowhere(tmp_path: Path) -> None:
    async with house(tmp_path, memory={"request_texts": {"enabled": False}}) as here:
        id = await here.ask(QUESTION)
        reader = await here.site.person("viewer-content")
        assert "memory.request_texts.enabled was off" in (await reader.get(f"/requests/{id}")).text
        assert here.site.sources.store.decisions.texts.total_bytes() == 0


async def test_examples_lent_by_another_tenant_are_shown_to_the_operator(tmp_path: Path) -> None:
    grants = [{"from": "acme", "to": ["umbrella"]}]
    async with house(tmp_path, sharing={"grants": grants}) as here:
        acme = {"Authorization": f"Bearer {await new_key(here.gate, 'acme')}"}
        umbrella = {"Authorization": f"Bearer {await new_key(here.gate, 'umbrella')}"}
        await here.ask(QUESTION, acme)
        id = await here.ask(ALIKE, umbrella)
        told = (await (await here.site.person("operator")).get(f"/requests/{id}.json")).json
        assert [row["question"] for row in told["candidates"]] == [QUESTION]
