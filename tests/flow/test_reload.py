"""A running gateway takes up a changed configuration without a request noticing; a wrong one is refused, saying why."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.flow.process import ran
from tests.flow.reloading import Held, Site, site
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def alone(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """One process for all tests here."""
    async with site(tmp_path_factory.mktemp("alone")) as made:
        yield made


@pytest.mark.slow
async def test_open_requests_end_as_they_began_and_new_ones_go_by_the_new_configuration(alone: Site) -> None:
    held = Held(alone.behind)
    engine = next(iter(alone.config["engines"].values()))
    alone.write(engines={"a": {**engine, "model": "m-a"}}, models={"m": {"engines": ["a"]}})
    assert (await alone.order()).done
    stream = asyncio.create_task(alone.chat("m", "open", stream=True))
    await until(lambda: held.begun, "the stream began")
    before = (await alone.ready())["config"]
    alone.write(engines={"b": {**engine, "model": "m-b"}}, models={"m": {"engines": ["b"]}})
    assert (await alone.order()).done
    assert (await alone.ready())["config"] != before
    assert b"m-b" in (await alone.chat("m", "new"))[1]
    held.go.set()
    status, said = await stream
    assert status == 200 and b"m-a" in said and b"to its end" in said and said.endswith(b"[DONE]\n\n")


async def test_what_is_remembered_is_there_after_a_reload(alone: Site) -> None:
    Held(alone.behind)
    await alone.chat("m", "remembered")
    asked = len(alone.behind.asked)
    alone.write(log={"requests": False})
    assert (await alone.order()).done
    await alone.chat("m", "remembered")
    assert len(alone.behind.asked) == asked


async def test_a_half_written_file_is_refused_with_its_reason_until_it_is_whole(alone: Site) -> None:
    path = alone.folder / "config.yaml"
    whole = path.read_text()
    for text in (whole[: len(whole) // 2], "", "models: {m: {engines: [nobody]}}"):
        path.write_text(text)
        verdict = await alone.order()
        assert not verdict.done and verdict.text
        # The order is answered, and the worker is told.
        async with asyncio.timeout(PATIENCE_S):
            while (ready := await alone.ready())["status"] == "ok":
                await asyncio.sleep(0.05)
        assert ready["status"] == "degraded" and "could not be loaded" in ready["problems"][0]
        assert (await alone.chat("m", "meanwhile"))[0] == 200
    path.write_text(whole)
    assert (await alone.order()).done
    assert (await alone.ready())["status"] == "ok"


async def test_what_cannot_change_is_named(alone: Site) -> None:
    before = dict(alone.config)
    for changes, name in (
        ({"listen": {**before["listen"], "host": "127.0.0.2"}}, "listen.host"),
        ({"listen": {**before["listen"], "workers": 3}}, "listen.workers"),
        ({"memory": {**before["memory"], "data_dir": str(alone.folder / "other")}}, "memory.data_dir"),
        ({"memory": None}, "memory"),
    ):
        alone.config.clear()
        alone.write(**(before | changes))
        verdict = await alone.order()
        assert not verdict.done and name in verdict.text, (changes, verdict)
    alone.config.clear()
    alone.write(**before)
    assert (await alone.order()).done


@pytest.mark.slow
async def test_orders_that_come_together_are_carried_out_together(alone: Site) -> None:
    before = len(alone.process.events("config_reloaded"))
    alone.write(feedback={"enabled": False})
    verdicts = await asyncio.gather(*(alone.order() for _ in range(5)))
    assert all(verdict.done for verdict in verdicts)
    assert len(alone.process.events("config_reloaded")) <= before + 2


async def test_a_signal_reloads_and_the_command_says_what_became_of_it(alone: Site) -> None:
    engine = next(iter(alone.config["engines"].values()))
    alone.write(engines={"c": {**engine, "model": "m-c"}}, models={"n": {"engines": ["c"]}})
    alone.process.process.send_signal(signal.SIGHUP)
    Held(alone.behind)

    async def taken_up() -> bool:
        return (await alone.chat("n", "signal"))[0] == 200

    while not await taken_up():
        await asyncio.sleep(0.05)
    data = str(alone.folder / "data")
    assert await asyncio.to_thread(ran, "reload", "--data", data) == (
        0,
        "reloaded: 1 workers were replaced\n",
        "",
    )
    (alone.folder / "config.yaml").write_text("engines: 7")
    status, _, said = await asyncio.to_thread(ran, "reload", "--data", data)
    assert status == 1 and "engines" in said and "refused" in said
    status, _, said = await asyncio.to_thread(ran, "reload", "--data", str(alone.folder / "nowhere"))
    assert status == 2 and "--data" in said


@pytest.mark.slow
async def test_keys_that_are_listed_anew_are_taken_and_those_listed_no_more_refused(alone: Site) -> None:
    # The last test here: once there was a key, nobody is let in without one.
    Held(alone.behind).go.set()
    engine = next(iter(alone.config["engines"].values()))
    old, new = "listed-at-first-0123", "listed-later-0123456"
    alone.write(engines={"a": engine}, models={"m": {"engines": ["a"]}}, keys={"web": {"secret": old}})
    assert (await alone.order()).done
    assert [(await alone.chat("m", "q", key=key))[0] for key in (old, new)] == [200, 401]
    alone.write(keys={"web": {"secret": old}, "app": {"secret": old}})
    refused = await alone.order()
    assert not refused.done and "keys.web and keys.app have the same secret" in refused.text
    assert (await alone.chat("m", "q", key=old))[0] == 200, "what was is kept"
    alone.write(keys={"app": {"secret": new}})
    assert (await alone.order()).done
    assert [(await alone.chat("m", "q", key=key))[0] for key in (old, new)] == [401, 200]
