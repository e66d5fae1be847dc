"""Who is who while the gateway has no keys of its own, over real sockets: every credential tells clients apart."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from store.people.secret import tenant_id
from tests.flow.line import Got
from tests.flow.test_line_demonstrations import ask, give
from tests.flow.test_line_examples import ALIKE, QUESTION, Stage, stage
from tests.patience import until
from tests.store.behind import database

README = Path(__file__).parents[2] / "README.md"
CREDENTIALS = (
    "Authorization",
    "api-key",
    "x-api-key",
    "x-goog-api-key",
    "Ocp-Apim-Subscription-Key",
    "Cookie",
    "Proxy-Authorization",
)
NOBODY: dict[str, str] = {}


@asynccontextmanager
async def closed(data: Path, **more: Any) -> AsyncIterator[Stage]:
    """A stage as configured by default: who sends no credential is not remembered."""
    memory = {"data_dir": str(data), "exact": {"enabled": True}, "anonymous": False} | more.pop("memory", {})
    async with stage(data, memory=memory, **more) as here:
        yield here


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Stage]:
    async with closed(tmp_path / "data") as made:
        yield made


async def listed(here: Stage, headers: dict[str, str]) -> list[str]:
    got = await ask(here.gate, "GET", "/examples", headers)
    return [example["question"] for example in got.json["data"]]


@pytest.mark.parametrize("name", CREDENTIALS)
async def test_two_clients_share_nothing_whatever_header_holds_their_credential(
    here: Stage, name: str
) -> None:
    alice, bob = {name: "token=alice-secret"}, {name: "token=bob-secret"}
    await here.gate.chat(QUESTION, alice)
    assert not (await here.gate.chat(QUESTION, bob)).hit
    assert (await here.gate.chat(QUESTION, alice)).hit
    assert len(here.large.asked) == 2 and not here.small.asked
    (id,) = [e["id"] for e in (await ask(here.gate, "GET", "/examples", alice)).json["data"]]
    assert (await ask(here.gate, "GET", f"/examples/{id}", bob)).status == 404
    assert (await ask(here.gate, "DELETE", f"/examples/{id}", bob)).status == 404
    assert await listed(here, alice) == [QUESTION]


async def test_one_credential_among_equal_ones_is_enough_to_be_somebody_else(here: Stage) -> None:
    shared = {"Authorization": "Bearer sk-shared"}
    await here.gate.chat(QUESTION, shared | {"api-key": "alice"})
    for other in (shared | {"api-key": "bob"}, shared, shared | {"Cookie": "session=7"}):
        assert not (await here.gate.chat(QUESTION, other)).hit
        assert await listed(here, other) != []
    assert len(here.large.asked) == 4


async def test_a_cookie_that_a_load_balancer_set_makes_nobody_somebody_else(here: Stage) -> None:
    alice = {"Authorization": "Bearer sk-alice"}
    await here.gate.chat(QUESTION, alice)
    again = await here.gate.chat(QUESTION, alice | {"Cookie": "AWSALB=f00; __cf_bm=ba7"})
    assert again.hit


async def test_further_headers_tell_clients_apart_where_they_are_named(tmp_path: Path) -> None:
    async with closed(tmp_path, listen={"tenant_headers": ["x-customer", "AUTHORIZATION"]}) as here:
        alice = {"Authorization": "Bearer sk-shared", "x-customer": "alice"}
        await here.gate.chat(QUESTION, alice)
        assert not (await here.gate.chat(QUESTION, alice | {"x-customer": "bob"})).hit
        assert (await here.gate.chat(QUESTION, alice)).hit
        assert (await ask(here.gate, "GET", "/examples", {"x-customer": "carol"})).status == 200


@pytest.mark.parametrize(
    ("headers", "credential"),
    [
        ({"Authorization": "Bearer sk-alice"}, "sk-alice"),
        ({"Authorization": "Basic YWxpY2U6eA=="}, "Basic YWxpY2U6eA=="),
        ({"api-key": "azure-alice"}, "azure-alice"),
    ],
)
async def test_who_sends_one_credential_is_the_tenant_that_its_data_was_kept_for(
    here: Stage, headers: dict[str, str], credential: str
) -> None:
    await here.gate.chat(QUESTION, headers)
    memory = here.gate.gateway.memory
    assert memory is not None
    assert set(memory.store.examples.tenants()) == {tenant_id(memory.store.secret, credential)}


async def test_nothing_is_kept_of_a_request_without_a_credential_and_nothing_used_for_it(here: Stage) -> None:
    for headers in (NOBODY, {"Authorization": "Bearer"}, {"Authorization": ""}):
        for question in (QUESTION, QUESTION, ALIKE):
            got = await here.gate.chat(question, headers)
            assert got.status == 200 and not got.hit and got.headers["x-understudy-engine"] == "large"
    assert len(here.large.asked) == 9 and not here.small.asked
    memory = here.gate.gateway.memory
    assert memory is not None
    for table in ("examples", "exact_answers", "request_texts", "choices", "requests", "private_questions"):
        assert database(memory.store).read().execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), (
            table
        )


async def test_nobody_has_no_examples_and_gives_no_feedback(here: Stage) -> None:
    got = await here.gate.chat(QUESTION, NOBODY)
    decision = got.headers["x-understudy-decision-id"]
    refused = [
        await give(here.gate, headers=NOBODY),
        await ask(here.gate, "GET", "/examples", NOBODY),
        await ask(here.gate, "DELETE", "/examples?user=ann", NOBODY),
        await here.gate.post("/feedback", {"decision_id": decision, "thumb": "up"}, NOBODY),
    ]
    for each in refused:
        assert each.status == 401 and each.json["error"]["code"] == "missing_credential"


async def test_nobody_is_one_tenant_where_the_operator_says_so(tmp_path: Path) -> None:
    async with closed(tmp_path, memory={"anonymous": True}) as here:
        await here.gate.chat(QUESTION, NOBODY)
        assert (await here.gate.chat(QUESTION, NOBODY)).hit
        assert (await here.gate.chat(ALIKE, NOBODY)).headers["x-understudy-engine"] == "small"
        assert await listed(here, NOBODY) == [QUESTION]


@pytest.mark.parametrize("name", ["x-api-key", "api-key", "Authorization"])
async def test_a_gateway_key_is_one_in_any_of_its_headers_and_leaves_for_no_upstream(
    here: Stage, name: str
) -> None:
    memory = here.gate.gateway.memory
    assert memory is not None
    secret = memory.store.keys.create("acme", "test")[1]
    await until(lambda: memory.store.keys.lookup(secret) is not None, "the key known")
    assert (await here.gate.chat(QUESTION, {name: secret})).status == 200
    assert (await here.gate.chat(QUESTION, {"x-api-key": secret})).hit
    assert (await here.gate.chat(QUESTION, {"Authorization": "Bearer other", "x-api-key": secret})).hit
    assert (await here.gate.chat(QUESTION, {"x-goog-api-key": secret})).status == 401
    (asked,) = here.large.asked
    assert secret not in str(asked.headers)


async def test_the_readmes_feedback_call_works_as_it_is_printed(here: Stage) -> None:
    # As the README's SDK call before it: the client's own key, and no other header that says who it is.
    asked = await here.gate.chat(QUESTION, {"Authorization": "Bearer sk-of-the-reader"})
    got = await printed_call(here, "sk-of-the-reader", asked.json["id"])
    assert got.status == 201 and got.json["thumb"] == "up"


async def printed_call(here: Stage, key: str, completion_id: str) -> Got:
    """The README's `curl .../v1/feedback`, sent as a shell would have curl send it."""
    found = re.search(
        r"^curl \S+/v1/feedback(?:.*\\\n)*.*$", README.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert found is not None
    words = shlex.split(found[0].replace("\\\n", " ").replace("$OPENAI_API_KEY", key))
    headers = dict(words[i + 1].split(": ", 1) for i, word in enumerate(words) if word == "-H")
    body = words[words.index("-d") + 1].replace("chatcmpl-...", completion_id)
    return await here.gate.post("/feedback", body.encode(), headers)
