"""Work is left out in order, one kind at a time, and given back the later the sooner the load came back."""

from typing import Any

from router.shedding import ORDER, Shedding

CALM: dict[str, float] = {"lag_s": 0.001, "waits": 0.0, "core_share": 0.3}
LATE = CALM | {"lag_s": 0.2}


class Looks:
    """Looks four times a second."""

    def __init__(self) -> None:
        self.shedding = Shedding()
        self.now_s = 100.0

    def at(self, load: dict[str, Any], seconds: float) -> list[int]:
        levels = []
        for _ in range(round(seconds * 4)):
            self.now_s += 0.25
            self.shedding.look(self.now_s, **load)
            levels.append(self.shedding.level)
        return levels

    def until_nothing_is_shed(self) -> float:
        began_s = self.now_s
        while self.shedding.level:
            self.at(CALM, 0.25)
        return self.now_s - began_s


def test_one_kind_more_is_left_out_at_every_look_that_finds_the_loop_late() -> None:
    assert Looks().at(LATE, 2) == [0, 1, 2, 3, 4, 5, 5, 5]


def test_requests_that_wait_long_for_their_decisions_are_load_too() -> None:
    assert Looks().at(CALM | {"waits": 0.8}, 1)[-1] == 3


def test_a_single_stall_is_no_load() -> None:
    looks = Looks()
    assert looks.at(LATE, 0.25) == [0] and looks.at(CALM, 1)[-1] == 0


def test_a_core_in_use_sheds_only_what_asks_engines_beside_the_clients() -> None:
    looks = Looks()
    assert looks.at(CALM | {"core_share": 1.4}, 30)[-1] == ORDER.index("texts")
    looks.at(LATE | {"core_share": 1.4}, 2)
    assert looks.shedding.level == len(ORDER)
    assert looks.at(CALM | {"core_share": 1.4}, 60)[-1] == ORDER.index("texts")


def test_between_the_bounds_nothing_changes() -> None:
    looks = Looks()
    looks.at(LATE, 1)
    level = looks.shedding.level
    assert set(looks.at(CALM | {"lag_s": 0.03}, 30)) == {level}


def test_what_is_left_out_comes_back_one_by_one() -> None:
    looks = Looks()
    looks.at(LATE, 2)
    assert looks.at(CALM, 12)[7::8] == [5, 4, 3, 2, 1, 0]


def test_it_comes_back_later_where_the_load_came_back_soon() -> None:
    looks = Looks()
    looks.at(LATE, 2)
    first_s = looks.until_nothing_is_shed()
    looks.at(LATE, 2)
    assert looks.until_nothing_is_shed() > 1.8 * first_s
    looks.at(CALM, 600)
    looks.at(LATE, 2)
    assert looks.until_nothing_is_shed() == first_s


def test_only_what_is_left_out_is_counted() -> None:
    looks = Looks()
    looks.at(LATE, 0.75)
    assert [looks.shedding.sheds(work) for work in ORDER] == [True, True, False, False, False]
    assert looks.shedding.holds("shadow") and not looks.shedding.holds("texts")
    assert list(looks.shedding.shed.values()) == [1, 1, 0, 0, 0]
