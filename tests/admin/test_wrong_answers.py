"""A wrong answer, corrected or taken back on the pages: what they say of it afterwards is what the gateway does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.admin.site import Got, Person
from tests.admin.traffic import ALIKE, QUESTION, House, house

WRONG, RIGHT, ANEW = "Use dir /w.", "Use ls -a.", "Try ls --all."


async def answered_wrong(here: House, **fields: Any) -> tuple[str, Person]:
    """QUESTION, answered wrong and in the cache; gives its id and an operator. Afterwards the engine says something else."""
    here.large.says = WRONG
    first = await here.ask(QUESTION, **fields)
    repeat = await here.gate.chat(QUESTION, **fields)
    assert repeat.hit and repeat.text == WRONG
    here.large.says = here.small.says = ANEW
    return first, await here.site.person("operator")


async def again(here: House, **fields: Any) -> tuple[bool, str]:
    """Whether the same request is answered from the cache, and with what."""
    got = await here.gate.chat(QUESTION, {"Cache-Control": "no-store"}, **fields)
    return got.hit, got.text


async def flash_of(operator: Person, done: Got) -> str:
    assert done.status == 303, done.text
    return (await operator.get(done.headers["Location"])).text


async def test_after_a_correction_the_same_request_is_given_it(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        first, operator = await answered_wrong(here)
        done = await operator.post(f"/requests/{first}/correct", {"correction": RIGHT})
        assert "The same request is answered with this from now on" in await flash_of(operator, done)
        assert await again(here) == (True, RIGHT)
        streamed = await here.gate.chat(QUESTION, {"Cache-Control": "no-store"}, stream=True)
        assert streamed.hit and b"ls" in streamed.body and b"dir" not in streamed.body
        # Another form of the request: not the same, so that an engine answers, which is shown the correction.
        assert await again(here, max_tokens=99) == (False, ANEW)


async def test_the_second_of_two_who_correct_an_answer_is_told(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        first, operator = await answered_wrong(here)
        read = (await operator.get(f"/requests/{first}.json")).json["corrections"]
        right = {"correction": RIGHT, "version": str(read)}
        assert (await operator.post(f"/requests/{first}/correct", right)).status == 303
        late = await operator.post(f"/requests/{first}/correct", right | {"correction": "Use exa."})
        assert (
            late.status == 409 and "corrected meanwhile" in late.text and "Use exa.</textarea>" in late.text
        )
        assert await again(here) == (True, RIGHT)
        anew = {"correction": "Use exa.", "version": str(read + 1)}
        assert (await operator.post(f"/requests/{first}/correct", anew)).status == 303
        assert await again(here) == (True, "Use exa.")


async def test_a_correction_after_a_thumb_down_is_given_too_and_can_be_voted_down(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        first, operator = await answered_wrong(here)
        await operator.post(f"/requests/{first}/feedback", {"thumb": "down"})
        await operator.post(f"/requests/{first}/correct", {"correction": RIGHT})
        repeat = await here.gate.chat(QUESTION)
        assert (repeat.hit, repeat.text) == (True, RIGHT)
        assert repeat.json["usage"]["total_tokens"] == 10, "as of the request that was corrected"
        await here.gate.settled()
        page = await operator.post(
            f"/requests/{repeat.headers['x-understudy-decision-id']}/feedback", {"thumb": "down"}
        )
        assert "1 stored answer was deleted" in await flash_of(operator, page)
        assert await again(here) == (False, ANEW)


async def test_several_answers_are_not_replaced_by_one(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        here.large.says = WRONG
        first = await here.ask(QUESTION, n=2, seed=1)
        here.large.says = ANEW
        operator = await here.site.person("operator")
        done = await operator.post(f"/requests/{first}/correct", {"correction": RIGHT})
        assert "The wrong answer is no longer given from the cache" in await flash_of(operator, done)
        got = await here.gate.chat(QUESTION, {"Cache-Control": "no-store"}, n=2, seed=1)
        assert not got.hit and len(got.json["choices"]) == 2


async def test_a_corrected_request_shows_what_it_was_corrected_to_and_by_whom(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        first, operator = await answered_wrong(here)
        await operator.post(f"/requests/{first}/correct", {"correction": RIGHT})
        (said,) = (await operator.get(f"/requests/{first}.json")).json["feedback"]
        assert said["author"] == "a-operator" and said["corrected_to"]["text"] == RIGHT
        page = (await operator.get(f"/requests/{first}")).text
        assert "by a-operator" in page and f'<pre class="text correction">{RIGHT}</pre>' in page
        viewer = await here.site.person("viewer")
        assert RIGHT not in (await viewer.get(f"/requests/{first}")).text
        assert RIGHT not in (await viewer.get(f"/requests/{first}.json")).text


async def test_where_it_cannot_be_given_again_the_page_does_not_say_that_it_is(tmp_path: Path) -> None:
    async with house(tmp_path, memory={"exact": {"enabled": False}}) as here:
        first = await here.ask(QUESTION)
        operator = await here.site.person("operator")
        done = await operator.post(f"/requests/{first}/correct", {"correction": RIGHT})
        page = await flash_of(operator, done)
        assert "The wrong answer is no longer given from the cache" in page
        assert "The same request is answered with this" not in page


async def the_example(here: House, operator: Person, request_id: str) -> int:
    return int((await operator.get(f"/requests/{request_id}.json")).json["example"])


async def thumb_down(here: House, operator: Person, first: str) -> str:
    return await flash_of(operator, await operator.post(f"/requests/{first}/feedback", {"thumb": "down"}))


async def quarantine(here: House, operator: Person, first: str) -> str:
    example = await the_example(here, operator, first)
    return await flash_of(operator, await operator.post(f"/examples/{example}/hold", {"hold": "yes"}))


async def edit(here: House, operator: Person, first: str) -> str:
    example = await the_example(here, operator, first)
    texts = {"question": QUESTION, "answer": RIGHT}
    return await flash_of(operator, await operator.post(f"/examples/{example}/edit", texts))


async def delete(here: House, operator: Person, first: str) -> str:
    example = await the_example(here, operator, first)
    before = await operator.post(f"/examples/{example}/delete")
    assert "for good" not in before.text
    return await flash_of(operator, await operator.post(f"/examples/{example}/delete", {"really": "yes"}))


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (thumb_down, "1 stored answer was deleted"),
        (quarantine, "no request is answered with it"),
        (edit, "Changed"),
        (delete, "Deleted"),
    ],
)
async def test_after_any_other_act_it_is_answered_anew(
    tmp_path: Path, act: Callable[[House, Person, str], Awaitable[str]], says: str
) -> None:
    async with house(tmp_path) as here:
        first, operator = await answered_wrong(here)
        page = await act(here, operator, first)
        assert says in page and "1 stored answer" in page
        assert await again(here) == (False, ANEW)


async def test_a_correction_goes_with_its_example(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        first, operator = await answered_wrong(here)
        await operator.post(f"/requests/{first}/correct", {"correction": RIGHT})
        assert await again(here) == (True, RIGHT)
        (said,) = (await operator.get(f"/requests/{first}.json")).json["feedback"]
        example = said["corrected_to"]["example"]
        await operator.post(f"/examples/{example}/delete", {"really": "yes"})
        assert await again(here) == (False, ANEW)
        (said,) = (await operator.get(f"/requests/{first}.json")).json["feedback"]
        assert said["corrected_to"] is None
        assert "The corrected answer was deleted since" in (await operator.get(f"/requests/{first}")).text


async def test_a_corrected_example_is_the_persons_who_gave_it(tmp_path: Path) -> None:
    """Neither judged by the wrong answer, nor standing for it, nor from a request and an engine that never were."""
    async with house(tmp_path) as here:
        first, operator = await answered_wrong(here)
        await operator.post(f"/requests/{first}/feedback", {"score": "0.25"})
        await operator.post(f"/requests/{first}/correct", {"correction": RIGHT})
        (*_, said) = (await operator.get(f"/requests/{first}.json")).json["feedback"]
        path = f"/examples/{said['corrected_to']['example']}"
        told = (await operator.get(path + ".json")).json
        assert (told["judgements"], told["merged"], told["quality"]) == (0, 0, None)
        assert told["from_request"] == first and told["author"] == "a-operator"
        page = " ".join((await operator.get(path)).text.split())
        assert "<dt>Judged</dt> <dd><b>–</b><small>0 judgements" in page and "0.25" not in page
        assert "<dt>Stands for</dt> <dd><b>1</b><small>past answers that agree" in page
        assert "not in the log any more" not in page and "#engine-demonstration" not in page
        assert f'href="/requests/{first}"' in page and "a-operator" in page
        assert (await operator.get(f"/requests/{first}")).text.count("Corrected answer") == 1


async def test_a_repeat_shows_the_examples_that_its_answer_was_given_with(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        with_example = await here.gate.chat(ALIKE)
        assert with_example.headers["x-understudy-examples"] == "1"
        await here.gate.settled()
        repeat = await here.gate.chat(ALIKE)
        assert repeat.hit
        operator = await here.site.person("operator")
        path = f"/requests/{repeat.headers['x-understudy-decision-id']}"
        added = [row for row in (await operator.get(path + ".json")).json["texts"]["sent"] if row["added"]]
        assert [row["text"] for row in added] == [QUESTION, "Use ls -a."]
        assert "not in the bank any more" not in (await operator.get(path)).text


async def test_a_repeat_is_found_by_the_words_of_its_question(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        first, operator = await answered_wrong(here)
        repeat = (await here.gate.chat(QUESTION)).headers["x-understudy-decision-id"]
        await here.gate.settled()
        rows = (await operator.get("/requests.json?q=hidden+files")).json["rows"]
        assert {first, repeat} <= {row["id"] for row in rows}
