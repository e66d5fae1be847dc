"""Review: sampled answers with the engine hidden, verdicts that keep their probability, and the judge beside them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from admin.pages.review import REVIEW
from admin.roles import Role
from admin.summaries.review import review
from store import Store
from store.decisions.reviews import REFERENCE_SHARE, Review, Shares, share_of
from tests.admin.site import Person, site
from tests.admin.traffic import ALIKE, QUESTION, house
from tests.store.rows import choice_record, outcome_record, request_record


def test_who_may_read_may_look_and_operators_decide() -> None:
    assert REVIEW.role is Role.VIEWER_CONTENT and REVIEW.summary is review
    assert all(action.role is Role.OPERATOR for action in REVIEW.actions)


async def item_of(person: Person) -> dict[str, Any]:
    found: dict[str, Any] = (await person.get("/review.json")).json["item"]
    return found


async def test_verdicts_become_labels_with_the_probability_of_the_sample(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        operator = await here.site.person("operator")
        store = here.site.sources.store
        await operator.post("/review/shares", {"offloaded": "100", "reference": "100"})
        large, small = await here.ask(QUESTION), await here.ask(ALIKE)
        told = (await operator.get("/review.json")).json
        assert told["waiting"] == 2 and told["item"]["id"] == small
        assert told["item"]["answer"] == "From the small one." and "engine" not in str(told["item"])
        page = await operator.get("/review")
        assert page.status == 200 and 'href="/requests/' not in page.text, "a link would tell the engine"
        bad = await operator.post("/review", {"id": small, "verdict": "bad"})
        assert bad.status == 303 and bad.headers["Location"].startswith("/review")
        late = await operator.post("/review", {"id": small, "verdict": "corrected", "correction": "By size."})
        assert late.status == 409 and "Somebody gave a verdict on this answer meanwhile" in late.text
        assert "What you had written" in late.text and "By size.</textarea>" in late.text
        (outcome,) = store.outcomes.of("default", small)
        assert (outcome.source, outcome.quality, outcome.probability) == ("label", 0.0, 1.0)
        corrected = {"id": large, "verdict": "corrected", "correction": "Use ls -A."}
        assert (await operator.post("/review", {**corrected, "correction": ""})).status == 400
        assert (await operator.post("/review", corrected)).status == 303
        assert [each.answer for each in store.examples.page("default", limit=5)].count("Use ls -A.") == 1
        told = (await operator.get("/review.json")).json
        assert told["item"] is None and told["waiting"] == 0
        assert told["quality"]["offloaded"]["mean"] == 0.0 and told["quality"]["reference"]["mean"] == 0.25
        assert [row["verdict"] for row in told["rows"]] == ["corrected", "bad"]
        csv = await operator.get("/review.csv")
        assert csv.status == 200 and "corrected" in csv.text


async def test_what_is_skipped_can_be_asked_again_and_what_is_not_sampled_cannot_be_judged(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as here:
        operator = await here.site.person("operator")
        await operator.post("/review/shares", {"offloaded": "100", "reference": "100"})
        asked = await here.ask(QUESTION)
        assert (await operator.post("/review", {"id": asked, "verdict": "skip"})).status == 303
        store = here.site.sources.store
        assert await item_of(operator) is None and not store.outcomes.of("default", asked)
        assert (await operator.post("/review/again", {"id": asked})).status == 303
        assert (await item_of(operator))["id"] == asked
        assert (await operator.post("/review/again", {"id": asked})).status == 409
        await operator.post("/review/shares", {"offloaded": "0", "reference": "0"})
        later = await here.ask("Who wrote the opera about the barber?")
        assert (await item_of(operator))["id"] == asked, "what was asked before keeps its share"
        assert (await operator.post("/review", {"id": later, "verdict": "good"})).status == 409
        assert (await operator.post("/review", {"id": "gone", "verdict": "good"})).status == 404
        assert (await operator.post("/review/shares", {"offloaded": "101", "reference": "1"})).status == 400
        assert (await operator.post("/review/shares", {"offloaded": "1"})).status == 400
        viewer = await here.site.person("viewer")
        assert (await viewer.get("/review")).status == 403
        reader = await here.site.person("viewer-content")
        assert (await reader.post("/review", {"id": asked, "verdict": "good"})).status == 403


async def test_the_first_shares_that_are_chosen_hold_from_then_on(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        operator = await here.site.person("operator")
        before = await here.ask(QUESTION)
        await operator.post("/review/shares", {"offloaded": "0", "reference": "0"})
        after = await here.ask("Who wrote the opera about the barber?")
        answers = here.site.sources.store.outcomes.reviews.answered(since_s=0.0, limit=9)
        shares = here.site.sources.store.outcomes.reviews.shares()
        found = {each.request_id: share_of(each, shares, "large") for each in answers}
        assert found == {before: REFERENCE_SHARE, after: 0.0}


async def test_an_answer_that_is_not_kept_as_a_whole_says_so(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        operator = await here.site.person("operator")
        await operator.post("/review/shares", {"offloaded": "100", "reference": "100"})
        here.large.says = "So it goes. " * 8000
        await here.ask(QUESTION)
        item = await item_of(operator)
        assert item["answer_left_out"] == len(here.large.says) - len(item["answer"]) > 0
        assert "This is not the whole answer" in (await operator.get("/review")).text


async def test_a_verdict_counts_for_whoever_answered_whatever_decided_that(tmp_path: Path) -> None:
    """Where no router had looked at the request, the small engine's bad answers counted as the reference's."""
    async with site(tmp_path) as here:
        store = here.sources.store
        record = request_record(1, model="demo", engine="small")
        await asyncio.to_thread(store.decisions.requests.record(record).result, 30)
        for number in (1, 2):
            note = Review("a1", f"req-{number}", 1.0 + number, "ann", "bad", 1.0)
            await asyncio.to_thread(store.outcomes.reviews.note(note).result, 30)
        told = (await (await here.person("viewer-content")).get("/review.json")).json
        assert told["quality"]["offloaded"]["count"] == 1 and told["quality"]["reference"] is None
        assert [row["engine"] for row in told["rows"]] == ["", "small"] and told["skipped"] == 0


async def test_the_judge_is_compared_with_reviewers_and_rare_samples_weigh_more(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        await asyncio.to_thread(reviewed, here.sources.store)
        viewer = await here.person("viewer-content")
        told = (await viewer.get("/review.json")).json
        found = told["agreement"]
        assert (found["count"], found["share"]) == (4, 0.75)
        assert (found["both_good"], found["only_judge_good"], found["both_bad"]) == (2, 1, 1)
        assert found["low"] < 0.75 < found["high"] and found["kappa"] == 0.5
        assert told["quality"]["offloaded"]["mean"] == (1 + 1 + 0 + 0) / 4 and told["skipped"] == 1
        assert (await viewer.get("/review")).status == 200


def reviewed(store: Store) -> None:
    """Four verdicts on judged answers of the small engine, and a skip."""
    store.outcomes.reviews.choose(Shares(1.0, 1.0)).result(30)
    verdicts = (("good", 1.0), ("good", 0.75), ("bad", 1.0), ("bad", 0.0), ("skip", 1.0))
    for number, (verdict, judged) in enumerate(verdicts):
        store.decisions.requests.record(request_record(number, model="demo")).result(30)
        store.decisions.choices.record(choice_record(number, model="demo")).result(30)
        store.outcomes.note(outcome_record(number, source="judge", quality=judged)).result(30)
        note = Review("a1", f"req-{number}", 1.0 + number, "ann", verdict, 1.0)  # type: ignore[arg-type]
        store.outcomes.reviews.note(note).result(30)
