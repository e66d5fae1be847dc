"""The playground: two engines are asked at once and booked to the operator, and nobody else may."""

from __future__ import annotations

from pathlib import Path

from tests.admin.traffic import house

QUESTION = "How do I list hidden files in a folder?"
FORM = {"one": "small", "other": "large", "model": "gpt-4o", "prompt": QUESTION, "system": "Be brief."}


async def test_two_engines_answer_side_by_side_and_what_they_charge_is_booked(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        (tenant,) = here.site.sources.store.examples.tenants()
        operator = await here.site.person("operator")
        page = await operator.post("/playground", FORM | {"tenant": tenant})
        assert page.status == 200
        assert "From the small one." in page.text and "Use ls -a." in page.text
        assert (
            "What would have been decided" in page.text and "Examples near enough: 1, wanted: 1" in page.text
        )
        assert QUESTION in page.text and "cannot be known here" in page.text
        asks = here.site.sources.store.jobs.operator_asks
        assert asks.spent_usd(0.0) > 0
        assert here.small.asked[-1].json["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_an_engine_that_fails_is_told_beside_the_one_that_answers(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        operator = await here.site.person("operator")
        page = await operator.post("/playground", FORM | {"other": "nobody"})
        assert page.status == 200
        assert "From the small one." in page.text and "there is no engine" in page.text
        assert (await operator.post("/playground", FORM | {"prompt": ""})).status == 400


async def test_only_operators_may_ask(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        for role in ("viewer", "viewer-content"):
            person = await here.site.person(role)
            assert (await person.get("/playground")).status == 403
            assert (await person.post("/playground", FORM)).status == 403
        assert not here.small.asked
