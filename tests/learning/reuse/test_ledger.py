from __future__ import annotations

from collections import Counter

import pytest

from learning.reuse.ledger import GRACE_CAUGHT, MAX_PHASES, Ledger, ReuseSettings, Standing, Written

SETTINGS = ReuseSettings(delta=0.05)


def labelled(ledger: Ledger, rung: int, right: int, wrong: int) -> list[Written]:
    """So many comparisons of candidates on one rung, not audits, the wrong ones spread evenly."""
    written: list[Written] = []
    for number in range(right + wrong):
        is_wrong = bool(wrong) and number % ((right + wrong) // wrong) == 0
        written.extend(ledger.add_label(0.95, not is_wrong, rung, audit=False))
    return written


def by_phase(written: list[Written]) -> dict[int, Counter[tuple[str, int]]]:
    """What a store that added all of it up would give back."""
    kept: dict[int, Counter[tuple[str, int]]] = {}
    for each in written:
        kept.setdefault(each.phase, Counter()).update(each.counts)
    return kept


def test_nothing_is_proven_before_anything_was_compared() -> None:
    ledger = Ledger(SETTINGS)
    assert ledger.proven() == -1
    assert ledger.standing() is Standing.OPEN


def test_a_rung_is_never_proven_by_what_another_one_earned() -> None:
    ledger = Ledger(SETTINGS)
    labelled(ledger, 0, 1000, 0)
    assert ledger.proven() == 0, "nobody has looked at the others"
    labelled(ledger, 4, 60, 60)
    assert 0 <= ledger.proven() < 4


def test_a_block_is_never_open_once_its_mean_is_too_bad() -> None:
    ledger = Ledger(SETTINGS)
    labelled(ledger, 0, 1000, 0)
    labelled(ledger, 3, 100, 25)
    labelled(ledger, 8, 1000, 0)
    assert ledger.proven() == 8, "a block is judged by its mean: good rungs do pay for rung 3"
    labelled(ledger, 8, 0, 300)
    assert ledger.proven() < 8


def test_a_proof_is_lost_when_what_it_stands_on_turns_out_wrong() -> None:
    ledger = Ledger(SETTINGS)
    labelled(ledger, 0, 300, 0)
    before = ledger.proven()
    labelled(ledger, 0, 0, 40)
    assert before >= 0 > ledger.proven()


def test_a_row_of_wrong_audits_never_goes_unheard() -> None:
    ledger = Ledger(SETTINGS)
    labelled(ledger, 0, 5000, 0)
    for _ in range(5000):
        ledger.add_reuse()
    heard = 0
    while ledger.phase == 0:
        ledger.add_label(0.95, False, 0, audit=True)
        heard += 1
    assert heard <= 10
    assert ledger.proven() == -1, "every proof is taken back"


def test_audits_that_are_seldom_wrong_do_not_stop_reuse() -> None:
    ledger = Ledger(SETTINGS)
    labelled(ledger, 0, 1000, 0)
    for number in range(3000):
        for _ in range(9):
            ledger.add_reuse()
        ledger.add_label(0.95, number % 50 != 0, 0, audit=True)
    assert ledger.phase == 0


def test_reuse_never_goes_on_beyond_what_the_audits_allow() -> None:
    ledger = Ledger(ReuseSettings(delta=0.01))
    assert ledger.standing() is Standing.OPEN
    for number in range(GRACE_CAUGHT + 1):
        # Far enough apart that no alarm is heard.
        for _ in range(0 if number == GRACE_CAUGHT else 150):
            ledger.add_label(0.95, True, 0, audit=True)
        ledger.add_label(0.95, False, 0, audit=True)
    assert ledger.phase == 1


def test_what_has_stopped_too_often_never_starts_again_by_itself() -> None:
    ledger = Ledger(SETTINGS)
    for _ in range(MAX_PHASES):
        ledger.restart()
    labelled(ledger, 0, 100_000 // 20, 0)
    assert ledger.standing() is Standing.GIVEN_UP


def test_a_later_phase_never_spends_the_confidence_of_an_earlier_one() -> None:
    spent = 0.0
    ledger = Ledger(SETTINGS)
    for _ in range(2000):
        spent += ledger._alpha()
        ledger.restart()
    assert spent <= SETTINGS.alpha / 2


def test_what_was_kept_is_never_other_than_what_was_counted() -> None:
    ledger = Ledger(SETTINGS)
    written = labelled(ledger, 1, 400, 4) + labelled(ledger, 6, 30, 30)
    written += [ledger.add_reuse() for _ in range(50)]
    written += [*ledger.add_label(0.91, False, 1, audit=True), ledger.restart()]
    written += labelled(ledger, 2, 300, 1)

    restored = Ledger(SETTINGS)
    restored.restore(by_phase(written))

    assert restored.phase == ledger.phase == 1
    assert restored.proven() == ledger.proven()
    assert restored.standing() is ledger.standing()
    for kind, slot in (("labelled", 2), ("mistaken", 2), ("right", 95), ("wrong", 91), ("reused", 0)):
        assert restored.count(kind, slot) == ledger.count(kind, slot)
    assert restored.line().lower(0.95, 1.0) == pytest.approx(ledger.line().lower(0.95, 1.0), abs=0.01)


def test_no_similarity_falls_outside_the_histogram() -> None:
    ledger = Ledger(SETTINGS)
    for similarity in (-1.0, -0.001, 0.0, 0.999999, 1.0, 1.0001):
        ledger.add_label(similarity, True, None, audit=False)
    assert sum(ledger.count("right", bin) for bin in range(100)) == 6
