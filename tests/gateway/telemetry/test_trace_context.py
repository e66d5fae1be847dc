from __future__ import annotations

import pytest
from multidict import CIMultiDict

from gateway.telemetry.trace_context import continued

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_a_clients_trace_goes_on() -> None:
    trace = continued(0)(CIMultiDict(traceparent=f"00-{TRACE}-{SPAN}-01"))
    assert (trace.trace_id, trace.parent_id, trace.flags, trace.sampled) == (TRACE, SPAN, "01", True)
    assert len(trace.span_id) == 16 and trace.span_id != SPAN
    assert trace.traceparent("1" * 16) == f"00-{TRACE}-{'1' * 16}-01"


def test_a_client_that_does_not_sample_is_not_overruled() -> None:
    assert not continued(1)(CIMultiDict(traceparent=f"00-{TRACE}-{SPAN}-00")).sampled


def test_a_later_version_is_read_as_far_as_it_is_known() -> None:
    assert continued(1)(CIMultiDict(traceparent=f"cc-{TRACE}-{SPAN}-03-more")).flags == "01"


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "nonsense",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-0g",
        "00-" + "a" * 100_000,
    ],
)
def test_what_cannot_be_read_begins_a_new_trace(wrong: str) -> None:
    trace = continued(1)(CIMultiDict(traceparent=wrong))
    assert trace.trace_id != TRACE and not trace.parent_id and trace.sampled


def test_two_of_them_are_none() -> None:
    given = f"00-{TRACE}-{SPAN}-01"
    assert not continued(1)(CIMultiDict([("traceparent", given), ("traceparent", given)])).parent_id


def test_a_share_of_new_traces_is_sampled() -> None:
    draws = iter([0.1, 0.9])
    trace_of = continued(0.5, draws.__next__)
    assert [trace_of(CIMultiDict()).sampled for _ in range(2)] == [True, False]
