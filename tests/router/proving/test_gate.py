"""What a policy is told of a request, and what outcomes change."""

from __future__ import annotations

import numpy as np

from router.plan import Candidate
from router.proving.gate import WITHOUT_VECTOR, Gate, key
from router.proving.regions import Compared
from router.proving.standing import Action, Proof
from router.shedding import ORDER, Shedding
from tests.router.policies.test_few_shot import example

VECTOR = np.array([1.0, 0.0], np.float32)
ALONE, HELPED = Action("small", False), Action("small", True)
EXAMPLES = [Candidate(example(1), 0.9)]


def gate() -> Gate:
    return Gate(("small",), 0.05)


def asked(
    made: Gate, scope: str = "scope", *, examples: bool = True, tenant: str = "t", bank: int = 100
) -> Proof:
    return made.proof(tenant, scope, VECTOR, EXAMPLES if examples else [], bank)


def compare(
    made: Gate, action: Action, quality: float, times: int = 1, scope: str = "scope", tenant: str = "t"
) -> list[bool]:
    turned = []
    for _ in range(times):
        proof = asked(made, scope, tenant=tenant)
        turned += [
            o.turned.opened for o in made.add(tenant, scope, VECTOR, proof.noted, action, Compared(quality))
        ]
    return turned


def test_at_first_nothing_is_open_and_every_request_is_wished_to_be_compared() -> None:
    proof = asked(gate())
    assert proof.open_actions() == () and proof.share == 1.0
    assert {standing.action for standing in proof.standings} == {ALONE, HELPED} and ALONE in proof.wished


def test_one_action_is_proven_at_a_time_the_cheapest_first() -> None:
    made = gate()
    wished = [asked(made).wished for _ in range(400)]
    assert 10 < sum(HELPED in each for each in wished) < 90
    compare(made, ALONE, 0.0, 20)
    wished = [asked(made).wished for _ in range(50)]
    assert all(HELPED in each for each in wished), "with examples it may yet be good enough"


def test_what_was_rehearsed_is_proven_first_and_proves_nothing() -> None:
    made, without = Gate(("small",), 0.05, rehearsed={"scope": {ALONE: 0.4, HELPED: 0.8}}), gate()
    wished = [asked(made).wished for _ in range(400)]
    assert 10 < sum(ALONE in each for each in wished) < 90 and all(HELPED in each for each in wished)
    assert ALONE in asked(made, "another scope").wished
    for each in made, without:
        compare(each, HELPED, 1.0, 30)
    bounds = [
        {(s.lower, s.upper) for s in asked(each).standings if s.action == HELPED} for each in (made, without)
    ]
    assert bounds[0] == bounds[1]


def test_each_action_says_how_often_it_is_drawn_so_that_its_outcomes_can_be_weighed() -> None:
    made = gate()
    proofs = [asked(made) for _ in range(400)]
    for action in (ALONE, HELPED):
        drawn = sum(action in each.wished for each in proofs) / len(proofs)
        assert abs(drawn - proofs[0].share_of(action)) < 0.06
    assert proofs[0].share_of(HELPED) < 0.5 < proofs[0].share_of(ALONE) == 1.0


def test_without_examples_only_the_engine_as_it_is_can_be_proven() -> None:
    proof = asked(gate(), examples=False)
    assert [standing.action for standing in proof.standings] == [ALONE] and proof.wished == (ALONE,)


def test_an_action_opens_on_proof_alone_and_says_so_once() -> None:
    made = gate()
    assert compare(made, HELPED, 1.0, 1500) == [True]
    assert asked(made).open_actions() == (HELPED,)
    assert asked(made, examples=False).open_actions() == ()


def test_a_junk_engine_never_opens_and_is_soon_hardly_compared() -> None:
    made = gate()
    compare(made, HELPED, 0.0, 20)
    compare(made, ALONE, 0.0, 20)
    proof = asked(made)
    assert proof.open_actions() == () and proof.share <= 0.2 and proof.probing
    assert all(standing.expected_more is None for standing in proof.standings)


def test_an_action_that_is_not_expected_to_be_proven_is_seldom_wished_beside_one_that_is() -> None:
    made = gate()
    compare(made, ALONE, 0.0, 20)
    wished = [asked(made).wished for _ in range(400)]
    assert all(HELPED in each for each in wished)
    assert sum(ALONE in each for each in wished) < 40


def test_an_open_action_closes_within_few_checks_when_the_engine_turns_bad() -> None:
    made = gate()
    compare(made, HELPED, 1.0, 600)
    assert compare(made, HELPED, 0.0, 5) == [False]
    assert asked(made).open_actions() == ()


def test_an_open_region_answers_nobody_while_its_checks_tell_nothing() -> None:
    """No money for checks, or a judge that is down: a change would go unnoticed."""
    made = gate()
    compare(made, HELPED, 1.0, 1500)
    opened = [bool(asked(made).open_actions()) for _ in range(300)]
    assert all(opened[:10]), "outcomes may take some seconds"
    assert sum(opened[200:]) <= 0.05 * 100, "as many as are earned meanwhile"
    compare(made, HELPED, 1.0, 300)
    assert asked(made).open_actions() == (HELPED,)


def test_answers_that_are_not_given_out_after_all_leave_no_checks_to_miss() -> None:
    """As of a cascade whose engines do not agree: the reference answers."""
    made = gate()
    compare(made, HELPED, 1.0, 1500)
    for _ in range(200):
        proof = asked(made)
        assert proof.open_actions() == (HELPED,)
        proof.take_back()


def test_checks_that_are_shed_are_not_missed_and_their_answers_are_taken_to_lose_what_was_proven() -> None:
    load = Shedding()
    made = Gate(("small",), 0.05, load=load)
    compare(made, HELPED, 1.0, 1500)
    load.level = ORDER.index("checks") + 1
    for number in range(1000):
        proof = asked(made)
        assert proof.open_actions() == (HELPED,) and "number" not in proof.noted
        if number % 50 == 0:
            made.add("t", "scope", VECTOR, proof.noted, HELPED, Compared(1.0))
    for _ in range(100):
        assert asked(made).open_actions() == (HELPED,), "of a hundred requests about three are compared"
    assert any(not asked(made).open_actions() for _ in range(20_000)), "of thousands far more"


def test_where_one_action_is_proven_only_that_one_is_compared_on() -> None:
    made = gate()
    compare(made, HELPED, 1.0, 200)
    proof = asked(made)
    assert set(proof.wished) <= {HELPED} and key(ALONE) not in proof.noted
    assert compare(made, ALONE, 1.0, 300) == []


def test_what_is_proven_under_one_scope_and_tenant_says_nothing_of_another() -> None:
    made = gate()
    compare(made, HELPED, 1.0, 200)
    assert asked(made, "another").open_actions() == ()
    assert asked(made, tenant="other").open_actions() == ()


def test_an_outcome_of_a_request_without_a_proof_counts_for_nothing() -> None:
    made = gate()
    assert made.add("t", "scope", VECTOR, {}, HELPED, Compared(1.0)) == [] and made.summary() == []


def test_the_summary_names_what_each_region_rests_on() -> None:
    made = gate()
    compare(made, HELPED, 1.0, 40)
    (row,) = made.summary()
    assert (row.tenant, row.scope, row.action, row.compared, row.open) == ("t", "scope", HELPED, 40, True)
    assert row.expected_more == 0 and row.lower > 0.9


def test_the_scopes_without_late_outcomes_are_let_go() -> None:
    made = gate()
    for number in range(210):
        compare(made, HELPED, 1.0, scope=f"scope {number}")
    assert len({row.scope for row in made.summary()}) == 200


def test_a_tenant_with_many_scopes_loses_its_own_and_nobody_elses() -> None:
    made = gate()
    compare(made, HELPED, 1.0, scope="another's", tenant="another")
    for number in range(250):
        compare(made, HELPED, 1.0, scope=f"scope {number}")
    found = [(row.tenant, row.scope) for row in made.summary()]
    assert len(found) == 200 and ("another", "another's") in found and ("t", "scope 0") not in found


def test_an_action_answers_as_many_requests_as_may_all_be_lost() -> None:
    made = gate()
    compare(made, HELPED, 1.0, 30)
    served = [asked(made).noted.get("number") for _ in range(370)]
    numbers = [int(each) for each in served if each is not None]
    assert numbers and numbers[-1] <= 0.05 * 400


def test_what_one_worker_and_the_one_before_a_restart_did_counts_for_the_next() -> None:
    first, second = gate(), gate()
    for _ in range(1500):
        noted = asked(first).noted
        for each in (first, second):
            each.add("t", "scope", VECTOR, noted, HELPED, Compared(1.0))
    assert asked(first).open_actions() == asked(second).open_actions() == (HELPED,)
    assert asked(gate()).open_actions() == ()


def test_bad_checks_have_all_requests_compared_before_the_action_answers_again() -> None:
    made = gate()
    compare(made, HELPED, 1.0, 1500)
    compare(made, HELPED, 0.0)
    assert asked(made).open_actions() == (HELPED,), "a good engine errs now and then"
    compare(made, HELPED, 0.0, 2)
    proof = asked(made)
    assert proof.open_actions() == () and proof.share == 1.0
    compare(made, HELPED, 1.0, 600)
    assert asked(made).open_actions() == (HELPED,)


def test_what_is_seen_of_the_references_own_answers_is_kept_by_scope() -> None:
    made = gate()
    compare(made, HELPED, 1.0)
    for value in (1.0, 0.0):
        made.saw("t", "scope", {}, {"again": value, "reference": 1.0})
    (again,) = made.seen("t", "scope").values()
    assert (again.count, again.mean) == (2, 0.5) and again.low < 0.5 < again.high
    assert made.seen("t", "another") == {}


def test_what_was_proven_of_another_version_counts_for_nothing() -> None:
    first, second = Gate(("small",), 0.05, version=1.0), Gate(("small",), 0.05, version=2.0)
    told = [asked(first).noted] * 400

    for noted in told:
        opened = first.add("t", "scope", VECTOR, noted, HELPED, Compared(1.0))
        assert second.add("t", "scope", VECTOR, noted, HELPED, Compared(1.0)) == [] or not opened
    assert any(row.open for row in first.summary())
    assert asked(second).open_actions() == () and second.summary() == []


def test_who_does_not_know_the_version_shows_the_latest_one() -> None:
    shows = gate()
    for version, quality in ((1.0, 1.0), (2.0, 0.0)):
        noted = asked(Gate(("small",), 0.05, version=version)).noted
        shows.add("t", "scope", VECTOR, noted, HELPED, Compared(quality))
    assert [each.mean for each in shows.summary()] == [0.0]


def test_what_is_not_expected_to_be_proven_begins_anew_when_there_are_twice_as_many_examples() -> None:
    made = gate()
    compare(made, ALONE, 0.0, 30)
    compare(made, HELPED, 0.0, 30)

    def compare_once(bank: int) -> None:
        made.add("t", "scope", VECTOR, asked(made, bank=bank).noted, HELPED, Compared(0.0))

    compare_once(199)
    shut = asked(made, bank=199)
    assert shut.probing and shut.expected_more is None
    compare_once(200)
    anew = {standing.action: standing for standing in asked(made, bank=200).standings}
    assert anew[HELPED].expected_more is not None and anew[HELPED].compared == 1
    assert anew[ALONE].expected_more is None, "it gets no examples"


def test_what_may_yet_be_proven_goes_on_when_there_are_twice_as_many_examples() -> None:
    made = gate()
    compare(made, HELPED, 1.0, 60)
    made.add("t", "scope", VECTOR, asked(made, bank=1000).noted, HELPED, Compared(1.0))
    assert next(s.compared for s in asked(made).standings if s.action == HELPED) == 61


def test_what_answers_take_is_known_by_way_after_some() -> None:
    made = gate()
    for number in range(5):
        assert asked(made).seconds == {}
        noted = asked(made).noted
        made.add("t", "scope", VECTOR, noted, HELPED, Compared(1.0), seconds=2.0 + number)
        made.saw("t", "scope", noted, {}, seconds=1.0)
    assert asked(made).seconds == {key(HELPED): 4.0, "reference": 1.0}
    assert [(one.seconds, one.reference_seconds) for one in made.summary()] == [(4.0, 1.0)]


def test_a_new_fingerprint_closes_what_is_proven_of_the_engine_under_every_scope_and_it_is_proven_anew() -> (
    None
):
    made = gate()

    def tell(fingerprint: str, scope: str) -> list[bool]:
        noted = asked(made, scope, examples=False).noted
        told = made.add("t", scope, VECTOR, noted, ALONE, Compared(1.0), fingerprint=fingerprint)
        return [opening.turned.opened for opening in told]

    for scope in ("scope", "other"):
        for _ in range(150):
            tell("first", scope)
    assert [row.scope for row in made.summary() if row.open] == ["other", "scope"]
    assert tell("second", "scope") == [False, False]
    assert not any(row.open for row in made.summary())
    assert any(tell(each, "scope") == [True] for each in ["second", "first"] * 200)


def test_answers_of_another_length_close_the_way_under_its_scope() -> None:
    made = gate()

    def tell(length: float) -> list[bool]:
        noted = asked(made, examples=False).noted
        told = made.add("t", "scope", VECTOR, noted, ALONE, Compared(1.0, length=length))
        return [opening.turned.opened for opening in told]

    assert [turned for _ in range(200) for turned in tell(0.5)] == [True]
    assert next(turned for _ in range(100) for turned in tell(0.9)) is False


def test_without_an_embedding_what_holds_for_all_requests_decides_and_is_told_of() -> None:
    made = gate()
    assert not made.whole_is_open("t", "scope")
    compare(made, ALONE, 1.0, 1500)
    assert made.whole_is_open("t", "scope") and not made.whole_is_open("t", "other")
    proof = made.proof("t", "scope", None, EXAMPLES, 100)
    assert proof.open_actions() == (ALONE,) and proof.noted[WITHOUT_VECTOR] == 1.0
    assert proof.noted[key(ALONE)] == 0.0 and WITHOUT_VECTOR not in asked(made).noted
    compared = made.summary()[0].compared
    made.add("t", "scope", None, proof.noted, ALONE, Compared(1.0))
    assert made.summary()[0].compared == compared + 1
    regions = made._scopes["t", "scope", None].actions[ALONE]
    regions.divided = True
    assert not made.whole_is_open("t", "scope"), "parts decide"
