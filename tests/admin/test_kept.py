"""Results are shown to the session that made them, and secrets once."""

from __future__ import annotations

from pathlib import Path

from admin.kept import Results
from tests.admin.site import site


def test_a_result_is_this_sessions_and_once() -> None:
    results = Results()
    id = results.put("mine", None, "t", {}, "", again=False)
    assert results.take(id, "another") is None
    assert results.take(id, "mine") is not None and results.take(id, "mine") is None
    id = results.put("mine", None, "t", {}, "", again=True)
    assert results.take(id, "mine") is not None and results.take(id, "mine") is not None


async def test_loading_a_result_again_repeats_nothing(tmp_path: Path) -> None:
    async with site(tmp_path) as pages:
        operator, other = await pages.person("operator"), await pages.person("viewer")
        form = {"form_token": operator.form_token, "tenant": "acme", "name": "app"}
        url = pages.url + "/tenants/create-key"
        async with operator.session.post(
            url, data=form, headers={"Origin": pages.url}, allow_redirects=False
        ) as answer:
            assert answer.status == 303
            to = answer.headers["Location"]
        assert (await other.get(to)).status == 404
        shown = await operator.get(to)
        assert shown.status == 200 and "Copy it now" in shown.text
        assert (await operator.get(to)).status == 404
        assert len(pages.sources.store.keys.list()) == 1
