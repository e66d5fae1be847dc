"""Comparisons that a proof wishes for: who is asked and how often, what equality tells, and what may be spent on them."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from engines.chat import ChatRequest, Usage
from engines.engine import Engine, EngineInfo, EngineRequest, Price
from learning.outcomes import account
from learning.outcomes.account import IN_VAIN_USD, Purse
from learning.outcomes.judge_exam import Exams
from learning.outcomes.judging_sample import Sample, sample
from router.asked import Controls
from router.finished import Finished
from router.plan import Action, Attempt, Candidate, Plan
from router.proving.standing import Proof, Standing
from router.shedding import Shedding
from simulation.engine import SimulatedEngine
from store.decisions.requests import RequestLog
from store.records import Example
from store.sqlite.database import Database
from tests.knobs import judging_limits, servers_of
from tests.learning.outcomes.test_judging import (
    ENGINES,
    LARGE,
    PLENTY,
    SMALL,
    Judges,
    example,
    finished,
    judging,
    unknown,
    world,
)
from tests.store.rows import request_record

NOTHING_CONFIGURED = judging_limits(share_offloaded=0.0, share_reference=0.0, others=0, samples=1)
WITHOUT, WITH = Action("small", False), Action("small", True)


class Says(SimulatedEngine):
    """An engine that says what it is told to, and remembers what it was asked."""

    def __init__(self, name: str, price: Price, says: str) -> None:
        info = EngineInfo(name, price=price)
        super().__init__(info, role="lead", world=world(), ttft_ms=0, token_ms=0, capacity=8, pace=0)
        self.says = says
        self.asked: list[ChatRequest] = []

    def stream(self, request: EngineRequest) -> Any:
        assert request.chat is not None
        self.asked.append(request.chat)
        return super().stream(request)

    def _text(self, messages: list[dict[str, Any]], choice: int) -> str:
        return self.says


def standing(action: Action, *, open: bool = False, more: int | None = 50) -> Standing:
    return Standing(action, open, 0.5, 0.99, 10, more)


def planned(share: float, *standings: Standing, chosen: str = "large", near: Sequence[str] = ()) -> Plan:
    found = example(unknown())
    shown = ({"role": "user", "content": "An example, and Q?"},)
    shadow = (Attempt("small"), Attempt("small", shown, (found,)))
    candidates = tuple(
        Candidate(Example(i, i, "t", "", "Q?", answer, "large", 0.0), 0.9) for i, answer in enumerate(near)
    )
    attempts = (Attempt("large"),) if chosen == "large" else (shadow[1], Attempt("large"))
    proof = Proof("r", standings or (standing(WITHOUT), standing(WITH)), share)
    return Plan(attempts, "few_shot", "1", "shadow", neighbours=candidates, proof=proof, shadow=shadow)


def served(said: str, plan: Plan, id: str = "r1", **more: Any) -> Finished:
    attempt = plan.attempts[0]
    made = finished("Q?", said, engine=attempt.engine, plan=plan, id=id, **more)
    return replace(made, attempt=attempt)


def with_engines(small: str, large: str = "", judge: Engine | None = None) -> dict[str, Any]:
    return {
        "small": servers_of(Says("small", SMALL, small)),
        "large": servers_of(Says("large", LARGE, large)),
        "judge": servers_of(judge or Judges()),
    }


def asked_of(engine: Any) -> list[ChatRequest]:
    return engine.servers[0].engine.asked  # type: ignore[no-any-return]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "a.db")
    yield database
    database.close()


def drawn(plan: Plan, times: int = 2000, share: float = 0.0, **more: Any) -> list[Sample]:
    rng = random.Random(3)
    wished = plan.proof.share if plan.proof else 0.0
    found = (
        sample(served("a", plan, **more), ENGINES, share=share, wished=wished, others=1, unit="usd", rng=rng)
        for _ in range(times)
    )
    return [each for each in found if each is not None]


def test_what_is_kept_is_how_likely_this_way_was_asked_not_how_likely_any_was() -> None:
    seldom = replace(standing(WITHOUT), share=0.1)
    for one in drawn(planned(0.5, seldom, standing(WITH)), 50):
        assert {bool(way.examples): round(p, 6) for way, p in one.others} == {False: 0.05, True: 0.5}


async def test_where_the_reference_answered_the_small_engine_is_asked_without_and_with_the_examples(
    db: Database,
) -> None:
    engines = with_engines("card_arrival")
    async with judging(db, engines, NOTHING_CONFIGURED, judge=None) as stage:
        noted = await stage.judge(served("card_arrival", planned(1.0)))
    by = {o.key: o for o in noted}
    assert set(by) == {"judge/large/without", "judge/small/without", "judge/small/with"}
    assert all(o.quality == 1.0 and o.probability == 1.0 for o in noted)
    assert by["judge/large/without"].served and not by["judge/small/with"].served
    contents = [chat.messages[-1]["content"] for chat in asked_of(engines["small"])]
    assert contents == ["Q?", "An example, and Q?"] and not asked_of(engines["large"])
    assert json.loads(by["judge/small/with"].detail)["judge"] == "equality"
    assert by["judge/small/with"].cost_usd > 0


async def test_a_label_that_is_not_the_references_is_worth_nothing_and_costs_no_verdict(db: Database) -> None:
    engines = with_engines("card_lost")
    async with judging(db, engines, NOTHING_CONFIGURED, judge=None) as stage:
        noted = await stage.judge(served("card_arrival", planned(1.0)))
        assert {o.quality for o in noted if o.engine == "small"} == {0.0}
        assert stage.metric("understudy_judged_total", engine="small", examples="with", result="loss") == 1
    assert not asked_of(engines["large"])


async def test_where_the_small_engine_answered_the_reference_is_asked_and_nobody_else(db: Database) -> None:
    engines = with_engines("", "card_lost")
    plan = planned(1.0, standing(WITHOUT), standing(WITH, open=True), chosen="small")
    async with judging(db, engines, NOTHING_CONFIGURED, judge=None) as stage:
        noted = await stage.judge(served("card_arrival", plan))
    assert [(o.engine, o.served, o.quality) for o in noted] == [("large", False, 1.0), ("small", True, 0.0)]
    assert not asked_of(engines["small"])


async def test_without_a_proof_and_without_judging_nothing_is_sampled(db: Database) -> None:
    async with judging(db, with_engines("a"), NOTHING_CONFIGURED, judge=None) as stage:
        assert await stage.judge(served("a", replace(planned(1.0), proof=None))) == []
        assert await stage.judge(served("a", planned(0.0))) == []


async def test_what_can_be_worded_otherwise_is_judged_by_the_reference_where_no_judge_is_named(
    db: Database,
) -> None:
    engines = with_engines("The capital is Paris.", "not a verdict")
    async with judging(db, engines, NOTHING_CONFIGURED, judge=None) as stage:
        assert await stage.judge(served("Paris.", planned(1.0))) == []
        assert stage.metric("understudy_judging_samples_total", result="unread") == 1
    assert len(asked_of(engines["large"])) == 4, "both orders, for each of two answers"


async def test_a_judge_that_cannot_be_read_does_not_leave_only_what_is_equal(db: Database) -> None:
    """Else a small engine that is right now and then would look as if it always were."""
    engines = with_engines("Paris", judge=Judges("No comment."))
    async with judging(db, engines, NOTHING_CONFIGURED) as stage:
        assert await stage.judge(served("Paris.", planned(1.0))) == []
    said = with_engines("Paris", judge=Judges("SCORE CODE: 0"))
    async with judging(db, said, NOTHING_CONFIGURED) as stage:
        plan = planned(1.0)
        noted = await stage.judge(*(served("Paris.", plan, id=f"r{n}") for n in range(3)))
        verdicts = stage.metric("understudy_judging_verdicts_total", result="read")
    assert {o.quality for o in noted} == {1.0} and len(noted) == 9
    assert verdicts == 2, "once it is known to answer, equality is enough"


async def test_an_empty_answer_is_a_bad_one(db: Database) -> None:
    async with judging(db, with_engines(" "), NOTHING_CONFIGURED) as stage:
        noted = await stage.judge(served("The capital is Paris.", planned(1.0)))
    assert {o.quality for o in noted if o.engine == "small"} == {0.0}


def test_the_larger_share_counts_and_its_probability_is_noted() -> None:
    for wished, share in ((0.3, 0.1), (0.1, 0.3)):
        found = drawn(planned(wished), share=share)
        assert {each.probability for each in found} == {0.3}
        assert 500 < len(found) < 700
        assert {chance for each in found for _, chance in each.others} == {0.3}


def test_further_ways_are_asked_by_the_configured_share_only() -> None:
    plan = planned(0.5, standing(WITH, open=True), chosen="small")
    found = drawn(plan, share=0.1)
    assert {each.probability for each in found} == {0.5}
    others = [chance for each in found for _, chance in each.others]
    assert set(others) == {0.1} and 130 < len(others) < 270


def test_a_client_that_forbade_examples_gets_none_in_its_shadow() -> None:
    found = drawn(planned(1.0), 10, controls=Controls(max_examples=0))
    assert [[bool(way.examples) for way, _ in each.others] for each in found] == [[False]] * 10


async def test_what_is_wished_most_is_compared_first(db: Database) -> None:
    engines = with_engines("a_b")
    async with judging(db, engines, replace(NOTHING_CONFIGURED, max_in_flight=1), judge=None) as stage:
        stage.judging._rng = Always()
        shares = (0.2, 0.9, 0.5, 0.7)
        noted = await stage.judge(*(served("a_b", planned(s), id=f"r{s}") for s in shares))
    assert list(dict.fromkeys(o.request_id for o in noted)) == ["r0.9", "r0.7", "r0.5", "r0.2"]


class Always(random.Random):
    def random(self) -> float:
        return 0.0


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether an account allows more is looked up for each request."""
    monkeypatch.setattr(account, "_READ_EVERY_S", -1.0)


@pytest.mark.slow
@pytest.mark.usefixtures("no_pause")
async def test_junk_spends_the_allowance_and_nothing_beyond(db: Database) -> None:
    spend = replace(PLENTY, starting_requests=200)
    price = LARGE.cost_usd(Usage(20, 8))
    assert price is not None
    engines = with_engines("junk " * 30)
    async with judging(db, engines, NOTHING_CONFIGURED, spend, judge=None) as stage:
        with capture_logs() as logs:
            for batch in range(30):
                plan = planned(1.0)
                await stage.judge(*(served("card_arrival", plan, id=f"r{batch}/{n}") for n in range(100)))
        spent = stage.spent()
        assert 0.5 * 200 * price < spent <= 200 * price
        assert stage.metric("understudy_judging_held_back_total", reason="over_budget") > 0
    assert [log.get("reason") for log in logs].count("over_budget") == 1
    async with judging(db, engines, NOTHING_CONFIGURED, spend, judge=None) as stage:
        await stage.judge(*(served("card_arrival", planned(1.0), id=f"x{n}") for n in range(100)))
        assert stage.spent() == pytest.approx(spent, abs=0.02 * 200 * price), "nor after a restart"
        assert stage.spent() <= 200 * price


async def test_where_proof_costs_more_than_it_can_save_there_is_but_a_rare_probe_and_this_is_said(
    db: Database,
) -> None:
    spend = replace(PLENTY, starting_requests=200)
    async with judging(db, with_engines("a_b"), NOTHING_CONFIGURED, spend, judge=None) as stage:
        row = request_record(1, tenant="t", model="m", engine="large", reference_cost_usd=1e-5)
        RequestLog(db).record(replace(row, started_at_s=time.time())).result(60)
        of = stage.judging._accounts
        await asyncio.to_thread(of.read, "t", "usd")
        for _ in range(30):
            of.note(Purse(of, "t", "usd", 0.0, 0.0), 1e-4, 2, 1e-5)
        with capture_logs() as logs:
            noted = await stage.judge(*(served("a_b", planned(1.0), id=f"r{n}") for n in range(300)))
        assert {o.probability for o in noted} <= {0.01} and len(noted) < 45
        assert stage.metric("understudy_judging_held_back_total", reason="not_worth") == 300
        assert [(log["event"], log["reason"], log["tenant"]) for log in logs] == [
            ("judging_held_back", "not_worth", "t")
        ]
        # Where it is proven, there is something to watch.
        plan = planned(1.0, standing(WITHOUT), standing(WITH, open=True))
        assert len(await stage.judge(served("a_b", plan, id="watched"))) >= 3


@pytest.mark.usefixtures("no_pause")
async def test_where_no_judge_can_be_paid_answers_that_mostly_are_equal_count_and_others_for_the_worst(
    db: Database,
) -> None:
    command, plan = "find . -name '*.py'", planned(1.0)
    plan = replace(plan, proof=replace(plan.proof, scope="scope") if plan.proof else None)
    engines = with_engines(command)
    small = engines["small"].servers[0].engine
    price = LARGE.cost_usd(Usage(20, 8))
    assert price is not None
    dear = replace(PLENTY, starting_requests=100)
    async with judging(db, engines, replace(NOTHING_CONFIGURED, max_in_flight=1), dear, judge=None) as stage:

        async def compared(*names: str) -> list[float]:
            known = len(stage.noted())
            noted = await stage.judge(*(served(command, plan, id=name) for name in names))
            return [o.quality for o in noted[known:] if o.engine == "small"]

        assert await compared(*map(str, range(20))) == [], "it is tried first"
        assert await compared("equal") == [1.0, 1.0]
        small.says = "ls"
        assert await compared("other") == [0.0, 0.0]
        assert await compared(*(f"worse {n}" for n in range(200))) == [0.0] * 4, "and then it tells no more"
        assert len(small.asked) < 80
        assert stage.spent() < 100 * price and not asked_of(engines["large"])


@pytest.mark.usefixtures("no_pause")
async def test_a_judge_that_cannot_be_paid_for_its_work_is_refused_at_its_first_unreadable_verdict(
    db: Database,
) -> None:
    command, plan = "find . -name '*.py'", planned(1.0)
    plan = replace(plan, proof=replace(plan.proof, scope="scope") if plan.proof else None)
    engines = with_engines("ls", "Both of these look fine to me.")
    dear = replace(PLENTY, starting_requests=100)
    ended: list[tuple[str, str, bool]] = []
    exams = Exams(lambda tenant: [], ended=lambda *how: ended.append(how))
    one_by_one = replace(NOTHING_CONFIGURED, max_in_flight=1)
    async with judging(db, engines, one_by_one, dear, judge=None, exams=exams) as stage:
        assert await stage.judge(*(served(command, plan, id=f"r{n}") for n in range(5))) == []
        assert len(asked_of(engines["large"])) == 1 and ended == [("t", "large", False)]
        verdict = stage.metric("understudy_judging_cost_usd_total", engine="large", purpose="verdict")
        assert 0 < verdict < stage.spent(IN_VAIN_USD) <= stage.spent()


@pytest.mark.slow
@pytest.mark.usefixtures("no_pause")
async def test_the_engines_and_the_judge_need_no_price(db: Database) -> None:
    free = {name: servers_of(Says(name, Price(), "card_lost")) for name in ("small", "large", "judge")}
    spend = replace(PLENTY, starting_requests=200)
    plan = planned(1.0)
    async with judging(db, free, NOTHING_CONFIGURED, spend, judge=None) as stage:
        stage.judging._models["free"] = ENGINES
        for batch in range(30):
            made = (served("card_arrival", plan, id=f"r{batch}/{n}") for n in range(50))
            await stage.judge(*(replace(each, model="free") for each in made))
        tokens = stage.spent("tokens")
    assert 0.5 * 200 * 28 < tokens <= 200 * 28


async def test_a_request_whose_answer_a_person_spoke_of_is_compared_at_once_in_every_way(
    db: Database,
) -> None:
    async with judging(db, with_engines("c_d"), NOTHING_CONFIGURED, PLENTY, judge=None) as stage:
        assert await stage.judge(served("a_b", planned(0.0))) == [], "no coin picked it"
        stage.judging.told("t", "r1", 0.0, "c_d")
        await stage.judging.join()
        stage.judging.told("t", "r1", 0.0, "c_d")
        stage.judging.told("t", "unknown", 0.0, "c_d")
        await stage.judging.join()
        noted = await stage.judge()
    assert [o.key for o in noted] == ["told/small/without", "told/small/with"]
    assert {json.loads(o.detail)["loss"] for o in noted} == {-1.0} and not any(o.served for o in noted)


async def test_the_examples_found_are_compared_there_where_no_comparison_had_drawn_them(db: Database) -> None:
    whole = planned(0.0)
    with_them = next(way for way in whole.shadow if way.examples)
    undrawn = replace(whole, shadow=(), found=with_them)
    async with judging(db, with_engines("c_d"), NOTHING_CONFIGURED, PLENTY, judge=None) as stage:
        assert await stage.judge(served("a_b", undrawn)) == []
        stage.judging.told("t", "r1", 0.0, "c_d")
        await stage.judging.join()
        noted = await stage.judge()
    assert [o.key for o in noted] == ["told/small/without", "told/small/with"]


@pytest.mark.parametrize(
    ("chosen", "level", "shed"),
    [
        ("large", 0, ""),
        ("large", 1, "shadow"),
        ("small", 1, ""),
        ("small", 2, "checks"),
        ("large", 5, "shadow"),
    ],
)
async def test_under_load_one_comparison_in_ten_goes_on_and_the_others_are_counted(
    db: Database, chosen: str, level: int, shed: str
) -> None:
    load, plan = Shedding(), planned(1.0)
    load.level = level
    if chosen == "small":
        plan = planned(1.0, standing(WITHOUT), standing(WITH, open=True), chosen="small")
    # Of one seed: what is drawn is always the same.
    async with judging(
        db, with_engines("", "card_arrival"), NOTHING_CONFIGURED, judge=None, load=load
    ) as stage:
        for _ in range(100):
            stage.judging.take(served("card_arrival", plan))
        await asyncio.wait_for(stage.judging.join(), 60)
        made = sum(
            n
            for n in (
                stage.metric("understudy_judging_samples_total", result=r) for r in ("judged", "unread")
            )
        )
    if not shed:
        assert made == 100 and not any(load.shed.values())
    else:
        assert 2 <= made <= 20 and 80 <= load.shed[shed] <= 98  # type: ignore[index]
        assert sum(load.shed.values()) == load.shed[shed]  # type: ignore[index]
