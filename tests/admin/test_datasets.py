"""Data sets out of the pages and back: as they are kept, for those who may read, and through admission."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from store.decisions.reviews import Review
from store.sums import DELETED
from tests.admin.site import site
from tests.admin.traffic import QUESTION, UNLIKE, house
from tests.store.rows import request_record

SECRET = "The key is sk-proj-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEf."


def line(question: str, answer: str) -> str:
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return json.dumps({"messages": messages, "id": 7, "quality": None})


async def test_requests_and_examples_go_out_and_come_back_through_admission(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        operator, reader = await here.site.person("operator"), await here.site.person("viewer-content")
        viewer = await here.site.person("viewer")
        got = await reader.get("/datasets/requests.jsonl")
        (row,) = map(json.loads, got.text.splitlines())
        assert [one["content"] for one in row["messages"]] == [QUESTION, "Use ls -a."]
        assert got.headers["Content-Disposition"] == 'attachment; filename="requests.jsonl"'
        assert got.headers["Cache-Control"] == "no-store" and "nosniff" in got.headers.values()
        examples = (await reader.get("/datasets/examples.jsonl")).text
        assert json.loads(examples)["messages"][1]["content"] == "Use ls -a."
        for path in ("/datasets", "/datasets/requests.jsonl", "/datasets/examples.jsonl"):
            assert (await viewer.get(path)).status == 403
        assert (await reader.get("/datasets/requests.jsonl?to=1970-01-02T00:00")).text == ""
        assert (await reader.get("/datasets/requests.jsonl?most=0")).status == 400
        assert (await reader.get("/datasets/examples.jsonl?tenant=nobody")).status == 400
        noted = here.site.sources.store.audit.page(action="/datasets/requests.jsonl")
        assert len(noted) == 2 and noted[0].user == "a-viewer-content"

        tenant = row["tenant"]
        lines = "\n".join([examples.strip(), line(UNLIKE, "Rossini."), line("Key?", SECRET), "no json", "[]"])
        fields = {"tenant": tenant, "lines": lines, "kind": "observed"}
        assert (await reader.post("/datasets/import", fields)).status == 403
        shown = await operator.post("/datasets/import", fields)
        assert shown.status == 200 and "secrets" in shown.text and "sk-proj" not in shown.text
        told = await operator.post("/datasets/import", fields, Accept="application/json")
        assert (told.json["added"], told.json["bad"], told.json["refused"]) == (0, 2, {"secrets": 1})
        # The one with a system prompt's scope is its own; what was exported is there already.
        answers = [
            json.loads(each)["messages"][1]["content"]
            for each in (await reader.get(f"/datasets/examples.jsonl?tenant={tenant}")).text.splitlines()
        ]
        assert answers.count("Rossini.") == 1
        assert (await operator.post("/datasets/import", {**fields, "tenant": "nobody"})).status == 400
        assert (await operator.post("/datasets/import", {"tenant": tenant})).status == 400
        noted = here.site.sources.store.audit.page(action="/datasets/import")
        assert any(one.outcome == "done" and one.detail["bad"] == 2 for one in noted)


async def test_the_banks_own_export_does_not_go_past_admission(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        operator = await here.site.person("operator")
        tenant = (await operator.get("/datasets.json")).json["rows"][0]["tenant"]
        own = json.dumps(
            {
                "understudy": 1,
                "scope": "s",
                "question": "q",
                "answer": SECRET,
                "embedded_text": "q",
                "request_id": "r",
            }
        )
        got = await operator.post(
            "/datasets/import", {"tenant": tenant, "lines": own}, Accept="application/json"
        )
        assert got.json["added"] == 0 and got.json["bad"] == 1


async def test_reviewed_answers_have_verdict_propensity_and_the_correction(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        asked = [await here.ask(QUESTION), await here.ask(UNLIKE)]
        operator = await here.site.person("operator")
        store = here.site.sources.store
        tenant = json.loads((await operator.get("/datasets/requests.jsonl")).text.splitlines()[0])["tenant"]
        asked.append(await here.ask("How long does a parcel take?"))
        for number, (id, verdict) in enumerate(zip(asked, ("bad", "corrected", "skip"), strict=True)):
            noted = store.outcomes.reviews.note(Review(tenant, id, 100.0 + number, "ann", verdict, 0.2))  # type: ignore[arg-type]
            await asyncio.wrap_future(noted)
        got = await operator.post(f"/requests/{asked[1]}/correct", {"correction": "Rossini, in 1816."})
        assert got.status == 303, got.text[-3000:]
        lines = [json.loads(one) for one in (await operator.get("/datasets/reviews.jsonl")).text.splitlines()]
        skipped, corrected, bad = lines
        assert (corrected["verdict"], bad["verdict"]) == ("corrected", "bad")
        assert skipped["verdict"] == "skip" and skipped["messages"][-1]["weight"] == 0, "nobody found it good"
        assert corrected["messages"][-1] == {"role": "assistant", "content": "Rossini, in 1816."}
        assert bad["messages"][-1]["weight"] == 0 and bad["propensity"] == 0.2 and bad["reviewer"] == "ann"
        assert len((await operator.get("/datasets/reviews.jsonl?most=1")).text.splitlines()) == 1


@pytest.mark.parametrize("chosen", [True, False], ids=["a file", "pasted lines"])
async def test_a_browsers_form_is_taken_with_a_file_and_with_none(tmp_path: Path, chosen: bool) -> None:
    """Where no file was chosen, its part has no name and nothing in it: the pasted lines were not looked at."""
    async with house(tmp_path) as here:
        await here.ask(QUESTION)
        operator = await here.site.person("operator")
        tenant = (await operator.get("/datasets.json")).json["rows"][0]["tenant"]
        fields = {"form_token": operator.form_token, "tenant": tenant, "kind": "observed"}
        told = line(UNLIKE, "Rossini.")
        parts = [f'name="{name}"\r\n\r\n{value}' for name, value in fields.items()]
        name, content = ("lines.jsonl", told) if chosen else ("", "")
        parts.append(
            f'name="file"; filename="{name}"\r\nContent-Type: application/octet-stream\r\n\r\n{content}'
        )
        parts.append(f'name="lines"\r\n\r\n{"" if chosen else told}')
        body = "".join(f"--B\r\nContent-Disposition: form-data; {part}\r\n" for part in parts) + "--B--\r\n"
        sent = {"Content-Type": "multipart/form-data; boundary=B", "Origin": operator.url}
        url = f"{operator.url}/datasets/import"
        async with operator.session.post(
            url, data=body, headers={**sent, "Accept": "application/json"}
        ) as answer:
            got = await answer.json()
        assert (got["added"], got["bad"], got["problems"]) == (1, 0, [])


async def test_what_is_not_kept_as_a_whole_says_so_and_is_not_trained_on(tmp_path: Path) -> None:
    async with house(tmp_path) as here:
        here.large.says = "So it goes. " * 8000
        await here.ask(QUESTION)
        reader = await here.site.person("viewer-content")
        (row,) = map(json.loads, (await reader.get("/datasets/requests.jsonl")).text.splitlines())
        assert row["cut"] and row["messages"][-1]["weight"] == 0
        assert len(row["messages"][-1]["content"]) < len(here.large.says)


async def test_deleted_tenants_are_nobody_to_take_lines_back_for(tmp_path: Path) -> None:
    async with site(tmp_path) as pages:
        store = pages.sources.store
        gone, there = (store.keys.create(name, "app")[0].tenant for name in ("acme", "umbrella"))
        for number, tenant in enumerate((gone, there, "a" * 32)):
            await asyncio.to_thread(
                store.decisions.requests.record(request_record(number, tenant=tenant)).result, 60
            )
        operator = await pages.person("operator")
        done = await operator.post(f"/tenants/{gone}/delete", {"name": "acme"})
        assert done.status == 200 and "Statement of deletion" in done.text
        rows = {one["tenant"]: one["name"] for one in (await operator.get("/datasets.json")).json["rows"]}
        assert rows == {there: "umbrella", "a" * 32: "a" * 12}
        assert (await operator.get(f"/datasets/requests.jsonl?tenant={'a' * 32}")).status == 200
        for tenant in (gone, DELETED):
            assert (await operator.get(f"/datasets/examples.jsonl?tenant={tenant}")).status == 400
