"""Which headers are found new with every request, and which repeats are counted as missed for one header alone."""

from __future__ import annotations

from multidict import CIMultiDict
from prometheus_client import CollectorRegistry

from gateway.same_request import SameRequest
from gateway.unique_headers import NEW_EACH_TIME, HeaderMetrics, SeenHeaders


class Stage:
    """Requests to a server that nobody knows."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.seen = SeenHeaders(HeaderMetrics(self.registry))
        self.same = SameRequest(always=["x-of-settings"], seen=self.seen)

    def key(self, otherwise: bytes = b"a", /, **headers: str) -> bytes:
        named = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
        return self.same.key(otherwise, named, others=True)

    def missed(self, header: str) -> float | None:
        return self.registry.get_sample_value("understudy_exact_missed_total", {"header": header})


def test_a_header_that_is_new_every_time_is_dropped_and_one_that_repeats_is_not() -> None:
    stage = Stage()
    keys = {stage.key(cf_ray=f"{n}", x_trace=f"t{n}", x_mode=f"{n % 2}") for n in range(NEW_EACH_TIME)}
    assert len(keys) == NEW_EACH_TIME and stage.seen.dropped == {"cf-ray", "x-trace"}
    assert stage.key(cf_ray="x", x_mode="0") == stage.key(cf_ray="y", x_trace="z", x_mode="0")
    assert stage.key(x_mode="0") != stage.key(x_mode="1")
    labels = {"header": "cf-ray"}
    assert stage.registry.get_sample_value("understudy_exact_dropped_total", labels) == 1


def test_a_header_that_came_twice_the_same_is_not_dropped() -> None:
    stage = Stage()
    for n in range(2 * NEW_EACH_TIME):
        stage.key(x_route=f"{n // 2}", x_at=f"{n}")
    assert stage.seen.dropped == {"x-at"}


def test_what_says_who_asks_is_never_dropped() -> None:
    stage = Stage()
    for n in range(3 * NEW_EACH_TIME):
        stage.key(x_user_id=f"{n}", openai_project=f"{n}", x_of_settings=f"{n}", x_auth_token=f"{n}")
    assert not stage.seen.dropped


def test_requests_that_differ_otherwise_teach_nothing() -> None:
    stage = Stage()
    for n in range(3 * NEW_EACH_TIME):
        stage.key(b"%d" % n, cf_ray=f"{n}")
    assert not stage.seen.dropped and stage.missed("cf-ray") is None


def test_a_repeat_is_counted_as_missed_for_the_one_header_that_differs() -> None:
    stage = Stage()
    stage.key(x_a="1", x_b="1")
    stage.key(x_a="1", x_b="1")
    assert stage.missed("x-a") is None
    stage.key(x_a="2", x_b="1")
    stage.key(x_a="3", x_b="2")
    assert (stage.missed("x-a"), stage.missed("x-b")) == (1, None)


def test_names_that_clients_make_up_fill_neither_memory_nor_metrics() -> None:
    stage = Stage()
    for n in range(2000):
        stage.key(b"%d" % n, x_a="1")
        stage.key(b"%d" % n, x_a="1", **{f"x-{n}": "1"})
    assert len(stage.seen._of) <= 256 and len(stage.seen._names) <= 50
    assert (stage.missed("other") or 0) > 0
    stage.key(b"b", **{f"x-{n}": "1" for n in range(100)})
    assert b"b" not in stage.seen._of
