"""The demo as a whole: a real gateway process, the official SDK, the simulated world. Small, and at pace 0."""

import asyncio
import fcntl
import io
import json
import os
import re
import signal
import socket
import sys
import tempfile
import urllib.request
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from rich.console import Console

from learning.logs.report import REPORT
from simulation.demo.admin_access import admin_access
from simulation.demo.client import route_of
from simulation.demo.gateway_process import GatewayDidNotStart, RunningGateway, running_gateway
from simulation.demo.log_report import report_on
from simulation.demo.results import GradedAnswer
from simulation.demo.run import ask_about_documents, measure, started
from simulation.demo.screen import Screen
from simulation.demo.settings import DemoSettings, gateway_config, memory_folder
from simulation.demo.sorting_questions import grade
from simulation.sorting import OTHER, PROMPT
from simulation.world import World

SETTINGS = DemoSettings(
    requests=150,
    rate_per_s=None,
    pace=0,
    baseline=24,
    proof="off",
    policy="few_shot",
    judged=False,
    feedback_share=0,
)
"""By the rule alone: comparisons in the background end when they end."""


async def measured(settings, folder):
    out = io.StringIO()
    screen = Screen(Console(file=out, width=120), settings)
    folder.mkdir()
    async with running_gateway(gateway_config(settings, folder), folder) as gateway:
        results = await measure(settings, gateway, screen)
    screen.results(results)
    return results, out.getvalue()


@pytest.mark.slow
async def test_the_same_seed_gives_the_same_numbers(tmp_path):
    (one, shown), (two, _) = [await measured(SETTINGS, tmp_path / name) for name in ("one", "two")]
    assert one.repeatable() == two.repeatable()
    assert one.failed == 0
    assert one.whole.requests == SETTINGS.requests
    assert one.hits.requests + one.offloaded.requests + one.large.requests == SETTINGS.requests
    assert one.offloaded.requests > 10
    assert one.hits.requests > 5
    assert one.always_large.quality == 1.0
    assert one.small_alone.quality < 0.6
    assert one.offloaded.quality > one.offloaded_without_examples.quality + 0.2
    assert one.cost_ratio < 1
    for figure in (f"{one.offloaded_share:.1%} of all requests", "Everything here is simulated"):
        assert figure in shown
    assert json.loads(json.dumps(one.as_json()))["offloaded"]["requests"] == one.offloaded.requests


@pytest.mark.slow
async def test_a_question_about_documents_is_answered_by_a_workflow(tmp_path):
    out = io.StringIO()
    screen = Screen(Console(file=out, width=120), SETTINGS)
    async with running_gateway(gateway_config(SETTINGS, tmp_path), tmp_path) as gateway:
        await ask_about_documents(gateway, screen)
    shown = out.getvalue()
    assert "Its first keeper was Ada Holm, who lived there for forty years with two goats." in shown
    assert re.search(r"the model doc-qa, which is a workflow of \d\d steps", shown) and "run_" in shown


async def test_admin_pages_that_do_not_come_up_do_not_delay_the_demo(tmp_path):
    (tmp_path / "gateway.log").write_text('{"event": "listening", "url": "http://127.0.0.1:1"}\n')
    assert (
        await admin_access(RunningGateway("http://127.0.0.1:1", tmp_path / "gateway.log"), "x", wait_s=0.2)
        is None
    )


async def test_a_gateway_that_cannot_start_says_why(tmp_path):
    config = gateway_config(SETTINGS, tmp_path) | {"listen": {"port": 0, "nonsense": 1}}
    with pytest.raises(GatewayDidNotStart, match=r"listen\.nonsense"):
        async with running_gateway(config, tmp_path):
            pass


@pytest.fixture
def port_of_the_pages():
    """The demo takes 8081 for its pages where that is free: of two that start at once, both would find it so."""
    with (Path(tempfile.gettempdir()) / "understudy-demo-port.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def line_with(stream, text, besides="nothing of it"):
    while line := await stream.readline():
        if text in line.decode() and besides not in line.decode():
            return line.decode()
    raise AssertionError(f"the demo ended without saying {text!r}")


async def demo_process(*arguments, cwd=None, **environment):
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "understudy", "demo", "--port", "0", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=os.environ | {"PYTHONUNBUFFERED": "1"} | environment,
        cwd=cwd,
    )


async def typed(command, folder):
    """What a command prints in a shell, which has to succeed."""
    shell = await asyncio.create_subprocess_shell(command, cwd=folder, stdout=asyncio.subprocess.PIPE)
    said = (await shell.stdout.read()).decode()
    assert await shell.wait() == 0, command
    return said


async def signed_in(url, name, password):
    """The first figure of the overview, as somebody sees it who was given this name and password."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(url, cookie_jar=jar) as browser:
        page = await (await browser.get("/sign-in")).text()
        token = re.search(r'name="form_token" value="(\w+)"', page)[1]
        form = {"form_token": token, "name": name, "password": password}
        page = await (await browser.post("/sign-in", data=form, headers={"Origin": url})).text()
        return re.search(r"<dt>(?:<a[^>]*>)?(\w+)", page)[1]


@pytest.mark.slow
async def test_it_says_what_it_does_from_the_first_line_on_and_serves_no_admin_pages_where_none_are_wanted(
    tmp_path,
):
    demo = await demo_process(
        *("--seconds", "0.2", "--rate", "20", "--baseline", "4", "--admin", "off", "--no-wait"),
        XDG_CACHE_HOME=str(tmp_path),
    )
    printed = (await demo.stdout.read()).decode()
    assert await demo.wait() == 0
    assert "password" not in printed
    steps = (
        "A demo of Understudy",
        "starting the gateway",
        "opening the memory",
        "building the embedding model (once",
        "built the embedding model in",
        "listening at http://127.0.0.1:",
        "Playing 4 requests",
        "to the large engine alone",
        "to the small engine alone",
        "Results",
        "A question about 3 documents",
    )
    places = [printed.find(step) for step in steps]
    assert -1 not in places and places == sorted(places), printed


@pytest.mark.usefixtures("port_of_the_pages")
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
@pytest.mark.slow
async def test_interrupting_it_stops_the_gateway_too(number):
    demo = await demo_process("--seconds", "60")
    playing = await line_with(demo.stdout, "Playing")
    url = playing.split(" at ")[1].split("/v1")[0]
    with urllib.request.urlopen(f"{url}/healthz") as reply:
        assert reply.status == 200
    demo.send_signal(number)
    rest = (await demo.stdout.read()).decode()
    assert await demo.wait() == 130
    assert "Stopped." in rest
    assert "Traceback" not in rest
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{url}/healthz")


@pytest.mark.slow
@pytest.mark.usefixtures("port_of_the_pages")
async def test_it_leaves_the_gateway_running_and_says_what_to_try_next(tmp_path):
    demo = await demo_process(
        *("--seconds", "0.2", "--rate", "20", "--baseline", "4", "--json", str(tmp_path / "results.json")),
        cwd=tmp_path,
        PYTHONPATH=str(Path(__file__).parents[2]),
    )
    try:
        running = await line_with(demo.stdout, "still running at")
        url = running.split(" at ")[1].split(" ")[0]
        with urllib.request.urlopen(f"{url}/metrics") as reply:
            assert reply.status == 200
        assert json.loads((tmp_path / "results.json").read_text())["whole"]["requests"] == 4
        shell = (await line_with(demo.stdout, "try-it.sh")).strip()
        assert "cache-status: understudy; hit" in [await typed(shell, tmp_path) for _ in range(2)][1].lower()
        alone = (await line_with(demo.stdout, "try-it.sh")).strip()
        assert "x-understudy-engine: small" in (await typed(alone, tmp_path)).lower()
        assert await typed((await line_with(demo.stdout, "try_it.py")).strip(), tmp_path)
        admin = (await line_with(demo.stdout, "http://127.0.0.1:", besides="/metrics")).strip()
        name, password = re.search(
            r"name (\S+), password (\S+)", await line_with(demo.stdout, "name")
        ).groups()
        assert await signed_in(admin, name, password) == "Requests"
    finally:
        demo.send_signal(signal.SIGINT)
        await demo.stdout.read()
    assert await demo.wait() == 0


@pytest.mark.parametrize(
    ("headers", "route"),
    [
        ({"cache-status": "understudy; hit; ttl=5; detail=exact"}, "hit"),
        ({"cache-status": "understudy; fwd=miss; collapsed"}, "hit"),
        (
            {
                "cache-status": "understudy; fwd=miss",
                "x-understudy-engine": "small",
                "x-understudy-examples": "2",
            },
            "offloaded",
        ),
        ({"x-understudy-engine": "small", "x-understudy-examples": "0"}, "small"),
        ({"x-understudy-engine": "large", "x-understudy-examples": "0"}, "large"),
    ],
)
def test_the_answer_headers_tell_which_way_a_request_went(headers, route):
    assert route_of(headers) == route


def test_an_answer_that_does_not_say_who_gave_it_is_an_error():
    with pytest.raises(ValueError, match="without saying who"):
        route_of({})


def played(route, total_ms=100.0, grade=1.0):
    return GradedAnswer(0, route, grade, 40.0, total_ms, 1_000_000, 0, 0, 0.0, streamed=True)


def test_an_exact_hit_costs_nothing_and_the_others_their_engines_price():
    costs = {route: played(route).cost_usd for route in ("hit", "offloaded", "small", "large")}
    assert costs["hit"] == 0
    assert costs["offloaded"] == costs["small"] > 0
    assert costs["large"] > 10 * costs["small"]


async def test_a_demo_whose_admin_pages_cannot_be_served_says_so(tmp_path):
    out = io.StringIO()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = replace(SETTINGS, admin_port=taken.getsockname()[1])
        async with started(settings, tmp_path, Screen(Console(file=out, width=200), settings)) as (_, admin):
            assert admin is None
    assert "The admin pages did not start" in out.getvalue()


def test_the_demos_operator_grades_sorted_questions_by_their_label_and_nothing_unknown():
    world = World(7, 300)
    fact = world.facts[0]
    question = {"role": "user", "content": fact.relation.forms[0].format(e=fact.entity)}
    system = {"role": "system", "content": PROMPT.format(kinds=f"{fact.kind}, {OTHER}")}
    assert grade(world, [question], fact.value) == 1.0 and grade(world, [question], "nobody knows") == 0.0
    assert (
        grade(world, [system, question], fact.kind) == 1.0 and grade(world, [system, question], OTHER) == 0.0
    )
    assert grade(world, [{"role": "user", "content": "Read the documents, and answer."}], "Ada.") is None


@pytest.mark.slow
async def test_a_log_of_the_demo_is_replayed_for_its_page(tmp_path):
    memory_folder(tmp_path).mkdir()
    said = {"role": "user", "content": "Which city is the capital of Nowhere?"}
    line = {"messages": [said, {"role": "assistant", "content": "None is."}], "model": "demo"}
    assert await report_on((json.dumps(line) + "\n").encode() * 3, SETTINGS, tmp_path)
    assert not await report_on(b"", SETTINGS, tmp_path), "an empty log is refused"
    report = json.loads((memory_folder(tmp_path) / REPORT).read_text())
    assert report["total"]["requests"] == 3 and report["total"]["exact"] == 2
