"""What the chooser draws from is exact, explores within bounds, and leans where it should."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.engine import Price
from router.choosing.bandit import Estimate, Scene
from router.choosing.chooser import (
    HOPELESS,
    Chooser,
    Knobs,
    NothingToChoose,
    Situation,
    capped,
    drawn,
    inverse_gap_weights,
    tries_worth,
    with_floor,
)
from router.choosing.features import Examples, Request
from router.choosing.lengths import NearLengths
from router.choosing.load import EngineState
from router.plan import Action, Choice
from router.turns.turn import Turn
from tests.knobs import chooser_knobs

SMALL = EngineState("small", Price(0.5, 1.0), first_token_s=0.2, tokens_per_s=100)
MIDDLE = EngineState("middle", Price(2.0, 4.0), first_token_s=0.3, tokens_per_s=80)
LARGE = EngineState("large", Price(10.0, 30.0), first_token_s=0.5, tokens_per_s=40)
EXAMPLES = Examples(count=3, tokens=300, gain=0.2, best_similarity=0.9)
SITUATION = Situation(
    Request("What is it?", prompt_tokens=50, nearest=1.0),
    (SMALL, MIDDLE, LARGE),
    examples=EXAMPLES,
    quality_alone=0.6,
    quality_with=0.8,
)


class Known:
    """A bandit that was told everything by the test."""

    version = "known"

    def __init__(
        self,
        qualities: dict[tuple[str, bool], float],
        *,
        deviation: float = 0.2,
        learned: int = 1000,
        strangeness: float = 0.0,
    ):
        self.qualities, self.deviation, self.learned = qualities, deviation, learned
        self.strangeness = strangeness

    def estimate(self, scene: Scene) -> Estimate:
        qualities = tuple(self.qualities[o.engine, o.with_examples] for o in scene.options)
        return Estimate(qualities, (self.deviation,) * len(qualities), self.strangeness)


GOOD_SMALL = Known(
    {
        ("small", False): 0.95,
        ("small", True): 0.5,
        ("middle", False): 0.9,
        ("middle", True): 0.9,
        ("large", False): 0.96,
    }
)


def choose(
    situation: Situation, bandit: Known | None = GOOD_SMALL, seed: int = 0, knobs: Knobs | None = None
) -> Choice:
    return Chooser(knobs or chooser_knobs()).choose(situation, bandit, random.Random(seed))


def offloaded(choice: Choice) -> float:
    return sum(w.probability for w in choice.weighed if w.action.engine != "large")


def test_there_is_an_action_per_engine_and_way_and_none_with_examples_for_the_reference() -> None:
    actions = [(w.action.engine, w.action.with_examples) for w in choose(SITUATION).weighed]
    assert actions == [
        ("small", False),
        ("small", True),
        ("middle", False),
        ("middle", True),
        ("large", False),
    ]
    bare = replace(SITUATION, examples=Examples())
    assert [w.action.with_examples for w in choose(bare).weighed] == [False] * 3


def test_probabilities_sum_to_one_and_none_is_too_small_to_evaluate() -> None:
    choice = choose(SITUATION)
    for name in ("probability", "probability_without_load"):
        found = [getattr(w, name) for w in choice.weighed]
        assert sum(found) == pytest.approx(1.0)
        assert min(found) >= min(HOPELESS * 0.01, 1 / GOOD_SMALL.learned)


def test_the_logged_probability_is_the_frequency_of_the_draw() -> None:
    rng, chooser, counts = random.Random(3), Chooser(chooser_knobs()), [0] * 5
    situation = replace(SITUATION, may_explore=True)
    bandit = Known(GOOD_SMALL.qualities, learned=4)
    for _ in range(4000):
        counts[chooser.choose(situation, bandit, rng).chosen] += 1
    expected = [w.probability for w in chooser.choose(situation, bandit, rng).weighed]
    assert [c / 4000 for c in counts] == pytest.approx(expected, abs=0.03)


def test_where_nothing_may_be_explored_the_best_is_taken_for_certain() -> None:
    for seed in range(20):
        choice = choose(replace(SITUATION, may_explore=False), seed=seed)
        best = max(range(5), key=lambda i: choice.weighed[i].reward)
        assert choice.chosen == best
        assert choice.weighed[best].probability == 1.0
        assert not choice.explored


def test_the_dial_moves_between_cheapest_and_best() -> None:
    situation = replace(SITUATION, may_explore=False)
    qualities = {
        **GOOD_SMALL.qualities,
        ("small", False): 0.7,
        ("small", True): 0.75,
        ("middle", False): 0.93,
    }
    bandit = Known(qualities, deviation=0.05)
    engines = []
    for preference in (0.0, 0.5, 1.0):
        choice = choose(replace(situation, preference=preference), bandit)
        engines.append(choice.weighed[choice.chosen].action.engine)
    assert engines == ["small", "middle", "large"]


def test_under_load_the_choice_leans_to_cheap_engines_and_the_log_keeps_both_picks() -> None:
    qualities = {**GOOD_SMALL.qualities, ("small", False): 0.6, ("small", True): 0.7, ("middle", False): 0.7}
    bandit = Known({**qualities, ("middle", True): 0.7, ("large", False): 1.0})
    busy = replace(
        SITUATION,
        engines=(SMALL, MIDDLE, replace(LARGE, utilisation=1.5)),
        may_explore=False,
        preference=0.7,
    )
    idle = choose(replace(busy, engines=SITUATION.engines), bandit)
    loaded = choose(busy, bandit)
    assert idle.chosen == loaded.chosen_without_load == 4
    assert loaded.chosen < 4
    assert idle.chosen == idle.chosen_without_load


def test_what_is_unlike_anything_learnt_goes_to_the_reference_and_is_tried_now_and_then() -> None:
    known = choose(SITUATION, Known(GOOD_SMALL.qualities, deviation=0.05))
    strange = choose(SITUATION, Known(GOOD_SMALL.qualities, deviation=0.05, strangeness=1.0))
    assert offloaded(known) > 0.5
    assert 0.1 < offloaded(strange) < 0.9
    assert strange.weighed[-1].probability == max(w.probability for w in strange.weighed)
    assert [w.quality for w in strange.weighed] == [w.quality for w in known.weighed]


def test_an_action_whose_upper_bound_does_not_reach_the_best_is_hardly_tried() -> None:
    hopeless = {**GOOD_SMALL.qualities, ("small", True): 0.3}
    few = choose(SITUATION, Known(hopeless, deviation=0.05, learned=10))
    assert few.weighed[1].probability == pytest.approx(HOPELESS * 0.01)
    unknown = {**GOOD_SMALL.qualities, ("small", True): 0.5}
    unsure = choose(SITUATION, Known(unknown, deviation=0.5, learned=10))
    assert unsure.weighed[1].probability > 0.01


def test_what_is_behind_is_tried_as_often_as_it_takes_to_know_that_and_no_more() -> None:
    assert tries_worth(0.0, 10**9) == tries_worth(-0.1, 10**9) == tries_worth(0.5, 0) == 1.0
    # A gap of a fifth of the deviation of 0.5 takes 25 outcomes to be seen; so many are tried in each e-fold of the lessons.
    assert tries_worth(0.1, 1000) == pytest.approx(0.025)
    behind = {**GOOD_SMALL.qualities, ("small", True): 0.6}
    few, many = (
        choose(SITUATION, Known(behind, deviation=0.5, learned=learned)).weighed[1].probability
        for learned in (10_000, 100_000)
    )
    assert 0.0 < many == pytest.approx(few / 10)
    hopeless = Known({**GOOD_SMALL.qualities, ("small", True): 0.3}, deviation=0.05, learned=100_000)
    assert choose(SITUATION, hopeless).weighed[1].probability == pytest.approx(1e-5)


def test_under_a_floor_nothing_is_tried_whose_upper_bound_is_below_it() -> None:
    qualities = {**GOOD_SMALL.qualities, ("small", False): 0.6, ("middle", False): 0.8}
    bandit = Known({**qualities, ("large", False): 0.99}, deviation=0.1)
    floored = choose(replace(SITUATION, offload_cap=0.2, max_loss=0.05), bandit)
    chances = [w.probability for w in floored.weighed]
    # Small and small with examples: at most 0.75 and 0.65, below 0.99 - 0.05. All of the allowance is the middle one's.
    assert chances[0] == chances[1] == 0.0
    assert chances[3] > 0.01
    spent = choose(replace(SITUATION, offload_cap=0.2), bandit).weighed[0].probability
    assert spent > 0.0


def test_only_what_is_allowed_is_taken_and_the_reference_always_is() -> None:
    proven = {Action("middle", False)}
    for seed in range(20):
        choice = choose(replace(SITUATION, allowed=proven), seed=seed)
        taken = choice.weighed[choice.chosen].action
        assert taken in {Action("middle", False), Action("large", False)}
    chances = {(w.action.engine, w.action.with_examples): w.probability for w in choice.weighed}
    assert chances["small", False] == chances["small", True] == chances["middle", True] == 0.0
    assert chances["middle", False] > 0.0
    nothing = choose(replace(SITUATION, allowed=()))
    assert nothing.weighed[-1].probability == 1.0


@given(st.floats(0, 1), st.integers(0, 50), st.booleans())
def test_the_quality_floor_bounds_what_goes_elsewhere(cap: float, seed: int, explore: bool) -> None:
    choice = choose(replace(SITUATION, offload_cap=cap, may_explore=explore), seed=seed)
    assert offloaded(choice) <= cap + 1e-9
    assert sum(w.probability for w in choice.weighed) == pytest.approx(1.0)
    if choice.floored:
        assert choice.weighed[choice.chosen].action.engine == "large"
        assert not choice.explored


def test_a_closed_floor_sends_everything_to_the_reference_and_says_why() -> None:
    for seed in range(10):
        choice = choose(replace(SITUATION, offload_cap=0.0, may_explore=False), seed=seed)
        assert choice.weighed[choice.chosen].action.engine == "large"
        assert choice.floored


def test_a_sick_engine_is_never_drawn_unless_all_are() -> None:
    sick = replace(SITUATION, engines=(replace(SMALL, healthy=False), MIDDLE, LARGE))
    for seed in range(50):
        choice = choose(sick, seed=seed)
        assert choice.weighed[choice.chosen].action.engine != "small"
        assert choice.weighed[0].probability == 0.0
    all_sick = replace(SITUATION, engines=tuple(replace(e, healthy=False) for e in SITUATION.engines))
    assert sum(w.probability for w in choose(all_sick).weighed) == pytest.approx(1.0)


def test_what_is_drawn_because_another_engine_is_down_says_instead_of_which() -> None:
    sick = replace(SITUATION, engines=(SMALL, MIDDLE, replace(LARGE, healthy=False)))
    for seed in range(200):
        choice, well = choose(sick, seed=seed), choose(SITUATION, seed=seed)
        would = well.weighed[well.chosen].action.engine
        assert choice.instead_of == ("large" if would == "large" else "")
        assert well.instead_of == ""
    all_sick = replace(SITUATION, engines=tuple(replace(e, healthy=False) for e in SITUATION.engines))
    assert choose(all_sick).instead_of == ""


def test_without_a_bandit_the_scorer_speaks_for_quality() -> None:
    choice = choose(replace(SITUATION, may_explore=False), None)
    assert [w.quality for w in choice.weighed] == pytest.approx([0.6, 0.8, 0.8, 0.9, 1.0])


def test_examples_cost_what_their_tokens_cost() -> None:
    small, with_examples = choose(SITUATION).weighed[:2]
    assert with_examples.cost_usd - small.cost_usd == pytest.approx(300 * 0.5 / 1e6)
    assert small.latency_s == pytest.approx(0.2 + 256 / 100)


def test_the_small_engine_gets_no_request_with_examples_that_make_it_the_slower_one_at_the_same_price() -> (
    None
):
    free = tuple(replace(engine, price=Price()) for engine in (SMALL, LARGE))
    situation = replace(SITUATION, engines=free, preference=0.0, may_explore=False)
    of_engine = choose(situation, None)
    assert of_engine.weighed[of_engine.chosen].action.engine == "small", "by the engines' own speed"
    helped, large = Action("small", True), Action("large", False)
    slow = choose(replace(situation, seconds={helped: 9.0, Action("small", False): 8.0, large: 1.6}), None)
    assert slow.weighed[slow.chosen].action == large
    assert next(each.latency_s for each in slow.weighed if each.action == helped) >= 9.0


def test_every_engine_costs_what_its_own_answers_are_long() -> None:
    engines = (replace(SMALL, answer_tokens=1000.0), MIDDLE, replace(LARGE, answer_tokens=40.0))
    small, _, middle, _, large = choose(replace(SITUATION, engines=engines)).weighed
    assert small.cost_usd == pytest.approx((50 * 0.5 + 1000 * 1.0) / 1e6)
    assert middle.cost_usd == pytest.approx((50 * 2.0 + 520 * 4.0) / 1e6), (
        "none of its own yet: as the others"
    )
    assert large.cost_usd == pytest.approx((50 * 10.0 + 40 * 30.0) / 1e6)
    assert small.latency_s == pytest.approx(0.2 + 1000 / 100)


def test_the_room_for_an_answer_is_not_paid_for_and_no_answer_is_longer_than_it_may_be() -> None:
    alone = choose(replace(SITUATION, prompt_tokens=20, most_answer_tokens=16)).weighed[-1]
    assert alone.cost_usd == pytest.approx((20 * 10.0 + 16 * 30.0) / 1e6)


def test_an_answer_is_expected_to_be_as_long_as_those_to_near_questions() -> None:
    near = NearLengths.of([(1.0, 20), (0.65, 50), (0.2, 9000), (0.9, 0)])
    large = choose(replace(SITUATION, near_lengths=near)).weighed[-1]
    assert large.cost_usd == pytest.approx((50 * 10.0 + round((1.5 * 30 + 0.2 * 256) / 1.7) * 30.0) / 1e6)


CACHED = Price(10.0, 30.0, cached_input_usd_per_mtok=1.0, cache_write_usd_per_mtok=12.5)
TURN = Turn(
    engine="small", prompt_tokens=50_000, held={"small": 49_000.0}, caching={"large": 1.0, "small": 1.0}
)
TALK = replace(
    SITUATION,
    engines=(SMALL, replace(LARGE, price=CACHED)),
    examples=Examples(),
    prompt_tokens=50_000,
    turn=TURN,
)


def test_a_turn_is_priced_by_what_caches_hold() -> None:
    at_home = replace(TURN, engine="large", held={"large": 49_000.0})
    found = choose(replace(TALK, turn=at_home)).weighed[-1]
    assert found.cost_usd == pytest.approx((49_000 * 1.0 + 1_000 * 12.5 + 256 * 30.0) / 1e6)
    cold = choose(TALK).weighed[-1]
    assert cold.cost_usd == pytest.approx((50_000 * 12.5 + 256 * 30.0) / 1e6)


def test_to_go_back_to_a_cold_reference_costs_more_than_all_of_its_price_and_quality_decides() -> None:
    at_home = replace(TURN, held_at_home=49_000.0)
    for quality, warm, cold in ((0.93, "large", "small"), (0.2, "large", "large")):
        bandit = Known({("small", False): quality, ("large", False): 1.0}, deviation=0.0)
        still = {"may_explore": False}
        home = replace(at_home, engine="large", held={"large": 49_000.0})
        for turn, expected in ((home, warm), (at_home, cold)):
            choice = choose(replace(TALK, turn=turn, **still), bandit)
            assert choice.weighed[choice.chosen].action.engine == expected


def test_an_engine_that_is_kept_out_has_no_probability_and_is_still_wanted() -> None:
    bandit = Known({("small", False): 1.0, ("large", False): 1.0}, deviation=0.0)
    turn = replace(TURN, engine="large", kept_out=frozenset({"small"}))
    choice = choose(replace(TALK, turn=turn), bandit)
    assert [each.probability for each in choice.weighed] == [0.0, 1.0]
    assert choice.wanted and not choose(replace(TALK, turn=None), bandit).wanted


def test_without_engines_there_is_nothing_to_choose() -> None:
    with pytest.raises(NothingToChoose):
        choose(replace(SITUATION, engines=()))


def test_engines_without_a_price_can_be_weighed() -> None:
    free = tuple(EngineState(name) for name in ("small", "middle", "large"))
    assert sum(w.probability for w in choose(replace(SITUATION, engines=free)).weighed) == pytest.approx(1.0)


def test_the_log_holds_the_dial_and_what_was_known_of_each_action() -> None:
    choice = choose(SITUATION)
    assert choice.context["weight_quality"] == pytest.approx(1 / 1.15)
    assert choice.weighed[-1].features["is_reference"] == 1.0


REWARDS = st.lists(st.floats(-2, 2), min_size=2, max_size=16)


@given(REWARDS, st.floats(0, 1000))
def test_inverse_gap_weights_are_a_distribution_that_favours_the_best(
    rewards: list[float], gamma: float
) -> None:
    found = inverse_gap_weights(rewards, gamma, rewards.index(max(rewards)))
    assert sum(found) == pytest.approx(1.0)
    assert min(found) >= 0.0
    assert max(found) == pytest.approx(found[rewards.index(max(rewards))])


@given(REWARDS, st.floats(0, 0.2))
def test_the_floor_holds_for_any_number_of_actions(rewards: list[float], least: float) -> None:
    found = with_floor(inverse_gap_weights(rewards, 100.0, rewards.index(max(rewards))), least)
    assert sum(found) == pytest.approx(1.0)
    assert min(found) >= min(least, 0.5 / len(rewards)) - 1e-12


def test_two_by_hand() -> None:
    # K = 2, gamma 10, gap 0.3: 1 / (2 + 3) = 0.2
    assert inverse_gap_weights([0.1, 0.4], 10.0, 1) == pytest.approx([0.2, 0.8])
    assert inverse_gap_weights([0.4, 0.1], 10.0, 1) == pytest.approx([0.5, 0.5])
    assert capped([0.2, 0.3, 0.5], [False, False, True], [True] * 3, 0.25) == pytest.approx([0.1, 0.15, 0.75])
    assert capped([0.5, 0.5], [False, True], [True, False], 0.0) == [0.5, 0.5]
    assert [drawn([0.0, 0.5, 0.5, 0.0], u) for u in (0.0, 0.49, 0.5, 0.999999)] == [1, 1, 2, 2]
    assert drawn([0.3, 0.7 - 1e-16, 0.0], 0.9999999999999999) == 1
