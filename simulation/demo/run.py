"""Runs the demo: starts a gateway, sends it simulated requests, compares with each engine alone, prints the results."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import aiohttp

from simulation.demo import document_question
from simulation.demo.admin_access import AdminAccess, admin_access, create_account
from simulation.demo.client import AfterEach, Client
from simulation.demo.gateway_process import RunningGateway, running_gateway
from simulation.demo.keys import create_keys
from simulation.demo.log_report import report_on
from simulation.demo.notes import notes, with_notes
from simulation.demo.operator import Operator, PagesDidNot
from simulation.demo.results import Answers, Results, quarters, summary
from simulation.demo.screen import Screen
from simulation.demo.settings import (
    KEY,
    LARGE,
    REAL_WITHIN_S,
    REPLAY_USD,
    SMALL,
    DemoSettings,
    gateway_config,
    memory_folder,
    turns_bad_at,
)
from simulation.demo.sorting_questions import NUMBER, grade, sort_questions
from simulation.demo.try_it import write_scripts
from simulation.stream import Ask, Stream
from simulation.world import World, seeded

INTERRUPTED = 130
"""Exit status after Ctrl-C before the results, as shells have it."""
_REFRESH_EVERY_S = 0.25
_REVIEWS = 60
_STUDENT_S = 60.0
"""Time that a student may take to be trained."""


async def run(settings: DemoSettings, screen: Screen, *, results_file: Path | None, stay: bool) -> int:
    """The whole demo; `stay` leaves the gateway running until Ctrl-C. Returns the exit status. Raises GatewayDidNotStart."""
    this_task = asyncio.current_task()
    assert this_task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, this_task.cancel)
    finished = False
    try:
        with tempfile.TemporaryDirectory(prefix="understudy-demo-") as folder:
            async with started(settings, Path(folder), screen) as (gateway, admin):
                results = await measure(settings, gateway, screen)
                screen.results(results)
                # What follows needs simulated engines.
                if not settings.real:
                    await ask_about_documents(gateway, screen)
                    await sort_some(settings, gateway, screen)
                    if admin is not None:
                        await look_after(settings, gateway, admin, screen)
                if results_file is not None:
                    _write(results_file, results)
                finished = True
                if stay:
                    places = (Path.cwd(), Path(folder))
                    tries = write_scripts(places, gateway.url, _example_question(settings))
                    screen.next_steps(gateway.url, tries, admin)
                    await asyncio.Event().wait()
    except asyncio.CancelledError:
        screen.say("\nStopped.")
    return 0 if finished else INTERRUPTED


@asynccontextmanager
async def started(
    settings: DemoSettings, folder: Path, screen: Screen
) -> AsyncIterator[tuple[RunningGateway, AdminAccess | None]]:
    """A gateway that is ready, and access to its admin pages where they are served."""
    async with AsyncExitStack() as stack:
        with screen.waiting():
            password = None
            if settings.admin_port is not None:
                screen.step("creating an account for the admin pages")
                password = await asyncio.to_thread(create_account, memory_folder(folder))
                await asyncio.to_thread(create_keys, memory_folder(folder), settings)
            screen.step("starting the gateway")
            gateway = await stack.enter_async_context(
                running_gateway(gateway_config(settings, folder), folder, screen.step)
            )
            admin = None if password is None else await admin_access(gateway, password)
        if admin is not None:
            screen.admin_access(admin)
        elif settings.admin_port is not None:
            screen.say(
                f"The admin pages did not start: {gateway.log} says why. The demo goes on without them."
            )
        yield gateway, admin


async def measure(settings: DemoSettings, gateway: RunningGateway, screen: Screen) -> Results:
    """Send the requests to a ready gateway, then measure the baselines."""
    from openai import AsyncOpenAI

    world = World(settings.seed, settings.facts)
    asks: list[Ask] = list(Stream(world, settings.requests, seed=settings.seed))
    if settings.real:
        asks = with_notes(world, asks)
    pace = "one by one" if settings.sequential else f"{settings.rate_per_s:g} per second"
    number = f"{len(asks)} requests" if settings.seconds is None else f"{settings.seconds:g} s of requests"
    screen.step(
        f"Playing {number} about an invented world at {gateway.url}/v1 ({pace}, seed {settings.seed}) ..."
    )
    answers = Answers()
    async with (
        AsyncOpenAI(
            base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0, timeout=REAL_WITHIN_S
        ) as openai,
        aiohttp.ClientSession() as http,
    ):
        client = Client(openai, world, settings)
        with screen.live(answers):
            turn_bad = _turning_bad(gateway, screen) if settings.drift else None
            await _send_and_show(client, asks, answers, screen, lambda: gateway.settled(http), turn_bad)
        bypassed = await gateway.bypassed(http)
        results = await _compared(settings, client, asks, answers, screen, bypassed)
    return replace(
        results,
        quarters=quarters(answers),
        opened=gateway.logged("offload_opened"),
        closed=gateway.logged("offload_closed"),
    )


async def ask_about_documents(gateway: RunningGateway, screen: Screen) -> None:
    """Ask one question about documents, as a workflow."""
    from openai import AsyncOpenAI, OpenAIError

    async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0, timeout=60) as openai:
        try:
            screen.document_answer(await document_question.ask(openai))
        except OpenAIError as error:
            screen.say(f"The question about documents failed: {error}")


async def sort_some(settings: DemoSettings, gateway: RunningGateway, screen: Screen) -> None:
    """Have questions sorted, which a student learns to do."""
    from openai import AsyncOpenAI, OpenAIError

    screen.step(f"Sorting {NUMBER} questions by what they are about, a task that a student learns ...")
    asks = list(Stream(World(settings.seed, settings.facts), 2 * NUMBER, seed=settings.seed))
    async with AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0, timeout=60) as openai:
        try:
            await sort_questions(openai, settings, asks, lambda: _student(gateway))
        except OpenAIError as error:
            screen.say(f"Sorting failed: {error}")


async def _student(gateway: RunningGateway) -> None:
    """Wait until a student is in use, or has taken too long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_STUDENT_S):
            while True:
                if gateway.logged("artifact_in_use", kind="student"):
                    return
                await asyncio.sleep(_REFRESH_EVERY_S)


async def look_after(
    settings: DemoSettings, gateway: RunningGateway, admin: AdminAccess, screen: Screen
) -> None:
    """Do on the admin pages what an operator would: their results are there when somebody looks."""
    if not settings.judges:
        return
    screen.step(
        "On the admin pages: a run of replay, the map of examples, reviews, what a log would have saved ..."
    )
    world = World(settings.seed, settings.facts)
    try:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            operator = Operator(http, admin)
            await operator.sign_in()
            await operator.look_after(REPLAY_USD)
            await operator.review(partial(grade, world), _REVIEWS)
            log = await operator.download("/datasets/requests.jsonl")
        if not await report_on(log, settings, gateway.log.parent):
            screen.say("What a log would have saved could not be told: the replay failed, or took too long.")
    except (PagesDidNot, aiohttp.ClientError) as error:
        screen.say(f"The admin pages did not do it: {error}")


def _turning_bad(gateway: RunningGateway, screen: Screen) -> Callable[[], None]:
    def turn_bad() -> None:
        turns_bad_at(gateway.log.parent).touch()
        screen.step("From now on the small engine gets nearly everything wrong.")

    return turn_bad


async def _send_and_show(
    client: Client,
    asks: Sequence[Ask],
    answers: Answers,
    screen: Screen,
    settled: AfterEach,
    half_way: Callable[[], None] | None,
) -> None:
    """Send all requests. `half_way` is called once, when half of them are answered."""

    async def refresh() -> None:
        wanted = half_way
        while True:
            if wanted is not None and len(answers.graded) >= len(asks) // 2:
                wanted()
                wanted = None
            screen.refresh(answers)
            await asyncio.sleep(_REFRESH_EVERY_S)

    async with asyncio.TaskGroup() as group:
        refreshing = group.create_task(refresh())
        try:
            await client.send(asks, answers, settled)
        finally:
            refreshing.cancel()


async def _compared(
    settings: DemoSettings,
    client: Client,
    asks: Sequence[Ask],
    answers: Answers,
    screen: Screen,
    bypassed: int,
) -> Results:
    """The results, with the baselines: a sample of the requests, sent again to each engine alone."""
    rng = seeded("baseline", settings.seed)
    sent = asks[: len(answers.graded) + len(answers.failures)]
    sample = rng.sample(sent, min(settings.baseline, len(sent)))
    offloaded = sorted(answer.number for answer in answers.of("offloaded"))
    by_number = {ask.number: ask for ask in sent}
    offloaded_sample = [by_number[n] for n in rng.sample(offloaded, min(settings.baseline, len(offloaded)))]
    large, small, without_examples = Answers(), Answers(), Answers()
    screen.step(f"To compare: {len(sample)} of the same requests to the large engine alone ...")
    await client.send_to_engine(sample, LARGE, large)
    screen.step(f"{len(sample)} to the small engine alone, without examples ...")
    await client.send_to_engine(sample, SMALL, small)
    screen.step(f"{len(offloaded_sample)} of the offloaded to the small engine, without examples ...")
    await client.send_to_engine(offloaded_sample, SMALL, without_examples)
    failures = [text for part in (answers, large, small, without_examples) for text in part.failures]
    for text in sorted(set(failures))[:5]:
        screen.say(f"failed: {text}")
    return Results(
        whole=summary(answers.graded),
        hits=summary(answers.of("hit")),
        offloaded=summary(answers.of("offloaded")),
        large=summary(answers.of("large")),
        failed=len(failures),
        feedback_refused=answers.feedback_refused,
        bypassed=bypassed,
        always_large=summary(large.graded),
        small_alone=summary(small.graded),
        offloaded_without_examples=summary(without_examples.graded),
    )


def _write(path: Path, results: Results) -> None:
    path.write_text(json.dumps(results.as_json(), indent=2) + "\n", encoding="utf-8")


def _example_question(settings: DemoSettings) -> str:
    world = World(settings.seed, settings.facts)
    fact = world.facts[0]
    question = fact.relation.forms[0].format(e=fact.entity)
    return f"{notes(world)['content']}\n\n{question}" if settings.real else question
