"""Whose turn it is: class, tenant, work left in the run, depth; and that everybody's turn comes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from engines.placement import PLAIN, Placement, Rank
from engines.servers.caps import Caps, Held
from engines.servers.order import Order, Verdict, Waiting


def waiting(
    name: str, placement: Placement = PLAIN, *, tenant: str = "", tokens: int = 10, since_s: float = 0.0
) -> Waiting[str]:
    return Waiting(name, placement, tenant, tokens, since_s)


def step(run: str, rank: Rank = Rank.LATENCY, *, depth: int = 0, left: float = 0.0) -> Placement:
    return Placement(rank, run, depth=depth, work_left=left)


def line(*requests: Waiting[str], promote_s: float = 1e9) -> Order[str]:
    order: Order[str] = Order(promote_s)
    for one in requests:
        order.put(one)
    return order


def starts(_: Waiting[str]) -> Verdict:
    return Verdict.STARTS


def taken(order: Order[str], now_s: float = 0.0) -> list[str]:
    out = []
    while (one := order.take(now_s, starts)) is not None:
        out.append(one.what)
    return out


def test_the_stricter_class_goes_first() -> None:
    order = line(
        waiting("bulk", step("a", Rank.THROUGHPUT, left=1)),
        waiting("group", step("b", Rank.GROUP, left=5)),
        waiting("latency", step("c", Rank.LATENCY, left=9)),
    )
    assert order.waiting == {Rank.LATENCY: 1, Rank.GROUP: 1, Rank.THROUGHPUT: 1}
    assert taken(order) == ["latency", "group", "bulk"]
    assert len(order) == 0


def test_among_runs_the_one_with_least_work_left_and_of_it_the_least_deep() -> None:
    order = line(
        waiting("long", step("a", left=900)),
        waiting("short, later", step("b", depth=3, left=100)),
        waiting("short", step("b", depth=1, left=100)),
        waiting("plain", tokens=50),
    )
    assert taken(order) == ["plain", "short", "short, later", "long"]


def test_two_groups_with_equal_work_left_are_not_mixed() -> None:
    order = line(*(waiting(f"{run}{n}", step(run, Rank.GROUP, left=100)) for n in range(3) for run in "ab"))
    assert taken(order) == ["a0", "a1", "a2", "b0", "b1", "b2"]


def test_the_newest_word_on_a_run_counts_for_all_its_steps() -> None:
    order = line(
        waiting("a0", step("a", left=900)),
        waiting("b0", step("b", left=500)),
        waiting("a1", step("a", depth=1, left=80)),
    )
    assert taken(order) == ["a0", "a1", "b0"]


def test_the_tenant_that_was_served_least_goes_first() -> None:
    order = line(
        *(
            waiting(f"{tenant}{n}", tenant=tenant, tokens=size)
            for tenant, size in (("a", 30), ("b", 10))
            for n in range(4)
        )
    )
    assert taken(order) == ["a0", "b0", "b1", "b2", "a1", "b3", "a2", "a3"]


def test_a_tenant_has_no_credit_for_the_time_it_was_away() -> None:
    order = line(*(waiting(f"a{n}", tenant="a") for n in range(10)))
    for _ in range(6):
        order.take(0.0, starts)
    for n in range(4):
        order.put(waiting(f"b{n}", tenant="b"))
    assert taken(order) == ["b0", "a6", "b1", "a7", "b2", "a8", "b3", "a9"]


def test_every_eighth_start_goes_to_who_has_waited_longest() -> None:
    order = line(waiting("bulk", step("x", Rank.THROUGHPUT)), promote_s=30)
    for n in range(20):
        order.put(waiting(f"{n}", since_s=25.0))
    assert taken(order, 20.0)[-1] == "bulk"
    order = line(
        waiting("bulk", step("x", Rank.THROUGHPUT)),
        *(waiting(f"{n}", since_s=25) for n in range(20)),
        promote_s=30,
    )
    assert taken(order, 31.0).index("bulk") == 7


def test_who_does_not_fit_keeps_the_place() -> None:
    order = line(
        waiting("large", tokens=90, placement=step("x", left=1)),
        waiting("small"),
        waiting("medium", tokens=20),
    )
    small_ones = lambda one: Verdict.STARTS if one.tokens < 50 else Verdict.WAITS  # noqa: E731
    first = order.take(0.0, small_ones)
    assert first is not None and first.what == "small"
    assert order.take(0.0, lambda one: Verdict.FULL) is None
    assert taken(order) == ["large", "medium"]


def test_a_request_that_left_is_not_taken() -> None:
    one, other = waiting("one"), waiting("other")
    order = line(one, other)
    assert order.remove(one) and not order.remove(one)
    assert taken(order) == ["other"]
    assert not order.remove(other)


def test_a_waiting_step_can_become_urgent() -> None:
    bulk = waiting("bulk", step("x", Rank.THROUGHPUT))
    order = line(bulk, waiting("plain", tokens=50))
    order.change(bulk, replace(bulk.placement, rank=Rank.LATENCY, work_left=1))
    assert order.waiting[Rank.THROUGHPUT] == 0
    assert taken(order) == ["bulk", "plain"]
    order.change(bulk, PLAIN)
    assert len(order) == 0


def test_those_that_left_are_not_kept() -> None:
    stays = waiting("stays", step("x", Rank.THROUGHPUT))
    order = line(stays)
    for n in range(10_000):
        one = waiting(f"{n}", tenant=f"t{n}")
        order.put(one)
        order.remove(one)
    assert len(order._oldest) < 200
    assert len(order._served) < 5_000
    assert taken(order) == ["stays"]


def test_places_that_were_changed_are_not_kept() -> None:
    steps = [waiting(f"{n}", step("x", Rank.THROUGHPUT)) for n in range(10)]
    order = line(*steps)
    for work_left in range(1, 1_001):
        for one in steps:
            order.change(one, replace(one.placement, work_left=work_left))
    (lane,) = order._lanes[Rank.THROUGHPUT].values()
    (run,) = lane._runs.values()
    assert len(run.steps) < 200 and len(lane._heap) < 200
    assert taken(order) == [f"{n}" for n in range(10)]


PLACEMENTS = st.builds(
    Placement,
    rank=st.sampled_from(Rank),
    run=st.sampled_from(["", "r", "s"]),
    depth=st.integers(0, 3),
    work_left=st.sampled_from([0.0, 10.0, 50.0]),
)
TENANTS = st.sampled_from(["a", "b", "c"])
SIZES = st.integers(1, 100)


class Lines(RuleBasedStateMachine):
    """Whatever comes, leaves, changes and ends in whatever order: nothing is lost, nothing starts twice, caps hold."""

    held = Bundle("held")
    in_line = Bundle("in_line")

    def __init__(self) -> None:
        super().__init__()
        self.order: Order[int] = Order(promote_s=5.0)
        self.places = [Held(Caps(120, 40)), Held(Caps(80, None))]
        self.now_s = 0.0
        self.inside: set[int] = set()
        self.started: Counter[int] = Counter()
        self.running: list[tuple[Held, Waiting[int]]] = []
        self.count = 0

    @rule(target=in_line, placement=PLACEMENTS, tenant=TENANTS, tokens=SIZES)
    def comes(self, placement: Placement, tenant: str, tokens: int) -> Waiting[int]:
        one = Waiting(self.count, placement, tenant, tokens, self.now_s)
        self.count += 1
        self.inside.add(one.what)
        self.order.put(one)
        return one

    @rule(one=consumes(in_line))
    def leaves(self, one: Waiting[int]) -> None:
        assert self.order.remove(one) == (one.what in self.inside)
        self.inside.discard(one.what)

    @rule(one=in_line, placement=PLACEMENTS)
    def changes(self, one: Waiting[int], placement: Placement) -> None:
        self.order.change(one, placement)

    @rule(seconds=st.floats(0, 10))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    @rule()
    def starts_what_fits(self) -> None:
        judged: list[int] = []

        def judge(one: Waiting[int]) -> Verdict:
            judged.append(one.what)
            place = next((p for p in self.places if p.fits(one.placement.rank, one.tokens)), None)
            return Verdict.WAITS if place is None else Verdict.STARTS

        one = self.order.take(self.now_s, judge)
        assert set(judged) <= self.inside
        if one is None:
            assert set(judged) == self.inside
            return
        place = next(p for p in self.places if p.fits(one.placement.rank, one.tokens))
        place.enters(one.placement.rank, one.tokens)
        self.running.append((place, one))
        self.inside.remove(one.what)
        self.started[one.what] += 1

    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        if self.running:
            place, one = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
            place.leaves(one.placement.rank, one.tokens)

    @invariant()
    def all_are_somewhere(self) -> None:
        assert len(self.order) == len(self.inside)
        assert all(times == 1 for times in self.started.values())
        for place in self.places:
            assert place.requests <= 1 or place.tokens <= (place.caps.tokens or 0)

    def teardown(self) -> None:
        rest = {one.what for one in iter(lambda: self.order.take(self.now_s, lambda _: Verdict.STARTS), None)}
        assert rest == self.inside


TestLines = Lines.TestCase
TestLines.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(PLACEMENTS, TENANTS, SIZES), min_size=1, max_size=30), st.integers(1, 3))
def test_nobody_starves_while_more_urgent_ones_keep_coming(
    asked: list[tuple[Placement, str, int]], rate: int
) -> None:
    """However many come that go first: who waits starts within eight starts for each that came before."""
    order: Order[str] = Order(promote_s=1.0)
    for n, (placement, tenant, tokens) in enumerate(asked):
        order.put(Waiting(f"{n}", placement, tenant, tokens, 0.0))
    early = {f"{n}" for n in range(len(asked))}
    for n in range(1, 8 * len(asked) + 2):
        for _ in range(rate):
            order.put(Waiting("late", Placement(Rank.LATENCY, work_left=0.5), "new", 1, float(n)))
        one = order.take(float(n) + 1.0, starts)
        assert one is not None
        early.discard(one.what)
    assert not early


def test_one_that_is_refused_when_its_turn_comes_leaves_the_line() -> None:
    order = line(waiting("refused", step("x", left=1)), waiting("starts"))

    def judge(one: Waiting[str]) -> Verdict:
        if one.what == "refused":
            order.remove(one)
            return Verdict.WAITS
        return Verdict.STARTS

    one = order.take(0.0, judge)
    assert one is not None and one.what == "starts"
    assert len(order) == 0 and order.take(0.0, starts) is None


def test_who_has_to_wait_again_has_kept_the_place() -> None:
    order = line(*(waiting(f"{n}", since_s=float(n)) for n in range(4)), promote_s=5)
    first = order.take(0.0, starts)
    assert first is not None and first.what == "0"
    order.put(first)
    assert taken(order) == ["0", "1", "2", "3"]
